//! What producers tell becomes what is read and heard: once, in order, with times.

use futures_util::future::join_all;
use roundsman_core::transcripts::{in_order, line_body};
use roundsman_engine::transcripts::IngestError;
use serde_json::{Value, json};

use super::{SESSION, Talk, ended, said, started};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    a_segment_told_a_hundred_times_is_one_frame_and_one_write
    an_update_after_the_end_of_a_segment_is_taken_and_told
    of_two_tellings_the_later_stays_whichever_comes_first
    a_start_that_moves_is_the_same_segment
    a_start_that_comes_late_is_filled_in_everywhere
    the_first_start_stands_until_a_newer_token_says_otherwise
    segments_after_the_end_of_their_session_are_taken
    segments_without_a_session_have_no_times_and_borrow_none
    a_bad_segment_costs_itself_only
    what_many_tell_at_once_is_answered_one_by_one
    a_database_that_is_away_is_told_to_the_producer_and_costs_nothing
    an_answer_that_was_lost_is_asked_for_again_without_a_second_frame
    who_spoke_is_known_from_events
}

/// T-1.
async fn a_segment_told_a_hundred_times_is_one_frame_and_one_write(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    let first = talk.say(&[(0, 1000, "hello there")]).await;
    assert_eq!((first.accepted, first.changed), (1, 1));
    assert!(first.seq.is_some());
    let line = talk.transcript().await.lines.remove(0);
    for _ in 0..100 {
        talk.world.clock.advance(secs(1));
        let again = talk.say(&[(0, 1000, "hello there")]).await;
        assert_eq!((again.accepted, again.changed, again.seq), (1, 0, None));
    }
    assert_eq!(talk.frames().await.len(), 1);
    assert_eq!(talk.transcript().await.lines, [line], "not even when it was updated");
    talk.check().await;
}

/// T-6.
async fn an_update_after_the_end_of_a_segment_is_taken_and_told(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "good mornin")]).await;
    assert_eq!(talk.settle().await.kept, 1);
    let mut reader = talk.reader().await;
    let told = talk.say(&[(0, 1200, "good morning")]).await;
    assert_eq!(told.changed, 1);
    reader.hear_until(told.seq.unwrap()).await;
    reader.agrees(&talk).await;
    let lines = talk.transcript().await.lines;
    assert_eq!(lines.len(), 1, "T2: one row");
    assert!(lines[0].kept);
    assert_eq!(lines[0].segment.content.text, "good morning");
    talk.check().await;
}

/// T-7.
async fn of_two_tellings_the_later_stays_whichever_comes_first(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    for text in ["the first of all", "the second of all"] {
        let message = talk.said(SESSION, &[(0, 1000, text)]).to_string();
        stream.add(&[("payload", &message)]);
        talk.world.clock.advance(secs(1));
    }
    assert_eq!(talk.say(&[(0, 1000, "the third of all")]).await.changed, 1);
    assert_eq!(consumer.tick().await.unwrap().taken, 2);
    assert_eq!(talk.texts().await, ["the third of all"]);
    assert_eq!(talk.frames().await.len(), 1);
    // A clock that is set back does not make newer tellings older.
    talk.world.clock.set_wall(talk.now() - secs(3600));
    assert_eq!(talk.say(&[(0, 1000, "the fourth of all")]).await.changed, 1);
    assert_eq!(talk.texts().await, ["the fourth of all"]);
    talk.check().await;
}

/// T-8: no ids, the text grows and the start moves by milliseconds.
async fn a_start_that_moves_is_the_same_segment(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    let text = "so what we want to do today is to look at the numbers";
    let mut reader = talk.reader().await;
    for (words, start) in (1..=13).zip([1000, 1004, 996, 1010, 1000, 990, 1007].iter().cycle()) {
        let said: Vec<&str> = text.split(' ').take(words).collect();
        talk.say(&[(*start, 1500 + i64::try_from(words).unwrap() * 200, &said.join(" "))]).await;
    }
    assert_eq!(talk.texts().await, [text]);
    assert_eq!(talk.settle().await.kept, 1);
    assert_eq!(talk.texts().await, [text]);
    let end = talk.transcript().await.seq;
    reader.hear_until(end).await;
    assert_eq!(reader.rendered.len(), 1, "clients know one line too");
    talk.check().await;
}

/// T-11: segments before their session's start, live and final ones.
async fn a_start_that_comes_late_is_filled_in_everywhere(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    talk.say(&[(0, 1000, "already final"), (1500, 2500, "also final")]).await;
    assert_eq!(talk.settle().await.kept, 2);
    talk.say(&[(3000, 4000, "still live")]).await;
    for line in talk.transcript().await.lines {
        assert_eq!(line_body(&line)["absolute_start_time"], Value::Null);
    }
    let start = talk.now() - secs(60);
    let told = talk.start_session(start).await;
    assert_eq!(told.changed, 3, "each of them is different now");
    let lines = in_order(talk.transcript().await.lines);
    let texts: Vec<&str> = lines.iter().map(|l| l.segment.content.text.as_str()).collect();
    assert_eq!(texts, ["already final", "also final", "still live"]);
    for line in &lines {
        let (from, to) = line.segment.absolute(line.session_start).expect("T5: it has times");
        assert!(start <= from && from <= to);
        assert_eq!(from.since(start).as_millis(), u128::try_from(line.segment.start_ms).unwrap());
    }
    reader.hear_until(told.seq.unwrap()).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

/// T-11: the start is declared twice.
async fn the_first_start_stands_until_a_newer_token_says_otherwise(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (first, second) = (talk.now() - secs(10), talk.now() - secs(5));
    let older = talk.token();
    assert_eq!(talk.ingest(&started(&older, SESSION, first)).await.changed, 0);
    talk.say(&[(0, 1000, "when was this said")]).await;
    let start = async || talk.transcript().await.lines[0].session_start;
    assert_eq!(start().await, Some(first));
    assert_eq!(talk.ingest(&started(&older, SESSION, second)).await.changed, 0);
    assert_eq!(start().await, Some(first));
    talk.world.clock.advance(secs(2));
    assert_eq!(talk.ingest(&started(&talk.token(), SESSION, second)).await.changed, 1);
    assert_eq!(start().await, Some(second));
    assert_eq!(talk.ingest(&started(&older, SESSION, first)).await.changed, 0);
    assert_eq!(start().await, Some(second));
    talk.check().await;
}

/// T-11.
async fn segments_after_the_end_of_their_session_are_taken(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "before the end")]).await;
    let end = talk.ingest(&ended(&talk.token(), SESSION)).await;
    assert_eq!((end.accepted, end.changed, end.seq), (1, 0, None));
    assert_eq!(talk.say(&[(2000, 3000, "after the end")]).await.changed, 1);
    assert_eq!(talk.texts().await, ["before the end", "after the end"]);
    assert!(talk.transcript().await.lines.iter().all(|line| line.session_start.is_some()));
    // A session of which nothing else is known may end too.
    assert_eq!(talk.ingest(&ended(&talk.token(), "nobody knows it")).await.accepted, 1);
    talk.check().await;
}

async fn segments_without_a_session_have_no_times_and_borrow_none(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "of the session")]).await;
    let told = talk.ingest(&said(&talk.token(), None, &[(0, 1000, "of no session")])).await;
    assert_eq!((told.changed, told.warnings.as_slice()), (1, ["missing_session_uid"].as_slice()));
    let lines = talk.transcript().await.lines;
    assert_eq!(lines.len(), 2, "the same start, and not the same segment");
    let nobody = lines.iter().find(|line| line.segment.key.session_uid.is_none()).unwrap();
    assert_eq!((nobody.session_start, nobody.segment.key.field.as_str()), (None, "0.000"));
    // It is final in the end, like the others.
    assert_eq!(talk.settle().await.kept, 2);
    let lines = talk.transcript().await.lines;
    let nobody = lines.iter().find(|line| line.segment.key.session_uid.is_none()).unwrap();
    assert_eq!((nobody.session_start, nobody.kept), (None, true));
    talk.check().await;
}

/// T-10.
async fn a_bad_segment_costs_itself_only(backend: Backend) {
    let talk = Talk::new(backend).await;
    let segments = json!([
        { "start": "NaN", "end": 1, "text": "no time" },
        { "start": 0, "end": 1, "text": "NUL \u{0} in it" },
        { "start": 2, "end": 3, "text": "a good one \u{202e}\u{7}" },
        { "start": 4, "end": 5, "text": "x".repeat(16 * 1024 + 1) },
        { "start": "6.5", "end": "6.0", "text": "swapped and \u{1f600}" },
        { "start": 86_401, "end": 86_402, "text": "too late" },
    ]);
    let message = json!({ "token": talk.token(), "uid": SESSION, "segments": segments });
    let told = talk.ingest(&message).await;
    assert_eq!((told.accepted, told.changed), (2, 2));
    let refused: Vec<usize> = told.refused.iter().map(|refused| refused.index).collect();
    assert_eq!(refused, [0, 1, 3, 5]);
    assert_eq!(talk.texts().await, ["a good one \u{202e}\u{7}", "swapped and \u{1f600}"]);
    talk.check().await;
}

async fn what_many_tell_at_once_is_answered_one_by_one(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    let calls_before = talk.world.store.calls("take_messages");
    let messages: Vec<Value> = (0..200)
        .map(|n| talk.said(&format!("s{}", n % 7), &[(n * 1000, n * 1000 + 500, "all at once")]))
        .collect();
    let told = join_all(messages.iter().map(|message| talk.try_ingest(message))).await;
    assert!(told.iter().all(|told| told.as_ref().is_ok_and(|told| told.changed == 1)));
    let calls = talk.world.store.calls("take_messages") - calls_before;
    assert!(calls <= 20, "{calls} transactions for 200 messages");
    let mut seqs: Vec<i64> = told.iter().map(|told| told.as_ref().unwrap().seq.unwrap()).collect();
    let end = *seqs.iter().max().unwrap();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), 200, "a message is a frame");
    reader.hear_until(end).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

async fn a_database_that_is_away_is_told_to_the_producer_and_costs_nothing(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.world.store.set("take_messages", Fault::Down);
    let message = talk.said(SESSION, &[(0, 1000, "said in vain")]);
    let refused = talk.try_ingest(&message).await;
    assert!(matches!(&refused, Err(IngestError::Store(error)) if error.is_transient()));
    talk.world.store.mend();
    assert_eq!(talk.ingest(&message).await.changed, 1);
    // One message that the database cannot digest costs the others nothing.
    talk.world.store.set("take_messages", Fault::RefusesMentionOf("poison"));
    let messages = ["one is fine", "two is poison", "three is fine"].map(|text| {
        talk.said(SESSION, &[(i64::try_from(text.len()).unwrap() * 1000, 99_000, text)])
    });
    let told = join_all(messages.iter().map(|message| talk.try_ingest(message))).await;
    let fine: Vec<bool> = told.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, false, true]);
    talk.check().await;
}

async fn an_answer_that_was_lost_is_asked_for_again_without_a_second_frame(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    talk.world.store.set("take_messages", Fault::AnswerLost);
    let message = talk.said(SESSION, &[(0, 1000, "was it heard")]);
    assert!(talk.try_ingest(&message).await.is_err());
    talk.world.store.mend();
    assert_eq!(talk.ingest(&message).await.changed, 0, "it was");
    assert_eq!(talk.frames().await.len(), 1);
    // Nobody was told of the frame; the look at the database finds it.
    talk.transcripts.look().await.unwrap();
    reader.hear().await;
    reader.agrees(&talk).await;
    talk.check().await;
}

async fn who_spoke_is_known_from_events(backend: Backend) {
    let talk = Talk::new(backend).await;
    let event = |kind: &str, name: &str, at_ms: i64| {
        json!({
            "type": "speaker_activity", "token": talk.token(),
            "payload": {
                "uid": SESSION, "relative_client_timestamp_ms": at_ms, "event_type": kind,
                "participant_name": name,
            },
        })
    };
    talk.start_session(talk.now()).await;
    assert_eq!(talk.ingest(&event("SPEAKER_START", "Ann", 0)).await.accepted, 1);
    talk.say(&[(100, 1000, "this is Ann")]).await;
    talk.ingest(&event("SPEAKER_END", "Ann", 1100)).await;
    // Who spoke is told after the words: the last look finds it.
    talk.say(&[(2000, 3000, "and this is Bob")]).await;
    talk.ingest(&event("SPEAKER_START", "Bob", 1900)).await;
    let speakers = async || -> Vec<Option<String>> {
        let lines = in_order(talk.transcript().await.lines);
        lines.into_iter().map(|line| line.segment.content.speaker).collect()
    };
    assert_eq!(speakers().await, [Some("Ann".to_owned()), None]);
    let mut reader = talk.reader().await;
    talk.settle().await;
    assert_eq!(speakers().await, [Some("Ann".to_owned()), Some("Bob".to_owned())]);
    reader.hear().await;
    reader.agrees(&talk).await;
    // Events of somebody else's producer are heard in their own meeting only.
    let events = talk.world.store.calls("keep_speaker_events");
    assert!(events >= 3);
    talk.check().await;
}
