//! The record that `strace` made: one file per thread, one call per line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use roundsman_testkit::eventually;

use super::disk;
use crate::site::SOON;

/// The files whose bytes matter.
pub(super) const FILES: [&str; 2] = ["roundsman.db", "roundsman.db-wal"];

/// Nanoseconds of the machine's clock.
pub(super) type Instant = u64;

/// A change of a file, from when to when.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) file: usize,
    pub(super) change: Change,
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Bytes { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A wish that all bytes of a file be on disk, and its fulfilment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sync {
    pub(super) file: usize,
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

/// Everything that a server wrote, synchronised and answered.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// In the order in which they began.
    pub(super) writes: Vec<Write>,
    pub(super) syncs: Vec<Sync>,
    answers: BTreeMap<String, Instant>,
    data: PathBuf,
}

impl Trace {
    /// Reads the record in `folder` of a server that has ended, about its files in `data`.
    pub(super) async fn read(folder: &Path, data: &Path) -> Result<Trace> {
        // The tracer outlives the server by as long as it takes to write the last line.
        let texts = eventually(SOON, async || complete_record(folder).ok());
        let texts = texts.await.context("the record does not end")?;
        let mut trace = Trace { data: data.to_owned(), ..Trace::default() };
        for line in texts.iter().flat_map(|text| text.lines()) {
            trace.add(line).with_context(|| short(line))?;
        }
        trace.writes.sort_by_key(|write| write.began);
        ensure!(!trace.writes.is_empty() && !trace.syncs.is_empty(), "the record is empty");
        Ok(trace)
    }

    /// When the answer to a request began to be sent.
    pub(super) fn answered_at(&self, request: &str) -> Option<Instant> {
        self.answers.get(request).copied()
    }

    /// How often the database itself was synchronised: at each end of a checkpoint.
    pub(super) fn checkpoints(&self) -> usize {
        self.syncs.iter().filter(|sync| FILES[sync.file] == "roundsman.db").count()
    }

    /// How often the log was begun, the first time included.
    pub(super) fn logs_begun(&self) -> usize {
        let begins = |write: &&Write| {
            FILES[write.file] == "roundsman.db-wal"
                && matches!(write.change, Change::Bytes { offset: 0, .. })
        };
        self.writes.iter().filter(begins).count()
    }

    /// The record is complete: without a loss it leads to the files as they are.
    pub(super) fn check_against_files(&self) -> Result<()> {
        for (file, name) in FILES.iter().enumerate() {
            let found = std::fs::read(self.data.join(name))?;
            let mut replayed = Vec::new();
            for write in self.writes.iter().filter(|write| write.file == file) {
                disk::apply(&mut replayed, &write.change);
            }
            ensure!(replayed == found, "{name}: the record does not lead to the file");
        }
        Ok(())
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let Some((began, rest)) = line.split_once(' ') else { return Ok(()) };
        let Some((call, arguments)) = rest.split_once('(') else { return Ok(()) };
        let began = nanoseconds(began)?;
        let Some((_, after_number)) = arguments.split_once('<') else { return Ok(()) };
        let Some((target, rest)) = after_number.split_once('>') else { return Ok(()) };
        if target.starts_with("TCP") {
            self.add_answer(began, &strings(rest)?);
            return Ok(());
        }
        let Some(file) = self.file(&unescape(target)?) else { return Ok(()) };
        let ended = began + duration(line)?;
        match call {
            "pwrite64" => {
                let change = Change::Bytes { offset: offset(rest)?, bytes: strings(rest)? };
                self.writes.push(Write { file, change, began, ended });
            }
            "ftruncate" => {
                let change = Change::Length(length(rest)?);
                self.writes.push(Write { file, change, began, ended });
            }
            "fsync" | "fdatasync" => self.syncs.push(Sync { file, began, ended }),
            other => bail!("{other} is not understood by this test"),
        }
        Ok(())
    }

    fn add_answer(&mut self, began: Instant, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let name = text.split("\r\n").find_map(|header| header.strip_prefix("x-request-id: "));
        if let Some(name) = name.filter(|_| text.starts_with("HTTP/1.1 2")) {
            self.answers.insert(name.to_owned(), began);
        }
    }

    fn file(&self, path: &[u8]) -> Option<usize> {
        let path = Path::new(std::str::from_utf8(path).ok()?);
        let name = path.strip_prefix(&self.data).ok()?.to_str()?;
        FILES.iter().position(|file| *file == name)
    }
}

/// The text of every thread's record, if all have come to their end.
fn complete_record(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("trace.") {
            let text = std::fs::read_to_string(&path)?;
            let last = text.lines().last().unwrap_or_default();
            ensure!(last.contains("+++"), "{name} is not complete");
            texts.push(text);
        }
    }
    ensure!(!texts.is_empty(), "there is no record");
    Ok(texts)
}

/// `1794785935.785631665`
fn nanoseconds(text: &str) -> Result<u64> {
    let (seconds, fraction) = text.split_once('.').context("no time")?;
    ensure!(fraction.len() == 9, "not nanoseconds: {text}");
    Ok(seconds.parse::<u64>()? * 1_000_000_000 + fraction.parse::<u64>()?)
}

/// The last thing on a line, `<0.000038161>`. A call that the kill interrupted has none.
fn duration(line: &str) -> Result<u64> {
    let text = line.rsplit_once('<').and_then(|(_, text)| text.strip_suffix('>'));
    nanoseconds(text.context("a call without an end")?)
}

/// `, "…", 24, 119512) = 24 <…>`: the third argument.
fn offset(rest: &str) -> Result<usize> {
    let (_, numbers) = rest.rsplit_once("\", ").context("no bytes")?;
    let (numbers, result) = numbers.split_once(") = ").context("no result")?;
    let (count, offset) = numbers.split_once(", ").context("no offset")?;
    ensure!(result.split(' ').next() == Some(count), "written in part: {}", short(rest));
    Ok(offset.parse()?)
}

/// `, 933888) = 0 <…>`
fn length(rest: &str) -> Result<usize> {
    let number = rest.strip_prefix(", ").and_then(|rest| rest.split_once(") = 0"));
    Ok(number.context("no length")?.0.parse()?)
}

/// All strings of a call, one after the other.
fn strings(rest: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Every byte is escaped, so that a quotation mark always ends or begins a string.
    for text in rest.split('"').skip(1).step_by(2) {
        bytes.extend(unescape(text)?);
    }
    Ok(bytes)
}

/// `\x2f\x74`
fn unescape(text: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).context("not a hexadecimal digit");
    let escapes = text.as_bytes().chunks(4);
    let byte = |escape: &[u8]| match escape {
        [b'\\', b'x', high, low] => Ok(u8::try_from(digit(*high)? * 16 + digit(*low)?)?),
        _ => bail!("not an escaped byte: {}", short(text)),
    };
    escapes.map(byte).collect()
}

fn short(line: &str) -> String {
    line.chars().take(200).collect()
}

#[cfg(test)]
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| all + &format!("\\x{byte:02x}"))
}

#[test]
fn a_line_is_understood() {
    let mut trace = Trace { data: PathBuf::from("/d"), ..Trace::default() };
    let path = escape("/d/roundsman.db-wal");
    let write = format!(r#"7.000000005 pwrite64(12<{path}>, "\x00\xff", 2, 32) = 2 <0.000000003>"#);
    trace.add(&write).unwrap();
    trace.add(&format!("7.000000009 fsync(12<{path}>) = 0 <0.000000001>")).unwrap();
    trace.add(&format!("7.000000010 ftruncate(12<{path}>, 4096) = 0 <0.000000001>")).unwrap();
    let answer = escape("HTTP/1.1 201 Created\r\nx-request-id: a-1\r\n\r\n");
    let parts = format!(r#"[{{iov_base="{answer}", iov_len=4}}], 1"#);
    trace.add(&format!("7.000000020 writev(9<TCP:[1->2]>, {parts}) = 4 <0.000000001>")).unwrap();
    assert_eq!(trace.writes[0].change, Change::Bytes { offset: 32, bytes: vec![0, 255] });
    assert_eq!(trace.writes[0].ended, 7_000_000_008);
    assert_eq!(trace.writes[1].change, Change::Length(4096));
    assert_eq!((trace.syncs[0].file, trace.syncs[0].began), (1, 7_000_000_009));
    assert_eq!(trace.answered_at("a-1"), Some(7_000_000_020));
}
