//! Whether a request is signed as it must be.

use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::Timestamp;
use sha2::{Digest, Sha256};

use super::S3Account;
use super::http::{Reply, Request};

/// How far the clocks may differ.
const SKEW_SECS_MAX: u64 = 15 * 60;
const MUST_BE_SIGNED: [&str; 3] = ["host", "x-amz-content-sha256", "x-amz-date"];

/// `Err` is what to answer to a request that is not.
pub(super) fn check(request: &Request, account: &S3Account, now: Timestamp) -> Result<(), Reply> {
    if let Some(signature) = request.query("X-Amz-Signature") {
        return check_link(request, &signature, account, now);
    }
    let claimed = claims(request)
        .ok_or_else(|| Reply::error(403, "AccessDenied", "the request is not signed"))?;
    let time = request.header("x-amz-date").unwrap_or_default();
    let at = read_time(time)
        .ok_or_else(|| Reply::error(403, "AccessDenied", "the request has no time"))?;
    if at.since(now).max(now.since(at)).as_secs() > SKEW_SECS_MAX {
        return Err(Reply::error(403, "RequestTimeTooSkewed", "the request is not recent"));
    }
    let scope = format!("{}/{}/s3/aws4_request", &time[..8], account.region);
    if claimed.credential != format!("{}/{scope}", account.access_key) {
        return Err(Reply::error(403, "InvalidAccessKeyId", "nobody has this key here"));
    }
    let signed: Vec<&str> = claimed.headers.split(';').collect();
    if !MUST_BE_SIGNED.iter().all(|name| signed.contains(name)) || !signed.is_sorted() {
        return Err(Reply::error(403, "AccessDenied", "not all that must be is signed"));
    }
    let token = request.header("x-amz-security-token");
    if token != account.session_token.as_deref() {
        return Err(Reply::error(403, "InvalidToken", "the token is not the one that was lent"));
    }
    let payload = request.header("x-amz-content-sha256").unwrap_or_default();
    if sign(&canonical(request, &signed, payload), time, &scope, account) != claimed.signature {
        return Err(Reply::error(403, "SignatureDoesNotMatch", "the signature is another"));
    }
    if request.header("x-amz-content-sha256") != Some(&hex::encode(Sha256::digest(&request.body))) {
        let said = "the body is not the one that was signed";
        return Err(Reply::error(400, "XAmzContentSHA256Mismatch", said));
    }
    Ok(())
}

/// A link is good for reading, until its time is over.
fn check_link(
    request: &Request,
    signature: &str,
    account: &S3Account,
    now: Timestamp,
) -> Result<(), Reply> {
    let denied = |said: &str| Reply::error(403, "AccessDenied", said);
    let value = |name: &str| request.query(name).unwrap_or_default();
    let time = value("X-Amz-Date");
    let at = read_time(&time).ok_or_else(|| denied("the link has no time"))?;
    let lasts: u64 = value("X-Amz-Expires").parse().map_err(|_| denied("it never ends"))?;
    if now.since(at).as_secs() > lasts || at.since(now).as_secs() > SKEW_SECS_MAX {
        return Err(denied("Request has expired"));
    }
    let scope = format!("{}/{}/s3/aws4_request", &time[..8], account.region);
    if value("X-Amz-Credential") != format!("{}/{scope}", account.access_key) {
        return Err(Reply::error(403, "InvalidAccessKeyId", "nobody has this key here"));
    }
    if request.query("X-Amz-Security-Token") != account.session_token {
        return Err(Reply::error(403, "InvalidToken", "the token is not the one that was lent"));
    }
    let is_ours = value("X-Amz-Algorithm") == "AWS4-HMAC-SHA256"
        && value("X-Amz-SignedHeaders") == "host"
        && request.method == "GET";
    let signed = sign(&canonical(request, &["host"], "UNSIGNED-PAYLOAD"), &time, &scope, account);
    if !is_ours || signed != signature {
        return Err(Reply::error(403, "SignatureDoesNotMatch", "the signature is another"));
    }
    Ok(())
}

/// The signature of what has this hash.
fn sign(hash: &str, time: &str, scope: &str, account: &S3Account) -> String {
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let mut key = format!("AWS4{}", account.secret_key).into_bytes();
    for step in scope.split('/') {
        key = mac(&key, step);
    }
    hex::encode(mac(&key, &text))
}

struct Claims<'a> {
    credential: &'a str,
    headers: &'a str,
    signature: &'a str,
}

fn claims(request: &Request) -> Option<Claims<'_>> {
    let rest = request.header("authorization")?.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let value = |name: &str| {
        let parts = rest.split(',').map(str::trim);
        parts.filter_map(|part| part.split_once('=')).find(|(n, _)| *n == name).map(|(_, v)| v)
    };
    Some(Claims {
        credential: value("Credential")?,
        headers: value("SignedHeaders")?,
        signature: value("Signature")?,
    })
}

/// The hash of the request in the form in which it is signed.
fn canonical(request: &Request, signed: &[&str], payload: &str) -> String {
    let query = request.query.iter().filter(|(name, _)| name != "X-Amz-Signature");
    let mut query: Vec<String> = query.map(|(n, v)| format!("{n}={v}")).collect();
    query.sort();
    let mut lines = vec![request.method.clone(), request.path.clone(), query.join("&")];
    for name in signed {
        lines.push(format!("{name}:{}", request.header(name).unwrap_or_default().trim()));
    }
    lines.push(String::new());
    lines.push(signed.join(";"));
    lines.push(payload.to_owned());
    hex::encode(Sha256::digest(lines.join("\n").as_bytes()))
}

/// Reads `20130524T000000Z`.
fn read_time(text: &str) -> Option<Timestamp> {
    let digits = text.len() == 16 && text.is_ascii();
    let part = |from: usize, to: usize| text.get(from..to);
    let (date, time) = (digits.then(|| part(0, 8))??, part(9, 15)?);
    let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
    let time = format!("{}:{}:{}", &time[..2], &time[2..4], &time[4..]);
    Timestamp::parse_rfc3339(&format!("{date}T{time}Z")).ok()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}
