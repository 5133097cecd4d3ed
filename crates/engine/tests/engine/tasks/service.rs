//! What users, generators and other services may ask for.

use roundsman_core::ports::{Scope, TaskFilter, WebhookDelivery};
use roundsman_core::tasks::TaskStatus;
use roundsman_engine::Error;
use roundsman_engine::tasks::{HintError, TaskWish};
use serde_json::json;

use super::outside::{Generator, OnSubmit, picture};
use super::{PROJECT, TaskWorld, new_user, project, wish};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    whoever_makes_a_task_is_told_what_became_of_sending_it
    what_cannot_be_done_is_refused
    a_project_belongs_to_whoever_names_it_first
    a_webhook_is_only_a_hint
    a_retry_is_another_task
}

async fn whoever_makes_a_task_is_told_what_became_of_sending_it(backend: Backend) {
    let wait = |options: &mut roundsman_engine::tasks::TaskOptions| options.submit_wait = secs(60);
    let world = TaskWorld::with_options(backend, Generator::new("kling"), wait).await;
    for (submit, status) in [
        (OnSubmit::Accept, TaskStatus::Processing),
        (OnSubmit::Complete(picture()), TaskStatus::Completed),
    ] {
        world.generator.on_submit(submit);
        let making = {
            let (tasks, user) = (world.tasks.clone(), world.user);
            world.world.tasks.spawn(async move { tasks.create(user, wish(PROJECT)).await.unwrap() })
        };
        let made = roundsman_testkit::eventually(secs(10), async || {
            world.run_due().await;
            making.is_finished().then_some(())
        });
        made.await.unwrap();
        assert_eq!(making.await.unwrap().status, status, "as it is now, not as it was made");
    }
    world.check().await;
}

async fn what_cannot_be_done_is_refused(backend: Backend) {
    let few =
        |options: &mut roundsman_engine::tasks::TaskOptions| options.tasks_per_project_max = 1;
    let world = TaskWorld::with_options(backend, Generator::new("kling"), few).await;
    let wrong = [
        ("project_id", TaskWish { project_id: String::new(), ..wish(PROJECT) }),
        ("task_type", TaskWish { task_type: "painting".to_owned(), ..wish(PROJECT) }),
        ("params", TaskWish { params: json!([]), ..wish(PROJECT) }),
        ("params", TaskWish { params: json!({}), ..wish(PROJECT) }),
        ("params", TaskWish { params: json!({ "prompt": "a\0b" }), ..wish(PROJECT) }),
        ("node_id", TaskWish { node_id: Some("\n".to_owned()), ..wish(PROJECT) }),
        ("max_retries", TaskWish { max_retries: Some(0), ..wish(PROJECT) }),
    ];
    for (field, wish) in wrong {
        match world.tasks.create(world.user, wish).await {
            Err(Error::Invalid(errors)) => assert_eq!(errors[0].field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let long = json!({ "prompt": "x".repeat(300_000) });
    let large = world.tasks.create(world.user, TaskWish { params: long, ..wish(PROJECT) }).await;
    assert!(matches!(large, Err(Error::TooLarge { field: "params", .. })), "{large:?}");
    assert_eq!(world.generator.submissions(), 0, "nobody was paid for a mistake");
    world.make().await;
    let more = world.tasks.create(world.user, wish(PROJECT)).await;
    assert!(matches!(more, Err(Error::Invalid(_))), "one project has so many tasks");
    world.check().await;
}

async fn a_project_belongs_to_whoever_names_it_first(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.make().await;
    let bob = new_user(&world.world, "bob@example.org").await;
    let foreign = world.tasks.create(bob, wish(PROJECT)).await;
    assert!(matches!(foreign, Err(Error::Forbidden { .. })), "{foreign:?}");
    let id = task.id.to_string();
    assert_eq!(world.tasks.get(Scope::User(bob), &id).await.unwrap(), None);
    assert!(world.tasks.cancel(Scope::User(bob), &id).await.is_err());
    assert!(world.tasks.retry(Scope::User(bob), &id).await.is_err());
    let filter = TaskFilter { project: Some(project()), ..TaskFilter::default() };
    let listed = world.tasks.list(Scope::User(bob), filter.clone(), None, 10).await.unwrap();
    assert_eq!(listed, []);
    let listed = world.tasks.list(Scope::User(world.user), filter, None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(world.alarms.list(Scope::User(bob), &project()).await.is_err());
}

async fn a_webhook_is_only_a_hint(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let good = [("x-signature".to_owned(), "good".to_owned())];
    let bad = [("x-signature".to_owned(), "bad".to_owned())];
    let delivery = |headers, body| WebhookDelivery { headers, query: "", body };
    let forged = world.tasks.hint("kling", &delivery(&bad, b"ext-1")).await;
    assert!(matches!(forged, Err(HintError::Unverified(_))), "{forged:?}");
    let nobody = world.tasks.hint("painting", &delivery(&good, b"ext-1")).await;
    assert!(matches!(nobody, Err(HintError::NoService)), "{nobody:?}");
    assert!(!world.tasks.hint("kling", &delivery(&good, b"ext-9")).await.unwrap());
    // It says that something happened, and nothing has.
    world.pass(secs(2)).await;
    assert!(world.tasks.hint("kling", &delivery(&good, b"ext-1")).await.unwrap());
    world.run_due().await;
    assert_eq!(world.generator.asked(), ["ext-1"], "asked at once");
    assert_eq!(world.task(&task).await.status, TaskStatus::Processing, "and not believed");
    world.generator.succeeds("ext-1");
    for _ in 0..3 {
        assert!(world.tasks.hint("kling", &delivery(&good, b"ext-1")).await.unwrap());
    }
    world.run_due().await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    assert_eq!(world.notebook.told().len(), 1, "however often it was said");
    world.check().await;
}

async fn a_retry_is_another_task(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.generator.on_submit(OnSubmit::TakenAnswerLost);
    let task = world.make().await;
    let id = task.id.to_string();
    assert!(world.tasks.retry(Scope::All, &id).await.is_err(), "it is not over");
    world.run_due().await;
    let failed = world.task(&task).await;
    assert_eq!(failed.status, TaskStatus::Failed);
    let again = world.tasks.retry(Scope::User(world.user), &id).await.unwrap();
    assert_eq!((again.retry_of, again.params.clone()), (Some(task.id), task.params.clone()));
    assert_ne!(again.submit_key, task.submit_key, "paid for anew, because somebody wished it");
    world.generator.succeeds("ext-2");
    world.pass(secs(15)).await;
    assert_eq!(world.task(&again).await.status, TaskStatus::Completed);
    assert_eq!(world.task(&task).await, failed, "what became of the first stays true");
    world.check().await;
}
