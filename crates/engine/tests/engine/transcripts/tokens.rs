//! Who may tell what was said: T-15.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::RefusedMessage;
use roundsman_core::users::UserId;
use roundsman_engine::transcripts::IngestError;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{KEY, SESSION, Talk, new_user, reserve, said};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    no_token_that_is_not_exactly_ours_is_accepted
    no_token_that_is_not_exactly_ours_is_accepted_from_a_stream
    a_good_token_speaks_for_its_own_meeting_only
    clocks_may_differ_by_half_a_minute
    only_whoever_has_a_good_token_learns_what_is_wrong_with_a_message
    a_meeting_that_cannot_hear_refuses_what_is_told
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

async fn no_token_that_is_not_exactly_ours_is_accepted(backend: Backend) {
    let talk = Talk::new(backend).await;
    let vectors = bad_tokens(&talk);
    assert!(vectors.len() >= 30, "{}", vectors.len());
    for (what, token) in vectors {
        let message = match token {
            Some(token) => said("", Some(SESSION), &[(0, 1000, what)]).with("token", json!(token)),
            None => said("", Some(SESSION), &[(0, 1000, what)]).without("token"),
        };
        let refused = talk.try_ingest(&message).await;
        assert!(matches!(refused, Err(IngestError::Unauthorized)), "{what}: {refused:?}");
    }
    for token in [json!(null), json!(7), json!({}), json!(["a.b.c"]), json!(true)] {
        let message = said("", Some(SESSION), &[(0, 1000, "x")]).with("token", token.clone());
        let refused = talk.try_ingest(&message).await;
        assert!(matches!(refused, Err(IngestError::Unauthorized)), "{token}: {refused:?}");
    }
    assert_eq!(talk.texts().await, Vec::<String>::new());
    assert_eq!(talk.frames().await, []);
    assert!(talk.say(&[(0, 1000, "and a good one is")]).await.changed == 1);
    talk.check().await;
}

/// The same through Redis: everything is put away, nothing is stored, nothing is left.
async fn no_token_that_is_not_exactly_ours_is_accepted_from_a_stream(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let vectors = bad_tokens(&talk);
    for (what, token) in &vectors {
        let message = said("", Some(SESSION), &[(0, 1000, what)]);
        let message = match token {
            Some(token) => message.with("token", json!(token)),
            None => message.without("token"),
        };
        stream.add(&[("payload", &message.to_string())]);
    }
    // One beside the message proves nothing either: nobody signs an entry.
    let message = said("", Some(SESSION), &[(0, 1000, "beside")]).without("token").to_string();
    stream.add(&[("payload", &message), ("token", &talk.token())]);
    let consumed = consumer.tick().await.unwrap();
    assert_eq!((consumed.taken, consumed.refused), (0, vectors.len() + 1), "{consumed:?}");
    assert!(stream.pending(super::streams::GROUP).is_empty());
    let letters = talk.transcripts.dead_letters(None, 100).await.unwrap().letters;
    assert_eq!(letters.len(), vectors.len() + 1);
    for found in letters {
        let reason = found.letter.reason;
        assert_eq!(reason, IngestError::Unauthorized.to_string(), "{:.80}", found.letter.payload);
    }
    assert_eq!(talk.texts().await, Vec::<String>::new());
    assert_eq!(talk.frames().await, []);
    talk.check().await;
}

fn bad_tokens(talk: &Talk) -> Vec<(&'static str, Option<String>)> {
    let good = talk.token();
    let now = talk.now().as_micros() / 1_000_000;
    let claims = json!({
        "meeting_id": talk.id().get(), "user_id": talk.user.get(), "platform": "google_meet",
        "native_meeting_id": "abc-defg-hij", "scope": "transcribe:write", "iss": "bot-manager",
        "aud": "transcription-collector", "iat": now, "exp": now + 3600, "jti": "j",
    });
    assert!(talk.tokens.verify(&forged(HEADER, &claims, KEY), talk.now()).is_ok());
    let with = |name: &str, value: Value| forged(HEADER, &claims.clone().with(name, value), KEY);
    let without = |name: &str| forged(HEADER, &claims.clone().without(name), KEY);
    let header = |text: &str| forged(text, &claims, KEY);
    let (signed, code) = good.rsplit_once('.').unwrap();
    let body = encode(claims.to_string().as_bytes());
    let none = encode(br#"{"alg":"none","typ":"JWT"}"#);
    let standard = BASE64_STANDARD.encode(claims.to_string());
    let flipped = with_another_first_letter(code);
    let tokens = vec![
        ("empty", String::new()),
        ("dots", "..".to_owned()),
        ("three words", "a.b.c".to_owned()),
        ("no signature", signed.to_owned()),
        ("an empty signature", format!("{signed}.")),
        ("alg none, empty signature", format!("{none}.{body}.")),
        ("alg none, no signature", format!("{none}.{body}")),
        ("alg none, signed", header(r#"{"alg":"none","typ":"JWT"}"#)),
        ("alg None", header(r#"{"alg":"None","typ":"JWT"}"#)),
        ("alg RS256 signed with the key", header(r#"{"alg":"RS256","typ":"JWT"}"#)),
        ("alg HS512", header(r#"{"alg":"HS512","typ":"JWT"}"#)),
        ("alg hs256", header(r#"{"alg":"hs256","typ":"JWT"}"#)),
        ("no alg", header(r#"{"typ":"JWT"}"#)),
        ("no typ", header(r#"{"alg":"HS256"}"#)),
        ("the wrong key", forged(HEADER, &claims, b"another key that is long enough!")),
        ("the empty key", forged(HEADER, &claims, b"")),
        ("a key that begins alike", forged(HEADER, &claims, &KEY[..31])),
        ("a changed signature", format!("{signed}.{flipped}")),
        ("something after it", format!("{good}x")),
        ("something before it", format!("x{good}")),
        ("padding", format!("{good}=")),
        ("another alphabet", format!("{}.{standard}.{code}", encode(HEADER.as_bytes()))),
        (
            "other claims, the same signature",
            format!("{}.{body}.{code}", encode(HEADER.as_bytes())),
        ),
        ("expired", with("exp", json!(now - 31))),
        ("no exp", without("exp")),
        ("exp is text", with("exp", json!("9999999999"))),
        ("not yet", with("nbf", json!(now + 60))),
        ("from the future", with("iat", json!(now + 60))),
        ("no iat", without("iat")),
        ("iat before time", with("iat", json!(-1))),
        ("for somebody else", with("aud", json!("other"))),
        ("for several", with("aud", json!(["transcription-collector"]))),
        ("no aud", without("aud")),
        ("by somebody else", with("iss", json!("me"))),
        ("another scope", with("scope", json!("transcribe:read"))),
        ("no meeting", without("meeting_id")),
        ("a meeting that is text", with("meeting_id", json!(talk.id().to_string()))),
        ("a meeting that is a half", with("meeting_id", json!(1.5))),
        ("no user", without("user_id")),
        ("no jti", without("jti")),
        ("a megabyte", "a".repeat(1 << 20).split_off(4096)),
        ("a long one that is signed", with("jti", json!("j".repeat(10_000)))),
        ("NUL", format!("{good}\0")),
        ("blanks", format!(" {good} ")),
        ("Bearer", format!("Bearer {good}")),
    ];
    let tokens = tokens.into_iter().chain(own_keys(&claims));
    let mut vectors: Vec<_> = tokens.map(|(what, token)| (what, Some(token))).collect();
    vectors.push(("none", None));
    vectors
}

/// Signed with keys that their headers name, or bring along.
fn own_keys(claims: &Value) -> [(&'static str, String); 3] {
    let own = b"a key that the sender has chosen";
    let signed = |name: &str, value: Value, key: &[u8]| {
        let header = serde_json::from_str::<Value>(HEADER).unwrap().with(name, value);
        forged(&header.to_string(), claims, key)
    };
    let key = json!({"kty": "oct", "alg": "HS256", "k": encode(own)});
    [
        // What that file has in it.
        ("kid is a path", signed("kid", json!("../../../dev/null"), b"")),
        ("a key of its own", signed("jwk", key, own)),
        ("a key from elsewhere", signed("jku", json!("http://me/keys"), own)),
    ]
}

fn with_another_first_letter(text: &str) -> String {
    let other = if text.starts_with('A') { "B" } else { "A" };
    format!("{other}{}", &text[1..])
}

async fn a_good_token_speaks_for_its_own_meeting_only(backend: Backend) {
    let talk = Talk::new(backend).await;
    let eve = new_user(&talk.world, "eve@example.org").await;
    let hers = reserve(&talk.world, eve, "eve-evee-eve").await;
    // Whatever the message says, the token decides.
    let message = said(&talk.token_of(&hers), Some(SESSION), &[(0, 1000, "hers")])
        .with("meeting_id", json!(talk.id().get()))
        .with("platform", json!("google_meet"));
    assert_eq!(talk.ingest(&message).await.changed, 1);
    assert_eq!(talk.texts().await, Vec::<String>::new());
    // A token of a meeting that is somebody else's.
    for (meeting_id, user_id) in
        [(talk.id(), eve), (hers.meeting.id, talk.user), (MeetingId::new(999), talk.user)]
    {
        let mut grant = super::grant(&talk.record);
        grant.meeting_id = meeting_id;
        grant.user_id = user_id;
        let token = talk.tokens.sign(&grant, talk.now(), talk.now() + secs(60), "j");
        let refused = talk.try_ingest(&said(&token, Some(SESSION), &[(0, 1000, "x")])).await;
        assert!(matches!(refused, Err(IngestError::NoSuchMeeting)), "{refused:?}");
    }
    let nobody = UserId::new(12345);
    assert_eq!(talk.transcripts.transcript(nobody, talk.target(), None).await.unwrap(), None);
    talk.check().await;
}

async fn clocks_may_differ_by_half_a_minute(backend: Backend) {
    let talk = Talk::new(backend).await;
    let sign = |from: Timestamp, until: Timestamp| {
        talk.tokens.sign(&super::grant(&talk.record), from, until, "j")
    };
    let now = talk.now();
    let cases = [
        (sign(now + secs(30), now + secs(60)), true),
        (sign(now + secs(31), now + secs(60)), false),
        (sign(now - secs(90), now - secs(30)), true),
        (sign(now - secs(90), now - secs(31)), false),
    ];
    for (token, accepted) in cases {
        let told = talk.try_ingest(&said(&token, Some(SESSION), &[(0, 1000, "x")])).await;
        assert_eq!(told.is_ok(), accepted, "{told:?}");
    }
}

async fn only_whoever_has_a_good_token_learns_what_is_wrong_with_a_message(backend: Backend) {
    let talk = Talk::new(backend).await;
    let bad = json!({ "type": "transcription", "segments": 7 });
    let refused = talk.try_ingest(&bad).await;
    assert!(matches!(refused, Err(IngestError::Unauthorized)), "{refused:?}");
    let refused = talk.try_ingest(&bad.with("token", json!(talk.token()))).await;
    assert!(matches!(refused, Err(IngestError::Refused(RefusedMessage::Field { .. }))));
    let unreadable = talk.transcripts.ingest("{").await;
    assert!(matches!(unreadable, Err(IngestError::Refused(RefusedMessage::NotJson(_)))));
    let start = json!({ "type": "session_start", "token": talk.token() });
    let refused = talk.try_ingest(&start).await;
    assert!(matches!(refused, Err(IngestError::Refused(RefusedMessage::StartWithoutUid))));
    let huge = format!("{{\"token\":\"{}\"}}", "x".repeat(talk.limits.message_bytes_max));
    let refused = talk.transcripts.ingest(&huge).await;
    assert!(matches!(refused, Err(IngestError::Refused(RefusedMessage::Field { .. }))));
}

async fn a_meeting_that_cannot_hear_refuses_what_is_told(backend: Backend) {
    use roundsman_core::bots::{BotEvent, Source};
    use roundsman_core::ports::{AnonymiseAnswer, BotHappened, BotStore};

    let talk = Talk::new(backend).await;
    talk.say(&[(0, 1000, "something was said")]).await;
    let happened = BotHappened {
        workload: talk.record.workload(),
        connection: None,
        event: BotEvent::Absent { reason: "gone".to_owned() },
        source: Source::Supervisor,
        beats: false,
    };
    talk.world.store.bot_event(happened, None, talk.now()).await.unwrap();
    assert_eq!(talk.say(&[(2000, 3000, "late but welcome")]).await.changed, 1);
    let answer =
        talk.world.store.anonymise_meeting(talk.user, talk.target(), talk.now()).await.unwrap();
    assert_eq!(answer, AnonymiseAnswer::Done);
    let refused = talk.try_ingest(&talk.said(SESSION, &[(4000, 5000, "too late")])).await;
    assert!(matches!(refused, Err(IngestError::NoSuchMeeting)), "{refused:?}");
    talk.check().await;
}

/// Changing one member of an object.
trait Members {
    fn with(self, name: &str, value: Value) -> Value;
    fn without(self, name: &str) -> Value;
}

impl Members for Value {
    fn with(mut self, name: &str, value: Value) -> Value {
        self[name] = value;
        self
    }

    fn without(mut self, name: &str) -> Value {
        self.as_object_mut().unwrap().remove(name);
        self
    }
}

/// Signs whatever it is given, as somebody with the key could.
fn forged(header: &str, claims: &Value, key: &[u8]) -> String {
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()));
    let code = hmac(key, signed.as_bytes());
    format!("{signed}.{}", encode(&code))
}

/// HMAC with SHA-256, written out: the tests must not trust what they test.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| -> Vec<u8> {
        let mut block = [0u8; 64];
        block[..key.len()].copy_from_slice(key);
        block.iter().map(|part| part ^ byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
