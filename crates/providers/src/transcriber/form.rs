//! The form in which a file is sent.

use bytes::Bytes;

/// How much of a file shows what it is.
pub(super) const SIGNATURE_BYTES: u64 = 12;

/// Between the parts of the form. It is long enough to occur in no recording by chance, and nobody
/// writes recordings to make it occur: they come from the provider.
const BOUNDARY: &str = "roundsman-5b2f1c0d9e8a7f6e4d3c2b1a-recording";

pub(super) fn content_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// What comes before the file, fields included, and what comes after it.
pub(super) fn around_a_file(fields: &[(&str, &str)], first: &[u8]) -> (Bytes, Bytes) {
    let mut lines = Vec::new();
    for (name, value) in fields {
        lines.push(format!("--{BOUNDARY}"));
        lines.push(format!("content-disposition: form-data; name=\"{name}\""));
        lines.extend([String::new(), (*value).to_owned()]);
    }
    // Endpoints go by the name's extension, and the provider's files have none.
    let (extension, medium) = medium_of(first);
    let file = format!("name=\"file\"; filename=\"recording.{extension}\"");
    lines.push(format!("--{BOUNDARY}"));
    lines.push(format!("content-disposition: form-data; {file}"));
    lines.push(format!("content-type: {medium}"));
    lines.extend([String::new(), String::new()]);
    (lines.join("\r\n").into(), format!("\r\n--{BOUNDARY}--\r\n").into())
}

/// The extension and the media type of what begins with these bytes.
fn medium_of(first: &[u8]) -> (&'static str, &'static str) {
    match first {
        [0x1a, 0x45, 0xdf, 0xa3, ..] => ("webm", "audio/webm"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => ("mp4", "video/mp4"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => ("wav", "audio/wav"),
        [b'O', b'g', b'g', b'S', ..] => ("ogg", "audio/ogg"),
        [b'f', b'L', b'a', b'C', ..] => ("flac", "audio/flac"),
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => ("mp3", "audio/mpeg"),
        _ => ("webm", "application/octet-stream"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_first_bytes() {
        for (first, extension) in [
            (&b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81"[..], "webm"),
            (b"\x00\x00\x00\x20ftypisom", "mp4"),
            (b"RIFF\x24\x00\x00\x00WAVE", "wav"),
            (b"OggS\x00\x02", "ogg"),
            (b"fLaC", "flac"),
            (b"ID3\x04", "mp3"),
            (b"\xff\xfb\x90", "mp3"),
            (b"", "webm"),
        ] {
            assert_eq!(medium_of(first).0, extension, "{first:?}");
        }
    }
}
