//! A connection that is lent for one operation, and the statements that are sent over it.
//!
//! Invariant: a connection goes back to the pool only when nothing is under way on it. When the
//! caller gave up or the connection failed, it is closed instead, and the server rolls back.

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::future::{try_join, try_join_all};
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
    /// Asked for with these words; sent together with the next statement, which saves a round trip.
    Wanted(&'static str),
    Open,
}

impl Session {
    pub(super) fn new(object: Object) -> Self {
        Session { object: Some(object), transaction: Transaction::None }
    }

    /// Makes all that follows one transaction, until [`Session::commit`].
    pub(super) fn begin(&mut self) {
        self.transaction = Transaction::Wanted("BEGIN");
    }

    /// Makes all that follows one look at the same moment, until [`Session::commit`].
    pub(super) fn begin_snapshot(&mut self) {
        self.transaction = Transaction::Wanted("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
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
        let Some(begin) = self.opening() else {
            return self.client().query(&statement, values).await;
        };
        let client = self.client();
        let ((), rows) =
            try_join(client.batch_execute(begin), client.query(&statement, values)).await?;
        Ok(rows)
    }

    /// The rows of several statements that are sent at once. The server runs them one after the
    /// other, each seeing what the ones before it did and what others committed meanwhile.
    pub(super) async fn query_all<const N: usize>(
        &mut self,
        statements: [(&'static str, Values<'_>); N],
    ) -> Result<[Vec<Row>; N], Error> {
        let mut prepared = Vec::with_capacity(N);
        for (sql, values) in statements {
            prepared.push((self.client().prepare_cached(sql).await?, values));
        }
        let begin = self.opening();
        let client = self.client();
        let queries = prepared.iter().map(|(statement, values)| client.query(statement, values));
        // Futures are first polled in this order, and that is when they send.
        let rows = match begin {
            Some(begin) => try_join(client.batch_execute(begin), try_join_all(queries)).await?.1,
            None => try_join_all(queries).await?,
        };
        Ok(rows.try_into().expect("one answer for each statement"))
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
        let Some(begin) = self.opening() else {
            return self.client().execute(&statement, values).await;
        };
        let client = self.client();
        let ((), count) =
            try_join(client.batch_execute(begin), client.execute(&statement, values)).await?;
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
        if let Some(begin) = self.opening() {
            self.client().batch_execute(begin).await?;
        }
        Ok(())
    }

    /// The words that begin the transaction, if one is wanted: to be sent before anything else.
    fn opening(&mut self) -> Option<&'static str> {
        let Transaction::Wanted(begin) = self.transaction else {
            return None;
        };
        self.transaction = Transaction::Open;
        Some(begin)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
