use proptest::prelude::*;

use super::*;
use crate::rooms::{ProjectId, TaskOutcome};
use crate::tasks::{NewTask, TaskId, TaskType, completion, new_task};
use crate::users::UserId;

const RULES: TaskRules = TaskRules {
    poll_every: Duration::from_secs(10),
    deadline: Duration::from_secs(7200),
    max_retries: 3,
};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}

fn made() -> Task {
    let wish = NewTask {
        user_id: UserId::new(7),
        project_id: ProjectId::new("p").unwrap(),
        task_type: TaskType::new("kling_video").unwrap(),
        params: Json::parse(r#"{"prompt":"a cat"}"#).unwrap(),
        node_id: Some("n1".to_owned()),
        external_service: "kling".to_owned(),
        submit_key: "key".to_owned(),
        result_key: "open".to_owned(),
        max_retries: 3,
        retry_of: None,
        deadline_at: at(7200),
        first_look_at: at(10),
    };
    let made = new_task(TaskId::new(5), wish, at(0));
    let kinds: Vec<&str> = made.effects.jobs.iter().map(|job| job.kind.as_str()).collect();
    assert_eq!(kinds, ["tasks.submit", "rooms.task_polling"], "it is sent and looked after");
    made.task
}

fn after(task: &Task, event: TaskEvent, secs: i64) -> Stepped {
    step(task.clone(), event, RULES, at(secs)).unwrap().expect("something follows")
}

fn accepted() -> Task {
    let sending = after(&made(), TaskEvent::Sending, 1).task;
    assert_eq!((sending.status, sending.stage), (TaskStatus::Pending, TaskStage::Sending));
    let look_after = Duration::from_secs(10);
    let event = TaskEvent::Accepted { external_task_id: "x".to_owned(), look_after };
    let stepped = after(&sending, event, 2);
    assert_eq!(stepped.effects.jobs.len(), 1, "the room comes back for it");
    assert_eq!(stepped.task.next_poll_at, Some(at(12)));
    stepped.task
}

fn failed_look() -> TaskEvent {
    let error = TaskError::new("unavailable", "nobody answers");
    TaskEvent::PollFailed { error, look_after: None, is_counted: true }
}

fn unfinished(asked_at: i64) -> TaskEvent {
    TaskEvent::Unfinished { look_after: Duration::from_secs(10), asked_at: at(asked_at) }
}

#[test]
fn an_unfinished_look_does_not_count_and_a_failing_one_does() {
    let mut task = accepted();
    for round in 1..=500 {
        task = after(&task, unfinished(round), 2 + round).task;
        assert_eq!((task.status, task.retry_count), (TaskStatus::Processing, 0));
    }
    let mut next = Vec::new();
    for round in 1..=2 {
        task = after(&task, failed_look(), 600).task;
        assert_eq!(task.retry_count, round);
        next.push(task.next_poll_at.unwrap());
    }
    assert_eq!(next, [at(610), at(620)], "it is asked less and less often");
    let answered = after(&task, unfinished(600), 600).task;
    assert_eq!((answered.retry_count, answered.error), (0, None), "only those in a row count");
    let over = after(&task, failed_look(), 600).task;
    assert_eq!((over.status, over.error_code()), (TaskStatus::Failed, Some("unavailable")));
    assert_eq!(over.retry_count, 3);
}

#[test]
fn asking_too_early_does_not_count() {
    let error = TaskError::new("rate_limited", "slower");
    let look_after = Some(Duration::from_secs(33));
    let event = TaskEvent::PollFailed { error, look_after, is_counted: false };
    let task = after(&accepted(), event, 100).task;
    assert_eq!((task.retry_count, task.next_poll_at), (0, Some(at(133))));
}

#[test]
fn a_deadline_ends_what_waits() {
    let late = 7200;
    for event in [unfinished(late), failed_look(), TaskEvent::Overdue] {
        let task = after(&accepted(), event, late).task;
        assert_eq!(task.error_code(), Some(DEADLINE_EXCEEDED));
    }
    assert_eq!(after(&made(), TaskEvent::Overdue, late).task.error_code(), Some(DEADLINE_EXCEEDED));
    let sending = after(&made(), TaskEvent::Sending, 1).task;
    let lost = after(&sending, TaskEvent::Overdue, late).task;
    assert_eq!(lost.error_code(), Some(SUBMIT_UNKNOWN), "somebody may have been paid");
    assert_eq!(step(accepted(), TaskEvent::Overdue, RULES, at(7199)), Ok(None));
    let close = after(&accepted(), unfinished(7195), 7195).task;
    assert_eq!(close.next_poll_at, Some(at(late)), "the last look is at its end");
}

#[test]
fn a_hint_during_a_look_is_not_lost() {
    let hinted = Task { hinted_at: Some(at(21)), ..accepted() };
    assert_eq!(after(&hinted, unfinished(20), 25).task.next_poll_at, Some(at(25)));
    assert_eq!(after(&hinted, unfinished(22), 25).task.next_poll_at, Some(at(35)));
}

#[test]
fn every_end_is_told_to_the_document_to_listeners_and_to_the_user() {
    let produced =
        Produced { result_url: Some("/results/open/0".to_owned()), ..Produced::default() };
    let error = TaskError::new("content_policy", "no");
    let ends = [
        (TaskEvent::Produced(produced), "completed"),
        (TaskEvent::Failed { error }, "failed"),
        (TaskEvent::Cancelled, "cancelled"),
    ];
    assert_eq!(completion(&accepted()), None);
    for (event, word) in ends {
        let Stepped { task, effects } = after(&accepted(), event, 30);
        assert_eq!((effects.frames.len(), effects.webhooks.len()), (1, 1), "{word}");
        assert_eq!(effects.webhooks[0].event_type, format!("task.{word}"));
        assert_eq!(effects.frames[0].stream, "room:p");
        let told = completion(&task).unwrap();
        assert_eq!((told.outcome.status(), told.task_id.as_str()), (word, "task_5"));
        assert_eq!((told.node_id.as_deref(), told.at), (Some("n1"), at(30)));
        if let TaskOutcome::Completed { label, .. } = told.outcome {
            assert_eq!(label.as_deref(), Some("a cat"));
        }
    }
}

#[test]
fn files_are_fetched_before_the_end() {
    let Stepped { task, effects } = after(&accepted(), TaskEvent::Ready, 30);
    assert_eq!((task.status, task.stage), (TaskStatus::Processing, TaskStage::Collecting));
    assert_eq!(effects.jobs[0].kind.as_str(), "tasks.collect");
}

fn any_event() -> impl Strategy<Value = TaskEvent> {
    let error = || TaskError::new("error", "an error");
    prop_oneof![
        Just(TaskEvent::Sending),
        Just(TaskEvent::NotSent { error: error() }),
        Just(TaskEvent::Accepted {
            external_task_id: "x".to_owned(),
            look_after: Duration::from_secs(10)
        }),
        (0..9000i64).prop_map(unfinished),
        any::<bool>().prop_map(move |is_counted| TaskEvent::PollFailed {
            error: error(),
            look_after: None,
            is_counted
        }),
        Just(TaskEvent::Ready),
        Just(TaskEvent::Produced(Produced::default())),
        Just(TaskEvent::Failed { error: error() }),
        Just(TaskEvent::Overdue),
        Just(TaskEvent::Cancelled),
    ]
}

proptest! {
    /// Whatever happens in whatever order: what is over stays, the log leads to the state, whatever
    /// waits has somebody who comes back for it, and nothing waits past its deadline.
    #[test]
    fn nothing_is_left_behind(events in prop::collection::vec((any_event(), 0..600i64), 1..60)) {
        let mut task = made();
        let mut state = task.status.as_str().to_owned();
        let mut now = 0;
        for (event, pause) in events {
            now += pause;
            let before = task.clone();
            let Ok(Some(stepped)) = step(task.clone(), event, RULES, at(now)) else { continue };
            task = stepped.task;
            prop_assert!(!before.status.is_over());
            prop_assert!(task.version > before.version);
            for logged in &stepped.effects.transitions {
                prop_assert_eq!(logged.from_state.as_deref(), Some(state.as_str()));
                state.clone_from(&logged.to_state);
            }
            prop_assert_eq!(state.as_str(), task.status.as_str());
            prop_assert_eq!(task.status.is_over(), task.stage == TaskStage::Over);
            prop_assert_eq!(task.completed_at.is_some(), task.status.is_over());
            prop_assert_eq!(task.next_poll_at.is_some(), task.stage == TaskStage::Polling);
            prop_assert!(task.next_poll_at.is_none_or(|next| next <= task.deadline_at));
            prop_assert!(task.retry_count <= task.max_retries);
            if task.stage == TaskStage::Collecting && before.stage != TaskStage::Collecting {
                prop_assert_eq!(stepped.effects.jobs.len(), 1);
            }
        }
    }
}
