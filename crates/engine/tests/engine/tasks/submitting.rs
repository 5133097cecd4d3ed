//! Sending tasks: what is sent once is paid once, whatever happens around it (L-2, L-7).

use roundsman_core::ports::{
    FailureCode, Idempotency, Refusal, Scope, Submitted, TaskFailure, TaskFilter, TaskStore,
};
use roundsman_core::tasks::{SUBMIT_UNKNOWN, TaskStage, TaskStatus};

use super::outside::{Generator, OnSubmit, picture};
use super::{TaskWorld, head_of};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until, until_running};

on_every_database! {
    a_synchronous_generator_completes_at_once
    a_crash_between_sending_and_storing_is_never_paid_twice
    an_answer_that_was_lost_is_asked_for
    a_refusal_is_tried_again_or_ends_it
    a_service_takes_no_more_than_its_slots
    a_task_that_is_cancelled_while_it_is_sent_is_cancelled_there_too
}

async fn a_synchronous_generator_completes_at_once(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.generator.on_submit(OnSubmit::Complete(picture()));
    let made = world.make().await;
    assert_eq!((made.status, made.stage), (TaskStatus::Pending, TaskStage::Waiting));
    world.run_due().await;
    let over = world.task(&made).await;
    assert_eq!(over.status, TaskStatus::Completed, "{over:?}");
    let url = over.result_url.clone().unwrap();
    assert_eq!(url, format!("/results/{}/0", over.result_key));
    let file = world.tasks.file(&over.result_key, 0).await.unwrap().expect("it is kept");
    assert_eq!((file.bytes, file.media_type.as_deref()), (9, Some("image/png")));
    assert_eq!(world.tasks.file(&over.result_key, 1).await.unwrap(), None);
    assert_eq!((world.shelf.len(), head_of(&world).await), (1, 1));
    assert_eq!(world.notebook.told(), [format!("{} completed", over.id)]);
    // Its round finds nothing and rests.
    world.pass(secs(30)).await;
    assert_eq!(world.generator.asked(), Vec::<String>::new());
    let names = world.alarm_names().await;
    assert_eq!(names, ["snapshot"], "the document is dirty, and nothing is polled");
    world.check().await;
}

async fn a_crash_between_sending_and_storing_is_never_paid_twice(backend: Backend) {
    let expected = [
        (Idempotency::None, TaskStatus::Failed, Some(SUBMIT_UNKNOWN)),
        (Idempotency::LookUp, TaskStatus::Processing, None),
        (Idempotency::Repeat, TaskStatus::Processing, None),
    ];
    for (idempotency, status, code) in expected {
        let generator = Generator::with("kling", |can| can.idempotency = idempotency);
        let mut world = TaskWorld::with(backend, generator).await;
        world.generator.on_submit(OnSubmit::TakenThenHang);
        let made = world.make().await;
        world.worker.claim_tick().await.unwrap();
        until("it is sent", || world.generator.paid() == 1).await;
        assert_eq!(world.task(&made).await.stage, TaskStage::Sending, "written before it is sent");
        world.die().await;
        world.run_due().await;
        let found = world.task(&made).await;
        assert_eq!((found.status, found.error_code()), (status, code), "{idempotency:?}");
        assert_eq!(world.generator.paid(), 1, "{idempotency:?}");
        if status == TaskStatus::Processing {
            assert_eq!(found.external_task_id.as_deref(), Some("ext-1"));
            world.assert_looked_after().await;
        }
        world.check().await;
    }
}

async fn an_answer_that_was_lost_is_asked_for(backend: Backend) {
    // Nobody can be asked.
    let world = TaskWorld::new(backend).await;
    world.generator.on_submit(OnSubmit::TakenAnswerLost);
    let made = world.make().await;
    world.run_due().await;
    let over = world.task(&made).await;
    assert_eq!((over.status, over.error_code()), (TaskStatus::Failed, Some(SUBMIT_UNKNOWN)));
    world.jump(secs(600)).await;
    assert_eq!((world.generator.submissions(), world.generator.paid()), (1, 1));
    assert_eq!(world.notebook.told(), [format!("{} failed", over.id)], "the document knows, too");
    world.check().await;

    // It is found by its key, at the third try.
    let generator = Generator::with("kling", |can| can.idempotency = Idempotency::LookUp);
    let world = TaskWorld::with(backend, generator).await;
    world.generator.on_submit(OnSubmit::TakenAnswerLost);
    world.generator.unclear_look_ups(2);
    let made = world.make().await;
    world.pass(secs(60)).await;
    assert_eq!(world.task(&made).await.status, TaskStatus::Processing);
    assert_eq!((world.generator.submissions(), world.generator.paid()), (1, 1));

    // It never arrived: when it cannot be on its way any more it is sent again.
    world.generator.on_submit(OnSubmit::LostOnTheWay);
    let made = world.make().await;
    world.pass(secs(50)).await;
    assert_eq!(world.task(&made).await.stage, TaskStage::Sending, "it may still be on its way");
    world.pass(secs(60)).await;
    assert_eq!(world.task(&made).await.status, TaskStatus::Processing);
    assert_eq!((world.generator.submissions(), world.generator.paid()), (3, 2));

    // Nobody ever says: it ends, and says what is not known.
    world.generator.on_submit(OnSubmit::LostOnTheWay);
    world.generator.unclear_look_ups(u32::MAX);
    let made = world.make().await;
    world.run_due().await;
    world.jump(secs(7200)).await;
    assert_eq!(world.task(&made).await.error_code(), Some(SUBMIT_UNKNOWN));
    world.check().await;
}

async fn a_refusal_is_tried_again_or_ends_it(backend: Backend) {
    let refused = |code: FailureCode, is_retryable| {
        let (message, retry_after) = (code.to_string(), None);
        OnSubmit::Answer(Submitted::Refused(Refusal { code, message, is_retryable, retry_after }))
    };
    let world = TaskWorld::new(backend).await;
    world.generator.on_submit(refused(FailureCode::Billing, false));
    let broke = world.make().await;
    world.run_due().await;
    assert_eq!(world.task(&broke).await.error_code(), Some("billing"), "429 is not always a pause");

    world.generator.on_submit(refused(FailureCode::Provider, true));
    let patient = world.make().await;
    world.run_due().await;
    let waiting = world.task(&patient).await;
    assert_eq!((waiting.status, waiting.stage), (TaskStatus::Pending, TaskStage::Waiting));
    assert_eq!(waiting.error_code(), Some("provider"), "whoever looks sees why it waits");
    world.pass(secs(10)).await;
    assert_eq!(world.task(&patient).await.status, TaskStatus::Processing);

    for _ in 0..30 {
        world.generator.on_submit(refused(FailureCode::Busy, true));
    }
    let busy = world.make().await;
    world.pass(secs(400)).await;
    assert_eq!(world.task(&busy).await.status, TaskStatus::Processing, "waiting is no failure");

    for _ in 0..8 {
        world.generator.on_submit(refused(FailureCode::Unavailable, true));
    }
    let unlucky = world.make().await;
    for _ in 0..10 {
        world.jump(secs(310)).await;
    }
    assert_eq!(world.task(&unlucky).await.error_code(), Some("unavailable"));
    let failure = TaskFailure { code: FailureCode::ContentPolicy, message: "no".to_owned() };
    world.generator.on_submit(OnSubmit::Answer(Submitted::Failed(failure)));
    let refused = world.make().await;
    world.run_due().await;
    assert_eq!(world.task(&refused).await.error_code(), Some("content_policy"));
    world.check().await;
}

async fn a_service_takes_no_more_than_its_slots(backend: Backend) {
    let generator = Generator::with("kling", |can| can.slots_max = Some(2));
    let world = TaskWorld::with(backend, generator).await;
    for _ in 0..4 {
        world.make().await;
    }
    world.run_due().await;
    assert_eq!(world.generator.paid(), 2);
    world.pass(secs(9)).await;
    assert_eq!(world.generator.paid(), 2, "nobody else has a slot");
    world.generator.succeeds("ext-1");
    world.pass(secs(15)).await;
    assert_eq!(world.generator.paid(), 3, "one has come free");
    let all = world.world.store.tasks(Scope::All, TaskFilter::default(), None, 10).await.unwrap();
    let second = all.iter().find(|task| task.external_task_id.as_deref() == Some("ext-2"));
    world.tasks.cancel(Scope::All, &second.unwrap().id.to_string()).await.unwrap();
    world.pass(secs(5)).await;
    assert_eq!(world.generator.paid(), 4);
    world.check().await;
}

async fn a_task_that_is_cancelled_while_it_is_sent_is_cancelled_there_too(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let gate = world.world.store.hold("change_task");
    let made = world.make().await;
    world.worker.claim_tick().await.unwrap();
    // That it is being sent is written; whoever sends it waits.
    gate.reached().await;
    world.world.store.hold_no_more();
    world.tasks.cancel(Scope::All, &made.id.to_string()).await.unwrap();
    gate.open();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    let over = world.task(&made).await;
    assert_eq!(over.status, TaskStatus::Cancelled);
    assert_eq!(world.generator.cancelled(), ["ext-1"], "what was taken all the same is given back");
    assert_eq!(world.notebook.told().len(), 1);
    world.check().await;
}
