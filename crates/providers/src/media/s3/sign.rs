//! Signatures of requests to S3, version 4.

use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// In the place of a hash where a link is signed: what comes is not known.
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Whose requests they are.
#[derive(Clone)]
pub(super) struct Signer {
    pub(super) access_key: String,
    pub(super) secret_key: SecretString,
    pub(super) region: String,
}

/// What is signed of a request.
pub(super) struct ToSign<'a> {
    pub(super) method: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    /// Not encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Names in lower case and in order.
    pub(super) headers: &'a [(&'static str, String)],
    /// Of the body, in hexadecimal.
    pub(super) payload_sha256: &'a str,
}

/// A link that whoever has it may follow for a while.
pub(super) struct Link<'a> {
    pub(super) host: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    pub(super) lasts_secs: u32,
    /// For credentials that were lent.
    pub(super) session_token: Option<&'a str>,
}

/// A time as signatures have it: `20130524T000000Z`.
pub(super) fn signing_time(at: Timestamp) -> String {
    let text = at.to_string();
    let digits = text.split('.').next().unwrap_or_default();
    let mut time: String = digits.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    time.push('Z');
    time
}

/// A part of a path or a query. Slashes are kept where the whole of a path is given.
pub(super) fn encode(text: &str, keep_slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            b'/' if keep_slashes => encoded.push('/'),
            _ => {
                encoded.push('%');
                encoded.push_str(&hex::encode_upper([byte]));
            }
        }
    }
    encoded
}

/// A query in the order in which it is signed.
pub(super) fn canonical_query(query: &[(&str, &str)]) -> String {
    let encoded = query.iter().map(|(name, value)| (encode(name, false), encode(value, false)));
    let mut pairs: Vec<(String, String)> = encoded.collect();
    pairs.sort();
    let joined = pairs.into_iter().map(|(name, value)| format!("{name}={value}"));
    joined.collect::<Vec<_>>().join("&")
}

impl Signer {
    /// The value of `Authorization`; `time` is that of the header `x-amz-date`.
    pub(super) fn authorization(&self, request: &ToSign<'_>, time: &str) -> String {
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let headers = request.headers.iter().map(|(name, value)| format!("{name}:{value}\n"));
        let canonical = [
            request.method,
            request.path,
            &canonical_query(request.query),
            &headers.collect::<String>(),
            &names,
            request.payload_sha256,
        ]
        .join("\n");
        let scope = self.scope(time);
        let signature = self.signature(&canonical, &scope, time);
        let access_key = &self.access_key;
        format!(
            "{ALGORITHM} Credential={access_key}/{scope},SignedHeaders={names},Signature={signature}"
        )
    }

    /// The query of a link for reading.
    pub(super) fn link_query(&self, link: &Link<'_>, time: &str) -> String {
        let scope = self.scope(time);
        let credential = format!("{}/{scope}", self.access_key);
        let lasts = link.lasts_secs.to_string();
        let mut query = vec![
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Date", time),
            ("X-Amz-Expires", lasts.as_str()),
            ("X-Amz-SignedHeaders", "host"),
        ];
        query.extend(link.session_token.map(|token| ("X-Amz-Security-Token", token)));
        let query = canonical_query(&query);
        let host = format!("host:{}\n", link.host);
        let canonical = ["GET", link.path, &query, &host, "host", UNSIGNED_PAYLOAD].join("\n");
        let signature = self.signature(&canonical, &scope, time);
        format!("{query}&X-Amz-Signature={signature}")
    }

    fn scope(&self, time: &str) -> String {
        format!("{}/{}/s3/aws4_request", &time[..8], self.region)
    }

    fn signature(&self, canonical: &str, scope: &str, time: &str) -> String {
        let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{hash}");
        let first = format!("AWS4{}", self.secret_key.expose_secret());
        let key = scope.split('/').fold(first.into_bytes(), |key, part| mac(&key, part.as_bytes()));
        hex::encode(mac(&key, text.as_bytes()))
    }
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const TIME: &str = "20130524T000000Z";

    fn signer() -> Signer {
        Signer {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned().into(),
            region: "us-east-1".to_owned(),
        }
    }

    fn signature(
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        further: &[(&'static str, &str)],
        payload_sha256: &str,
    ) -> String {
        let mut headers = vec![
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("x-amz-content-sha256", payload_sha256.to_owned()),
            ("x-amz-date", TIME.to_owned()),
        ];
        headers.extend(further.iter().map(|(name, value)| (*name, (*value).to_owned())));
        headers.sort();
        let request = ToSign { method, path, query, headers: &headers, payload_sha256 };
        let authorization = signer().authorization(&request, TIME);
        authorization.rsplit('=').next().unwrap().to_owned()
    }

    /// The examples of the published description.
    #[test]
    fn requests_are_signed_as_published() {
        assert_eq!(
            signature("GET", "/test.txt", &[], &[("range", "bytes=0-9")], EMPTY),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        assert_eq!(
            signature(
                "PUT",
                &encode("/test$file.text", true),
                &[],
                &put,
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        assert_eq!(
            signature("GET", "/", &[("lifecycle", "")], &[], EMPTY),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("GET", "/", &[("prefix", "J"), ("max-keys", "2")], &[], EMPTY),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    /// The example of the published description.
    #[test]
    fn links_are_signed_as_published() {
        let link = Link {
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            lasts_secs: 86400,
            session_token: None,
        };
        assert_eq!(
            signer().link_query(&link, TIME),
            "X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn times_are_written_as_signatures_have_them() {
        let at = Timestamp::parse_rfc3339("2013-05-24T00:00:00.999999Z").unwrap();
        assert_eq!(signing_time(at), TIME);
    }
}
