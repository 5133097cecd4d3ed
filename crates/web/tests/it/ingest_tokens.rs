//! Tokens of meetings, as those who have none make them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::ports::Clock;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::app::{App, Setup};
use crate::app_parts::MEETING_KEY;
use crate::app_transcripts::{AT_MEET, said};

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs whatever it is given, as somebody with this key could.
fn forge(header: &Value, claims: &Value, key: &[u8]) -> String {
    let header = encode(header.to_string().as_bytes());
    let claims = encode(claims.to_string().as_bytes());
    let signed = format!("{header}.{claims}");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", encode(&mac.finalize().into_bytes()))
}

/// What a forger starts from.
struct Forge {
    header: Value,
    claims: Value,
    now: i64,
}

impl Forge {
    async fn new(app: &App, meeting_id: i64) -> Self {
        let grant = app.grant(meeting_id).await;
        let now = app.clock.now().as_micros() / 1_000_000;
        let claims = json!({
            "meeting_id": grant.meeting_id.get(), "user_id": grant.user_id.get(),
            "platform": grant.platform, "native_meeting_id": grant.native_meeting_id,
            "scope": "transcribe:write", "iss": "bot-manager", "aud": "transcription-collector",
            "iat": now, "exp": now + 7200, "jti": "j"});
        Forge { header: json!({"alg": "HS256", "typ": "JWT"}), claims, now }
    }

    fn good(&self) -> String {
        forge(&self.header, &self.claims, MEETING_KEY)
    }

    /// With another claim; null for none.
    fn with(&self, name: &str, value: &Value) -> String {
        let mut changed = self.claims.clone();
        if value.is_null() {
            changed.as_object_mut().unwrap().remove(name);
        } else {
            changed[name] = value.clone();
        }
        forge(&self.header, &changed, MEETING_KEY)
    }

    fn with_header(&self, name: &str, value: Value) -> Value {
        let mut header = self.header.clone();
        header[name] = value;
        header
    }

    fn headed(&self, header: &Value) -> String {
        forge(header, &self.claims, MEETING_KEY)
    }

    /// Tokens of the right form, signed with the right key, that say something else.
    fn wrong_words(&self) -> Vec<String> {
        let now = self.now;
        let meeting_id = self.claims["meeting_id"].to_string();
        let claims = [
            ("exp", json!(now - 31)),
            ("nbf", json!(now + 60)),
            ("iat", json!(now + 60)),
            ("aud", json!("bot-manager")),
            ("aud", json!(["transcription-collector"])),
            ("iss", json!("me")),
            ("scope", json!("transcribe:read")),
            ("meeting_id", json!(meeting_id)),
            ("meeting_id", json!(1.5)),
        ];
        let missing = ["meeting_id", "user_id", "exp", "iat", "aud", "iss", "jti", "scope"];
        let headers = [
            json!({"alg": "none", "typ": "JWT"}),
            json!({"alg": "hs256", "typ": "JWT"}),
            json!({"alg": "RS256", "typ": "JWT"}),
            json!({"alg": "HS512", "typ": "JWT"}),
            json!({"typ": "JWT"}),
            json!({"alg": "HS256"}),
            json!({"alg": "HS256", "typ": "at+jwt"}),
        ];
        let changed = claims.iter().map(|(name, value)| self.with(name, value));
        let without = missing.iter().map(|name| self.with(name, &Value::Null));
        changed.chain(without).chain(headers.iter().map(|header| self.headed(header))).collect()
    }

    /// All of them, as they may stand in a message.
    fn bad(&self) -> Vec<Value> {
        let odd = [json!(null), json!(7), json!([self.good()]), json!({"x": self.good()})];
        let texts = self.wrong_words().into_iter().chain(self.wrong_forms());
        let bad: Vec<Value> = texts.map(Value::from).chain(odd).collect();
        assert!(bad.len() >= 30, "{}", bad.len());
        bad
    }

    /// Tokens of another form, or with another signature.
    fn wrong_forms(&self) -> Vec<String> {
        let good = self.good();
        let parts: Vec<&str> = good.split('.').collect();
        let none = encode(br#"{"alg":"none","typ":"JWT"}"#);
        vec![
            String::new(),
            "   ".to_owned(),
            "let me in".to_owned(),
            "..".to_owned(),
            format!("{}.{}", parts[0], parts[1]),
            format!("{good}.{}", parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{}.{}", parts[0], encode(b"{\"meeting_id\":1}"), parts[2]),
            forge(&self.header, &self.claims, b"another key, as long as the right"),
            forge(&self.header, &self.claims, b""),
            // Signed with what the file has that the header names, or with a key it brings along.
            forge(&self.with_header("kid", json!("../../../dev/null")), &self.claims, b""),
            forge(&self.with_header("jwk", json!({"kty": "oct", "k": ""})), &self.claims, b""),
            good.replacen(&parts[1][..4], "AAAA", 1),
            format!("{good}x"),
            format!(" {good}"),
            format!("{good}="),
            "a".repeat(50_000),
        ]
    }
}

/// A message of somebody with this token.
fn message(token: &Value) -> Value {
    json!({"token": token, "uid": "u", "segments": [said(1.0, "Eve", "forged words")]})
}

#[tokio::test]
async fn no_token_but_the_right_one_is_taken() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let forge = Forge::new(&app, producer.meeting_id).await;
    for token in forge.bad() {
        let refused = app.client().post("/ingest/transcription", message(&token)).await;
        refused.expect_problem(401, "unauthorized");
        assert!(!refused.text.contains("forged"), "{}", refused.text);
    }
    assert_eq!(ada.get(AT_MEET).await.expect(200).body["segments"], json!([]));

    // Clocks differ a little, and a key id leads nowhere.
    let traversal = forge.with_header("kid", json!("../../etc/passwd"));
    let good = [
        forge.good(),
        forge.with("exp", &json!(forge.now - 29)),
        forge.with("iat", &json!(forge.now + 29)),
        forge.headed(&traversal),
    ];
    for token in good {
        let answer = app.client().post("/ingest/transcription", message(&json!(token))).await;
        assert_eq!(answer.expect(200).body["accepted"], 1);
    }
}

/// The same on a WebSocket, in messages and in the handshake.
#[tokio::test]
async fn no_token_but_the_right_one_is_taken_on_a_socket() {
    let app = App::with(Setup { body_bytes_max: 256 * 1024, ..Setup::default() });
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let forge = Forge::new(&app, producer.meeting_id).await;
    // One who has sent ten in a row is not kept.
    for tokens in forge.bad().chunks(9) {
        let mut socket = running.socket("/ingest/ws", &[]).await;
        for token in tokens {
            let refused = socket.ask(message(token)).await;
            let error = (&refused["type"], &refused["error"]);
            assert_eq!(error, (&json!("error"), &json!("unauthorized")), "{token}");
        }
    }
    let bare = json!({"uid": "u", "segments": [said(1.0, "Eve", "forged words")]});
    let texts = forge.bad().into_iter().filter_map(|token| token.as_str().map(str::to_owned));
    // A header has a limit of its own, and no blanks around it.
    let in_headers = texts.filter(|token| token.len() < 4096 && token.trim() == token);
    for token in in_headers.chain(["Bearer".to_owned()]) {
        let bearer = format!("Bearer {token}");
        let mut socket = running.socket("/ingest/ws", &[("authorization", &bearer)]).await;
        assert_eq!(socket.ask(bare.clone()).await["error"], "unauthorized", "{token}");
    }
    assert_eq!(ada.get(AT_MEET).await.expect(200).body["segments"], json!([]));
    let mut socket = running.socket("/ingest/ws", &[]).await;
    assert_eq!(socket.ask(message(&json!(forge.good()))).await["accepted"], 1);
}

#[tokio::test]
async fn a_token_tells_of_its_own_meeting_alone() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let (bob, bobs, _) = app.meeting_of("bob@example.org").await;
    let mut message = producer.message(json!({"segments": [said(1.0, "Ada", "mine")]}));
    message["meeting_id"] = json!(bobs.meeting_id);
    message["platform"] = json!("zoom");
    app.client().post("/ingest/transcription", message).await.expect(200);
    assert_eq!(bob.get(AT_MEET).await.expect(200).body["segments"], json!([]));
    assert_eq!(ada.get(AT_MEET).await.expect(200).body["segments"][0]["text"], "mine");
}
