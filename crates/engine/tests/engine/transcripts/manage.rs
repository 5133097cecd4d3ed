//! What users do with transcripts: call speakers by other names, share, delete.

use roundsman_core::ports::{BotTarget, Rename};
use roundsman_core::users::UserId;
use roundsman_engine::Error;
use roundsman_engine::transcripts::TranscriptLimits;
use serde_json::json;

use super::{SESSION, Talk, new_user};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, soon};

on_every_database! {
    a_speaker_is_called_by_another_name_everywhere
    links_show_a_transcript_until_they_end
    links_are_counted_and_ended_by_their_user_only
    what_is_deleted_is_gone_everywhere
    what_cannot_be_named_is_not_there
    reading_what_has_changed_since
}

async fn say_as(talk: &Talk, start: i64, speaker: &str, text: &str) {
    let message = json!({
        "token": talk.token(), "uid": SESSION,
        "segments": [{ "start": super::seconds(start), "end": super::seconds(start + 900),
                       "text": text, "speaker": speaker, "language": "en" }],
    });
    talk.ingest(&message).await;
}

async fn a_speaker_is_called_by_another_name_everywhere(backend: Backend) {
    let talk = Talk::cached(backend).await;
    say_as(&talk, 0, "spk_1", "this is final soon").await;
    talk.settle().await;
    say_as(&talk, 2000, "spk_1", "this is live").await;
    say_as(&talk, 4000, "spk_2", "this is somebody else").await;
    let mut reader = talk.reader().await;
    let rename = |from: &str, to: &str| Rename { from: from.to_owned(), to: to.to_owned() };
    let renamed =
        talk.transcripts.rename_speaker(talk.user, talk.target(), rename("spk_1", "Ann")).await;
    assert_eq!(renamed.unwrap().unwrap().changed, 2);
    soon(reader.hear()).await;
    reader.agrees(&talk).await;
    // And from now on.
    say_as(&talk, 6000, "spk_1", "this comes later").await;
    let lines = talk.transcript().await.lines;
    let of_ann = lines.iter().filter(|l| l.segment.content.speaker.as_deref() == Some("Ann"));
    assert_eq!(of_ann.count(), 3);
    let cached = super::mirror::cached(&talk);
    assert!(cached.iter().all(|value| value["speaker"] != "spk_1"), "{cached:?}");
    for (from, to) in [("", "x"), ("x", " "), ("x", "a\u{0}b")] {
        let refused =
            talk.transcripts.rename_speaker(talk.user, talk.target(), rename(from, to)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    let nobody = UserId::new(999);
    let missing = talk.transcripts.rename_speaker(nobody, talk.target(), rename("a", "b")).await;
    assert!(missing.unwrap().is_none());
    talk.check().await;
}

async fn links_show_a_transcript_until_they_end(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.say(&[(0, 1000, "for everybody with the link")]).await;
    let issued = talk.transcripts.share(talk.user, talk.target(), secs(3600)).await.unwrap();
    let issued = issued.expect("the meeting exists");
    assert_eq!(issued.secret.len(), 43);
    assert!(!format!("{issued:?}").contains(&issued.secret));
    let (share, transcript) = talk.transcripts.shared(&issued.secret).await.unwrap().unwrap();
    assert_eq!((share.id, transcript.lines.len()), (issued.share.id, 1));
    let mut other = issued.secret.clone().into_bytes();
    other[0] = if other[0] == b'A' { b'B' } else { b'A' };
    let other = String::from_utf8(other).unwrap();
    for secret in ["", "x", &other, &format!("{}A", issued.secret), &"A".repeat(100_000)] {
        assert!(talk.transcripts.shared(secret).await.unwrap().is_none(), "{secret:.60}");
    }
    talk.world.clock.advance(secs(3600));
    assert!(talk.transcripts.shared(&issued.secret).await.unwrap().is_none(), "it has ended");
    for holds_for in [secs(0), secs(59), secs(3 * 366 * 24 * 3600)] {
        let refused = talk.transcripts.share(talk.user, talk.target(), holds_for).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    talk.check().await;
}

async fn links_are_counted_and_ended_by_their_user_only(backend: Backend) {
    let limits = TranscriptLimits { shares_per_meeting_max: 3, ..TranscriptLimits::default() };
    let talk = Talk::with(backend, limits, false).await;
    let eve = new_user(&talk.world, "eve@example.org").await;
    assert!(talk.transcripts.share(eve, talk.target(), secs(60)).await.unwrap().is_none());
    let mut issued = Vec::new();
    for _ in 0..3 {
        let share = talk.transcripts.share(talk.user, talk.target(), secs(600)).await.unwrap();
        issued.push(share.unwrap());
    }
    let refused = talk.transcripts.share(talk.user, talk.target(), secs(600)).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
    let listed = talk.transcripts.shares(talk.user, talk.id()).await.unwrap();
    let ids: Vec<i64> = listed.iter().map(|share| share.id).collect();
    assert_eq!(ids, issued.iter().rev().map(|issued| issued.share.id).collect::<Vec<_>>());
    assert!(!talk.transcripts.end_share(eve, ids[0]).await.unwrap());
    assert!(talk.transcripts.end_share(talk.user, ids[0]).await.unwrap());
    assert!(talk.transcripts.shared(&issued[2].secret).await.unwrap().is_none());
    assert!(talk.transcripts.shared(&issued[1].secret).await.unwrap().is_some());
    assert!(talk.transcripts.share(talk.user, talk.target(), secs(600)).await.unwrap().is_some());
    talk.check().await;
}

async fn what_is_deleted_is_gone_everywhere(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "final and deleted")]).await;
    talk.settle().await;
    talk.say(&[(2000, 3000, "live and deleted")]).await;
    let issued = talk.transcripts.share(talk.user, talk.target(), secs(600)).await.unwrap();
    let mut reader = talk.reader().await;
    let nobody = UserId::new(999);
    assert!(talk.transcripts.delete(nobody, talk.target()).await.unwrap().is_none());
    let deleted = talk.transcripts.delete(talk.user, talk.target()).await.unwrap().unwrap();
    assert_eq!(deleted.changed, 2);
    assert_eq!(talk.texts().await, Vec::<String>::new());
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
    assert!(talk.transcripts.shared(&issued.unwrap().secret).await.unwrap().is_none());
    reader.hear_until(talk.transcript().await.seq).await;
    assert!(reader.rendered.is_empty());
    // The producer goes on.
    assert_eq!(talk.say(&[(2000, 3000, "live and deleted")]).await.changed, 1);
    reader.hear_until(talk.transcript().await.seq).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

async fn what_cannot_be_named_is_not_there(backend: Backend) {
    use roundsman_core::bots::Platform;

    let talk = Talk::new(backend).await;
    for native_id in ["with \0 in it".to_owned(), "x".repeat(10_000)] {
        let target = BotTarget::Address { platform: Platform::GoogleMeet, native_id };
        let found = talk.transcripts.transcript(talk.user, target.clone(), None).await.unwrap();
        assert!(found.is_none());
        assert!(talk.transcripts.delete(talk.user, target.clone()).await.unwrap().is_none());
        assert!(talk.transcripts.share(talk.user, target, secs(60)).await.unwrap().is_none());
    }
    let by_address =
        BotTarget::Address { platform: Platform::GoogleMeet, native_id: "abc-defg-hij".to_owned() };
    let found = talk.transcripts.transcript(talk.user, by_address, None).await.unwrap();
    assert_eq!(found.unwrap().row.meeting.id, talk.id());
}

async fn reading_what_has_changed_since(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.say(&[(0, 1000, "the first thing said"), (2000, 2500, "hm")]).await;
    let before = talk.transcript().await;
    assert_eq!(before.lines.len(), 2);
    let since = talk.transcript_since(Some(before.seq)).await;
    assert_eq!((since.seq, since.lines.len(), since.retracted.len()), (before.seq, 0, 0));
    talk.settle().await;
    talk.say(&[(4000, 5000, "the second thing said")]).await;
    let since = talk.transcript_since(Some(before.seq)).await;
    let texts: Vec<&str> =
        since.lines.iter().map(|line| line.segment.content.text.as_str()).collect();
    assert_eq!(texts, ["the second thing said"]);
    assert_eq!(since.retracted.len(), 1, "what the filter dropped");
    assert_eq!(since.seq, talk.transcript().await.seq);
    talk.check().await;
}
