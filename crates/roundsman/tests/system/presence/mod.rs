//! Who is in which room, with everything real but Daily: a server or two, their databases and Redis,
//! HTTP in both directions, and a stand-in for Daily that knows who was there when.
//!
//! What must be true at every end: the record is what the stand-in knows. Whoever is there has one
//! open session, whoever left has one that is closed, and the number of clients is the number of the
//! open ones.

mod churn;
mod door;
mod events;
mod fencing;
mod kill;
mod meeting;
mod nodes;
mod outages;
mod place;
mod provider_errors;
mod record;
mod seed_000;
mod subscription;
mod user_flow;
mod webhook_route;

/// Makes two tests of each function, one for each way to run a server.
macro_rules! on_both {
    ($($name:ident)*) => {
        $(
            mod $name {
                use crate::site::Backend;

                #[tokio::test]
                async fn on_sqlite() {
                    super::$name(Backend::Sqlite).await.unwrap();
                }

                #[tokio::test]
                async fn on_postgres() {
                    super::$name(Backend::Postgres).await.unwrap();
                }
            }
        )*
    };
}

pub(crate) use on_both;
