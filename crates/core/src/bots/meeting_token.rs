//! The token that a bot's transcripts are signed with: a JWT, always HS256, with the claims that
//! Vexa's collector checks.
//!
//! Invariant: the algorithm is ours and never the token's; every claim is required.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::MeetingId;
use crate::Timestamp;
use crate::users::UserId;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const SCOPE: &str = "transcribe:write";
const ISSUER: &str = "bot-manager";
const AUDIENCE: &str = "transcription-collector";
/// A longer token is refused before anything is decoded.
const TOKEN_BYTES_MAX: usize = 4096;
/// How far the clocks of those who sign and those who check may differ.
const LEEWAY_SECS: i64 = 30;

/// Signs and checks meeting tokens: signs with one key and accepts the older ones too, so that a
/// key can be changed while meetings go on.
#[derive(Clone)]
pub struct MeetingTokens {
    key: Vec<u8>,
    older_keys: Vec<Vec<u8>>,
}

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeetingGrant {
    pub meeting_id: MeetingId,
    pub user_id: UserId,
    pub platform: String,
    pub native_meeting_id: String,
}

/// The token proves nothing; why is not told to whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid meeting token")]
pub struct InvalidMeetingToken;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    typ: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    meeting_id: i64,
    user_id: i64,
    platform: String,
    native_meeting_id: String,
    scope: String,
    iss: String,
    aud: String,
    iat: i64,
    exp: i64,
    jti: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<i64>,
}

impl MeetingTokens {
    pub fn new(key: &[u8]) -> Self {
        MeetingTokens { key: key.to_vec(), older_keys: Vec::new() }
    }

    /// Accepts what was signed with these as well.
    #[must_use]
    pub fn accepting(mut self, older_keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.older_keys.extend(older_keys);
        self
    }

    /// A token that holds from `issued` to `until`. `jti` names this one token.
    pub fn sign(
        &self,
        grant: &MeetingGrant,
        issued: Timestamp,
        until: Timestamp,
        jti: &str,
    ) -> String {
        let claims = Claims {
            meeting_id: grant.meeting_id.get(),
            user_id: grant.user_id.get(),
            platform: grant.platform.clone(),
            native_meeting_id: grant.native_meeting_id.clone(),
            scope: SCOPE.to_owned(),
            iss: ISSUER.to_owned(),
            aud: AUDIENCE.to_owned(),
            iat: seconds(issued),
            exp: seconds(until),
            jti: jti.to_owned(),
            nbf: None,
        };
        let claims = serde_json::to_string(&claims).expect("claims are plain text and numbers");
        let signed = format!("{}.{}", encode(HEADER.as_bytes()), encode(claims.as_bytes()));
        let code = code(&self.key, &signed).finalize().into_bytes();
        format!("{signed}.{}", encode(&code))
    }

    pub fn verify(&self, token: &str, now: Timestamp) -> Result<MeetingGrant, InvalidMeetingToken> {
        self.verify_issued(token, now).map(|(grant, _)| grant)
    }

    /// Also says when the token was made: of two, the newer one knows better.
    pub fn verify_issued(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(MeetingGrant, Timestamp), InvalidMeetingToken> {
        self.check(token, seconds(now)).ok_or(InvalidMeetingToken)
    }

    fn check(&self, token: &str, now: i64) -> Option<(MeetingGrant, Timestamp)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, given) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        // The signature first: nothing of an unsigned token is worth parsing.
        let given = decode(given)?;
        let keys = std::iter::once(&self.key).chain(&self.older_keys);
        // Every key is tried: how long it takes says nothing about which one it was.
        let signed_by = keys.filter(|key| code(key, signed).verify_slice(&given).is_ok()).count();
        if signed_by == 0 {
            return None;
        }
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).ok()?;
        let known = header.alg == "HS256"
            && header.typ == "JWT"
            && claims.scope == SCOPE
            && claims.iss == ISSUER
            && claims.aud == AUDIENCE;
        let in_time = claims.exp.saturating_add(LEEWAY_SECS) >= now
            && claims.iat <= now.saturating_add(LEEWAY_SECS)
            && claims.nbf.is_none_or(|start| start <= now.saturating_add(LEEWAY_SECS));
        let issued = Timestamp::from_micros(claims.iat.checked_mul(1_000_000)?);
        let sane = issued >= Timestamp::EPOCH;
        (known && in_time && sane).then(|| {
            let grant = MeetingGrant {
                meeting_id: MeetingId::new(claims.meeting_id),
                user_id: UserId::new(claims.user_id),
                platform: claims.platform,
                native_meeting_id: claims.native_meeting_id,
            };
            (grant, issued)
        })
    }
}

fn code(key: &[u8], signed: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any size");
    mac.update(signed.as_bytes());
    mac
}

impl std::fmt::Debug for MeetingTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MeetingTokens(hidden)")
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.as_micros() / 1_000_000
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn grant() -> MeetingGrant {
        MeetingGrant {
            meeting_id: MeetingId::new(7),
            user_id: UserId::new(3),
            platform: "google_meet".to_owned(),
            native_meeting_id: "abc-defg-hij".to_owned(),
        }
    }

    #[test]
    fn a_token_says_whom_it_speaks_for_until_it_ends() {
        let tokens = MeetingTokens::new(KEY);
        let token = tokens.sign(&grant(), at(1000), at(2000), "j");
        assert_eq!(tokens.verify(&token, at(1000)), Ok(grant()));
        assert_eq!(tokens.verify(&token, at(2030)), Ok(grant()));
        assert!(tokens.verify(&token, at(2031)).is_err(), "ended");
        assert!(tokens.verify(&token, at(900)).is_err(), "not yet made");
        assert!(MeetingTokens::new(b"other").verify(&token, at(1000)).is_err());
        assert!(token.starts_with("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."));
    }

    #[test]
    fn an_older_key_is_accepted_while_it_is_named() {
        let old = MeetingTokens::new(b"the key of last year, long enough").sign(
            &grant(),
            at(1000),
            at(2000),
            "j",
        );
        let tokens = MeetingTokens::new(KEY);
        assert!(tokens.verify(&old, at(1500)).is_err());
        let tokens = tokens.accepting([b"the key of last year, long enough".to_vec()]);
        assert_eq!(tokens.verify_issued(&old, at(1500)), Ok((grant(), at(1000))));
        assert!(
            MeetingTokens::new(KEY)
                .verify(&tokens.sign(&grant(), at(1), at(9), "j"), at(5))
                .is_ok()
        );
    }

    /// Signs whatever it is given, as somebody with the key could.
    fn forge(header: &str, claims: &str, key: &[u8]) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let code = code(key, &signed).finalize().into_bytes();
        format!("{signed}.{}", encode(&code))
    }

    #[test]
    fn what_is_not_exactly_ours_is_refused() {
        let tokens = MeetingTokens::new(KEY);
        let claims = |change: &str, to: &str| {
            r#"{"meeting_id":7,"user_id":3,"platform":"p","native_meeting_id":"n","scope":"transcribe:write","iss":"bot-manager","aud":"transcription-collector","iat":1,"exp":9,"jti":"j"}"#
                .replace(change, to)
        };
        let good = forge(HEADER, &claims("", ""), KEY);
        assert!(tokens.verify(&good, at(5)).is_ok());
        let none = encode(br#"{"alg":"none","typ":"JWT"}"#);
        let body = encode(claims("", "").as_bytes());
        let bad = [
            String::new(),
            "a.b.c".to_owned(),
            "..".to_owned(),
            format!("{none}.{body}."),
            format!("{none}.{body}"),
            forge(r#"{"alg":"none","typ":"JWT"}"#, &claims("", ""), KEY),
            forge(r#"{"alg":"RS256","typ":"JWT"}"#, &claims("", ""), KEY),
            forge(r#"{"alg":"hs256","typ":"JWT"}"#, &claims("", ""), KEY),
            forge(r#"{"alg":"HS256"}"#, &claims("", ""), KEY),
            forge(HEADER, &claims("", ""), b""),
            forge(HEADER, &claims("transcribe:write", "read"), KEY),
            forge(HEADER, &claims("bot-manager", "me"), KEY),
            forge(HEADER, &claims("transcription-collector", "other"), KEY),
            forge(HEADER, &claims(r#""exp":9,"#, ""), KEY),
            forge(HEADER, &claims(r#""meeting_id":7,"#, ""), KEY),
            forge(HEADER, &claims(r#""meeting_id":7"#, r#""meeting_id":"7""#), KEY),
            forge(HEADER, &claims(r#""jti":"j""#, r#""jti":"j","nbf":99"#), KEY),
            format!("{good}x"),
            format!("x{good}"),
            "a".repeat(1 << 20),
        ];
        for token in bad {
            assert_eq!(tokens.verify(&token, at(5)), Err(InvalidMeetingToken), "{token:.60}");
        }
    }
}
