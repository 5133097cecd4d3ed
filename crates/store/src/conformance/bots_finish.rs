//! The work after a meeting is done once, and its owner is told.

use std::sync::Arc;

use roundsman_core::bots::{BotRecord, BotStatus, FINISH_KIND, finish};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::SpokenSummary;
use roundsman_core::webhooks::WebhookEvent;
use serde_json::{Value, json};

use super::attend::{
    LIVE, all_events, bot_in, by_number, claim_for, everything, look, lose_leases, plain,
    supervise, user,
};
use super::backdoor::Said;
use super::fixture::{Fixture, at_once};
use super::wishes::SECOND;

/// B-16: once, whoever asks and how often.
pub async fn the_work_after_a_meeting_is_done_once(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for (status, told) in
        [(BotStatus::Completed, "meeting.completed"), (BotStatus::Failed, "bot.failed")]
    {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        let id = record.meeting.id;
        fx.advance(SECOND);
        let lease = claim_for(fx, FINISH_KIND, &record).await;
        let known = all_events(fx).await.len();
        let (expected, effects) = finish(record, &SpokenSummary::default(), fx.now());
        assert!(finish_meeting(fx, &expected, lease).await);
        assert_eq!(look(fx, id).await, plain(expected.clone()));
        assert_eq!(events_since(fx, known).await, effects.webhooks);
        assert_eq!(effects.webhooks[0].event_type, told);
        let before = everything(fx, &[ada]).await;
        fx.advance(SECOND);
        assert!(!finish_meeting(fx, &expected, lease).await, "it was done before");
        assert_eq!(everything(fx, &[ada]).await, before);
    }
}

pub async fn a_meeting_that_goes_on_is_not_finished(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        let lease = supervise(fx, &record).await;
        let before = everything(fx, &[ada]).await;
        assert!(!finish_meeting(fx, &record, lease).await);
        assert_eq!(everything(fx, &[ada]).await, before);
    }
}

pub async fn finishing_needs_the_lease(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let lease = claim_for(fx, FINISH_KIND, &record).await;
    lose_leases(fx).await;
    let before = everything(fx, &[ada]).await;
    assert!(!finish_meeting(fx, &record, lease).await);
    assert_eq!(everything(fx, &[ada]).await, before);
    fx.advance(SECOND * 600);
    let lease = claim_for(fx, FINISH_KIND, &record).await;
    assert!(finish_meeting(fx, &record, lease).await);
}

pub async fn of_many_who_finish_at_once_one_does(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let lease = claim_for(fx, FINISH_KIND, &record).await;
    let known = all_events(fx).await.len();
    let callers = (0..8).map(|_| {
        let (fx, record) = (Arc::clone(fx), record.clone());
        async move { finish_meeting(&fx, &record, lease).await }
    });
    let answers = at_once(callers).await;
    assert_eq!(answers.iter().filter(|done| **done).count(), 1);
    assert_eq!(events_since(fx, known).await.len(), 1);
}

/// Who spoke, in what languages, and for how long comes from the transcriptions; what the user has
/// set already stays.
pub async fn what_was_said_is_gathered(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    for own in [false, true] {
        let record = bot_in(fx, ada, &own.to_string(), BotStatus::Completed).await;
        let other = bot_in(fx, ada, &format!("{own} other"), BotStatus::Active).await;
        let id = record.meeting.id;
        if own {
            let mine = json!({"participants": ["Mine"], "languages": ["xx"]});
            let Value::Object(mine) = mine else { unreachable!("it is written as one") };
            let merged = fx.store.merge_meeting_data(ada, by_number(id), mine, fx.now()).await;
            merged.expect("merge_meeting_data").expect("it is there");
        }
        let said = [
            said(0.0, 1.5, Some("Zoë 😀"), Some("en")),
            said(1.5, 2.0, Some("Ada"), Some("de")),
            said(2.0, 4.25, Some("Ada"), Some("en")),
            said(4.25, 5.0, None, None),
        ];
        for part in said {
            door.put_said(id, part).await;
        }
        let elsewhere = said_by("Bob");
        door.put_said(other.meeting.id, elsewhere).await;
        let summary = SpokenSummary {
            speakers: vec!["Ada".to_owned(), "Zoë 😀".to_owned()],
            languages: vec!["de".to_owned(), "en".to_owned()],
            segments: 4,
            spoken_secs: 5.0,
        };
        let record = look(fx, id).await;
        let lease = claim_for(fx, FINISH_KIND, &record).await;
        let known = all_events(fx).await.len();
        let (expected, effects) = finish(record, &summary, fx.now());
        assert!(finish_meeting(fx, &expected, lease).await);
        assert_eq!(look(fx, id).await, plain(expected.clone()));
        assert_eq!(events_since(fx, known).await, effects.webhooks);
        let kept = expected.meeting.data.to_value()["participants"].clone();
        assert_eq!(kept == json!(["Mine"]), own);
        assert_eq!(door.count_said(id).await, 4);
    }
}

async fn finish_meeting(fx: &Fixture, record: &BotRecord, lease: LeaseRef) -> bool {
    let done = fx.store.finish_meeting(record.meeting.id, lease, fx.now()).await;
    done.expect("finish_meeting")
}

async fn events_since(fx: &Fixture, known: usize) -> Vec<WebhookEvent> {
    let events = all_events(fx).await;
    events[known..].iter().map(|(_, event)| event.clone()).collect()
}

fn said(start: f64, end: f64, speaker: Option<&str>, language: Option<&str>) -> Said {
    Said {
        start,
        end,
        text: "it's said".to_owned(),
        speaker: speaker.map(ToOwned::to_owned),
        language: language.map(ToOwned::to_owned),
        session_uid: None,
    }
}

fn said_by(speaker: &str) -> Said {
    said(0.0, 60.0, Some(speaker), Some("fr"))
}
