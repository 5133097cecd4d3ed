//! A connection that is lent for one operation, and the statements that are sent over it.
//!
//! Invariant: a connection goes back to the pool only when nothing is under way on it. When the
//! caller gave up or the connection failed, it is closed instead, and the server rolls back.

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::future::try_join;
use postgres_types::ToSql;
use roundsman_core::failpoint;
use tokio_postgres::{CopyInSink, Error, Row, RowStream};

use super::error::Failure;

/// Values for the parameters of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A lent connection.
#[derive(Debug)]
pub(super) struct Session {
    object: Option<Object>,
    transaction: Transaction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    /// Asked for; sent together with the next statement, which saves a round trip.
    Wanted,
    Open,
}

impl Session {
    pub(super) fn new(object: Object) -> Self {
        Session { object: Some(object), transaction: Transaction::None }
    }

    /// Makes all that follows one transaction, until [`Session::commit`].
    pub(super) fn begin(&mut self) {
        self.transaction = Transaction::Wanted;
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        if self.transaction == Transaction::Open {
            failpoint::hit("postgres.committing");
            self.client().batch_execute("COMMIT").await.map_err(Failure::Commit)?;
            failpoint::hit("postgres.committed");
        }
        self.transaction = Transaction::None;
        Ok(())
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        if self.transaction != Transaction::Wanted {
            return self.client().query(&statement, values).await;
        }
        self.transaction = Transaction::Open;
        let client = self.client();
        let ((), rows) =
            try_join(client.batch_execute("BEGIN"), client.query(&statement, values)).await?;
        Ok(rows)
    }

    /// The one row of a statement that gives at most one.
    pub(super) async fn query_opt(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<u64, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        if self.transaction != Transaction::Wanted {
            return self.client().execute(&statement, values).await;
        }
        self.transaction = Transaction::Open;
        let client = self.client();
        let ((), count) =
            try_join(client.batch_execute("BEGIN"), client.execute(&statement, values)).await?;
        Ok(count)
    }

    /// The rows of a statement one after the other, as the server finds them.
    pub(super) async fn stream(&mut self, sql: &'static str) -> Result<RowStream, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        self.open().await?;
        let no_values: [&(dyn ToSql + Sync); 0] = [];
        self.client().query_raw(&statement, no_values).await
    }

    /// Starts a COPY into a table.
    pub(super) async fn copy_in(
        &mut self,
        sql: &'static str,
    ) -> Result<CopyInSink<bytes::Bytes>, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        self.open().await?;
        self.client().copy_in(&statement).await
    }

    /// Runs statements without parameters, such as settings or a migration.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.open().await?;
        self.client().batch_execute(sql).await
    }

    pub(super) fn client(&self) -> &ClientWrapper {
        self.object.as_ref().expect("lent until it is given back")
    }

    /// Returns the connection to the pool after success.
    pub(super) fn give_back(mut self) {
        // An operation that forgot to commit would leave its transaction to the next caller.
        if self.transaction != Transaction::Open {
            drop(self.object.take());
        }
    }

    /// Undoes what was begun and goes on without a transaction.
    pub(super) async fn undo(&mut self) -> Result<(), Error> {
        if self.transaction == Transaction::Open {
            self.client().batch_execute("ROLLBACK").await?;
        }
        self.transaction = Transaction::None;
        Ok(())
    }

    /// Undoes what was begun and returns the connection to the pool.
    pub(super) async fn roll_back(mut self) {
        if self.undo().await.is_ok() {
            self.give_back();
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        if self.transaction == Transaction::Wanted {
            self.transaction = Transaction::Open;
            self.client().batch_execute("BEGIN").await?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
