//! What an operator is told about tables that somebody has changed.

use super::*;
use crate::advice::Grade;

/// What is found about the autovacuum of hot tables, if anything is wrong with it.
async fn found(store: &PostgresStore) -> Vec<String> {
    let advice = store.advise().await.unwrap().into_iter();
    let of_tables = advice.filter(|one| one.subject == "autovacuum of hot tables");
    let wrong = of_tables.filter(|one| one.grade != Grade::Fine);
    let told = wrong.inspect(|one| assert!(one.todo.contains("autovacuum"), "{one:?}"));
    told.map(|one| one.found).collect()
}

#[tokio::test]
async fn hot_tables_that_are_not_vacuumed_as_they_should_be_are_named() {
    let (store, database) = store().await;
    let operator = database.connect().await.unwrap();
    let alter = async |what: &str| {
        operator.batch_execute(&format!("ALTER TABLE roundsman.job_queue {what}")).await.unwrap();
    };
    assert_eq!(found(&store).await, Vec::<String>::new(), "as they were made");
    alter("SET (autovacuum_enabled = false)").await;
    assert_eq!(found(&store).await, ["job_queue is never vacuumed by itself"]);
    alter("RESET (autovacuum_enabled, autovacuum_vacuum_scale_factor)").await;
    assert_eq!(found(&store).await, ["job_queue has no autovacuum settings of its own"]);
}
