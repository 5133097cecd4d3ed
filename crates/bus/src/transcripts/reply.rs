//! Reads what Redis answers to commands of streams.
//!
//! The library's own types are not used: they lose the order of fields, and a name that is no text
//! would make the whole answer unreadable, again and again.

use redis::Value;
use roundsman_core::ports::StreamEntry;

/// An entry as a group gives it out. Without fields it was deleted since.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) id: String,
    pub(super) fields: Option<Vec<(String, String)>>,
}

impl Given {
    pub(super) fn into_entry(self, deliveries: u32) -> Option<StreamEntry> {
        Some(StreamEntry { id: self.id, fields: self.fields?, deliveries })
    }
}

/// What XREADGROUP answers for one stream; nothing if it waited in vain.
pub(super) fn read(reply: Value) -> Option<Vec<Given>> {
    let entries = match reply {
        Value::Nil => return Some(Vec::new()),
        Value::Map(streams) => streams.into_iter().next()?.1,
        streams => items(items(streams)?.into_iter().next()?)?.into_iter().nth(1)?,
    };
    items(entries)?.into_iter().map(given).collect()
}

/// What XAUTOCLAIM answers: where to go on, and what was claimed. Entries that were deleted since
/// are no longer pending with the answer; servers before Redis 7 leave them nameless.
pub(super) fn claim(reply: Value) -> Option<(String, Vec<Given>)> {
    let mut parts = items(reply)?.into_iter();
    let cursor = text(parts.next()?)?;
    let claimed = items(parts.next()?)?.into_iter().filter(|entry| *entry != Value::Nil);
    Some((cursor, claimed.map(given).collect::<Option<_>>()?))
}

/// How often XPENDING says that an entry was given out; nothing if it is no longer pending.
pub(super) fn deliveries(reply: Value) -> Option<u32> {
    let entry = items(reply)?.into_iter().next()?;
    match items(entry)?.into_iter().nth(3)? {
        Value::Int(count) => u32::try_from(count).ok(),
        _ => None,
    }
}

fn given(entry: Value) -> Option<Given> {
    let mut parts = items(entry)?.into_iter();
    let id = text(parts.next()?)?;
    let fields = match parts.next()? {
        Value::Nil => None,
        fields => Some(pairs(items(fields)?)?),
    };
    Some(Given { id, fields })
}

fn pairs(values: Vec<Value>) -> Option<Vec<(String, String)>> {
    let mut texts = values.into_iter().map(text);
    let mut pairs = Vec::with_capacity(texts.len() / 2);
    while let Some(name) = texts.next() {
        pairs.push((name?, texts.next()??));
    }
    Some(pairs)
}

fn items(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Bytes that are no text are replaced: what they stand in is judged by whoever reads it.
fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(bytes: &[u8]) -> Value {
        Value::BulkString(bytes.to_vec())
    }

    fn entry(id: &str, fields: &[&[u8]]) -> Value {
        let fields = fields.iter().map(|field| bulk(field)).collect();
        Value::Array(vec![bulk(id.as_bytes()), Value::Array(fields)])
    }

    fn deleted(id: &str) -> Value {
        Value::Array(vec![bulk(id.as_bytes()), Value::Nil])
    }

    #[test]
    fn both_versions_of_the_protocol_are_read() {
        let entries = Value::Array(vec![entry("1-1", &[b"b", b"1", b"a", b"2"]), deleted("2-1")]);
        let map = Value::Map(vec![(bulk(b"s"), entries.clone())]);
        let array = Value::Array(vec![Value::Array(vec![bulk(b"s"), entries])]);
        assert_eq!(read(map.clone()), read(array));
        let given = read(map).unwrap();
        let pairs = [("b", "1"), ("a", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(given[0].fields.as_deref(), Some(&pairs[..]));
        assert_eq!(given[1], Given { id: "2-1".into(), fields: None });
        assert_eq!(read(Value::Nil), Some(Vec::new()));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let stream = Value::Array(vec![
            bulk(b"s"),
            Value::Array(vec![entry("1-1", &[b"pay\xffload", b"\xfe{}"])]),
        ]);
        let given = read(Value::Array(vec![stream])).unwrap();
        let fields = given[0].fields.as_ref().unwrap();
        assert_eq!(fields[0], ("pay\u{fffd}load".to_owned(), "\u{fffd}{}".to_owned()));
    }

    #[test]
    fn claims_leave_out_what_has_no_name() {
        let claimed = Value::Array(vec![Value::Nil, entry("1-1", &[]), deleted("2-1")]);
        let reply = Value::Array(vec![bulk(b"3-0"), claimed, Value::Array(vec![])]);
        let (cursor, given) = claim(reply).unwrap();
        assert_eq!(cursor, "3-0");
        assert_eq!(given.len(), 2);
        assert_eq!(given[1].fields, None);
    }

    #[test]
    fn deliveries_are_counted() {
        let pending = [bulk(b"1-1"), bulk(b"me"), Value::Int(5), Value::Int(3)];
        let reply = Value::Array(vec![Value::Array(pending.to_vec())]);
        assert_eq!(deliveries(reply), Some(3));
        assert_eq!(deliveries(Value::Array(vec![])), None);
    }

    #[test]
    fn what_is_no_answer_is_told_apart() {
        for reply in [Value::Int(1), Value::Array(vec![Value::Int(1)]), bulk(b"x"), Value::Okay] {
            assert_eq!(read(reply.clone()), None);
            assert_eq!(claim(reply), None);
        }
        let odd = Value::Array(vec![entry("1-1", &[b"name"])]);
        assert_eq!(read(Value::Map(vec![(bulk(b"s"), odd)])), None, "half a pair");
    }
}
