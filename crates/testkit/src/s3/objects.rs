//! What a bucket holds.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::http::Reply;

/// The smallest part that is taken, but for the last.
const PART_BYTES_MIN: usize = 5 * 1024 * 1024;
const PARTS_MAX: u32 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Objects {
    by_name: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, Upload>,
    uploads_begun: u64,
}

#[derive(Debug)]
struct Upload {
    name: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl Objects {
    pub(super) fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    pub(super) fn uploads_open(&self) -> usize {
        self.uploads.len()
    }

    pub(super) fn damage(&mut self, name: &str) -> bool {
        let byte = self.by_name.get_mut(name).and_then(|object| object.first_mut());
        byte.map(|byte| *byte ^= 0xff).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Reply {
        match self.by_name.get(name) {
            Some(object) => Reply::object(object.clone(), etag(object)),
            None => Reply::error(404, "NoSuchKey", "there is no such object"),
        }
    }

    pub(super) fn put(&mut self, name: String, body: Vec<u8>) -> Reply {
        let etag = etag(&body);
        self.by_name.insert(name, body);
        Reply::named(200, etag)
    }

    pub(super) fn delete(&mut self, name: &str) -> Reply {
        self.by_name.remove(name);
        Reply::empty(204)
    }

    pub(super) fn begin_upload(&mut self, name: String) -> Reply {
        self.uploads_begun += 1;
        // A real one has signs in it that XML must escape.
        let id = format!("upload&{}", self.uploads_begun);
        let shown = id.replace('&', "&amp;");
        self.uploads.insert(id, Upload { name, parts: BTreeMap::new() });
        let xmlns = "http://s3.amazonaws.com/doc/2006-03-01/";
        Reply::xml(&format!(
            "<InitiateMultipartUploadResult xmlns=\"{xmlns}\"><UploadId>{shown}</UploadId>\
             </InitiateMultipartUploadResult>"
        ))
    }

    pub(super) fn put_part(&mut self, id: &str, number: &str, body: Vec<u8>) -> Reply {
        let number = number.parse().ok().filter(|number| (1..=PARTS_MAX).contains(number));
        let Some(number) = number else {
            return Reply::error(400, "InvalidArgument", "parts are numbered from 1 to 10000");
        };
        let Some(upload) = self.uploads.get_mut(id) else { return no_upload() };
        let etag = etag(&body);
        upload.parts.insert(number, body);
        Reply::named(200, etag)
    }

    pub(super) fn abort(&mut self, id: &str) -> Reply {
        if self.uploads.remove(id).is_some() { Reply::empty(204) } else { no_upload() }
    }

    /// Puts together the parts that the document names.
    pub(super) fn complete(&mut self, id: &str, document: &str) -> Reply {
        let Some(upload) = self.uploads.get(id) else { return no_upload() };
        let mut whole = Vec::new();
        let named: Vec<&str> = document.split("<Part>").skip(1).collect();
        for (index, part) in named.iter().enumerate() {
            let number = between(part, "<PartNumber>", "</PartNumber>");
            let told = between(part, "<ETag>", "</ETag>").map(|etag| etag.replace("&quot;", "\""));
            let number: Option<u32> = number.and_then(|number| number.parse().ok());
            let body = number.and_then(|number| upload.parts.get(&number));
            let Some(body) = body.filter(|body| told.as_deref() == Some(&etag(body))) else {
                return Reply::error(400, "InvalidPart", "a part is not what was sent");
            };
            if body.len() < PART_BYTES_MIN && index + 1 < named.len() {
                return Reply::error(400, "EntityTooSmall", "a part is too small");
            }
            whole.extend_from_slice(body);
        }
        if named.is_empty() {
            return Reply::error(400, "MalformedXML", "no parts are named");
        }
        let name = upload.name.clone();
        self.uploads.remove(id);
        self.by_name.insert(name, whole);
        Reply::xml("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
    }
}

fn no_upload() -> Reply {
    Reply::error(404, "NoSuchUpload", "there is no such upload")
}

fn etag(body: &[u8]) -> String {
    let hash = hex::encode(Sha256::digest(body));
    format!("\"{}\"", &hash[..32])
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}
