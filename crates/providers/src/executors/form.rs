//! A form (`multipart/form-data`) in memory.

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::plan::FormPart;

/// The body, and the value of its `content-type`.
pub(super) fn encode(parts: &[FormPart]) -> (Bytes, String) {
    let boundary = boundary(parts);
    let mut body = BytesMut::new();
    for part in parts {
        body.put_slice(format!("--{boundary}\r\n").as_bytes());
        match part {
            FormPart::Field { name, value } => {
                let head = format!("content-disposition: form-data; name=\"{name}\"\r\n\r\n");
                body.put_slice(head.as_bytes());
                body.put_slice(value.as_bytes());
            }
            FormPart::File { name, media_type, bytes } => {
                let file = format!("picture.{}", media_type.rsplit('/').next().unwrap_or("bin"));
                let head = format!(
                    "content-disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
                     content-type: {media_type}\r\n\r\n"
                );
                body.put_slice(head.as_bytes());
                body.put_slice(bytes);
            }
        }
        body.put_slice(b"\r\n");
    }
    body.put_slice(format!("--{boundary}--\r\n").as_bytes());
    (body.freeze(), format!("multipart/form-data; boundary={boundary}"))
}

/// Made of what it divides: nobody can write a text that holds its own hash.
fn boundary(parts: &[FormPart]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        match part {
            FormPart::Field { value, .. } => hasher.update(value),
            FormPart::File { bytes, .. } => hasher.update(bytes),
        }
        hasher.update([0]);
    }
    format!("roundsman-{}", &hex::encode(hasher.finalize())[..32])
}
