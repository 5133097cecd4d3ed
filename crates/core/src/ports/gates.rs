//! The gates in the database, so that all nodes agree on them.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::jobs::{Gate, GateChange, GateName};

/// Keeps gates. Claims look at them in the transaction that claims: see [`super::JobStore::claim`].
#[async_trait]
pub trait GateStore: Send + Sync {
    /// Makes or changes a gate. With new limits its buckets are full. A gate that asks for nothing any
    /// more is taken away.
    async fn change_gate(
        &self,
        name: GateName,
        change: GateChange,
        now: Timestamp,
    ) -> Result<Gate, StoreError>;

    /// The gates with these names that exist, by name.
    async fn gates(&self, names: Vec<GateName>) -> Result<Vec<Gate>, StoreError>;

    /// All gates, by name, after this one.
    async fn all_gates(
        &self,
        after: Option<GateName>,
        rows_max: u32,
    ) -> Result<Vec<Gate>, StoreError>;
}
