//! What clients write and what documents hold: the same for Loro and for Yjs.

use anyhow::Context;
use bytes::Bytes;
use roundsman_documents::Document;
use serde_json::{Map, Value, json};

/// A node is made of this. `bench/rooms/node/hocuspocus.js` makes the same.
fn node(number: usize) -> Value {
    json!({
        "id": format!("n{number}"), "type": "image", "x": number * 10, "y": number * 7,
        "label": format!("node {number}"), "status": "completed",
        "src": format!("/results/{}.png", word(number, 0)),
        "prompt": format!("a cat on a roof {}", word(number, 4)),
    })
}

/// 32 letters that no other node has, and that cannot be written shorter.
fn word(number: usize, salt: u32) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer nodes")]
    let number = number as u32;
    let part = |salt: u32| (number * 8 + salt).wrapping_mul(2_654_435_761);
    let part = |salt: u32| part(salt) ^ (part(salt) >> 15);
    (salt..salt + 4).fold(String::new(), |word, salt| word + &format!("{:08x}", part(salt)))
}

/// A document of Loro with so many nodes, as a snapshot.
pub(crate) fn filled(nodes: usize) -> anyhow::Result<Bytes> {
    let all: Map<String, Value> =
        (0..nodes).map(|number| (format!("n{number}"), node(number))).collect();
    let mut document = Document::new(1);
    document.patch(&json!({ "nodes": all }))?;
    Ok(document.snapshot())
}

/// The key under which a client writes.
pub(crate) fn key(client: usize) -> String {
    format!("c{client}")
}

/// So many updates of one client, each of which sets its key to the next number from one on.
pub(crate) fn loro_updates(client: usize, count: usize) -> anyhow::Result<Vec<Bytes>> {
    let mut document = Document::new(1000 + client as u64);
    let key = key(client);
    let update = |number: usize| {
        let patch = json!({ "nodes": { key.as_str(): number } });
        document.patch(&patch)?.context("no change")
    };
    (1..=count).map(update).collect()
}

/// The same of Yjs, as its clients send them.
pub(crate) fn yjs_updates(client: usize, count: usize) -> Vec<Bytes> {
    let key = key(client);
    (1..=count).map(|number| yjs_update(1000 + client as u64, &key, number as u64)).collect()
}

/// An item of one value at the place of the one before it, which it deletes.
fn yjs_update(peer: u64, key: &str, number: u64) -> Bytes {
    const ANY: u8 = 8;
    const HAS_ORIGIN: u8 = 0x80;
    const HAS_KEY: u8 = 0x20;
    const INTEGER: u8 = 125;
    let clock = number - 1;
    let mut out = vec![1, 1];
    unsigned(&mut out, peer);
    unsigned(&mut out, clock);
    if clock == 0 {
        out.extend([HAS_KEY | ANY, 1]);
        text(&mut out, "nodes");
        text(&mut out, key);
    } else {
        out.push(HAS_ORIGIN | HAS_KEY | ANY);
        unsigned(&mut out, peer);
        unsigned(&mut out, clock - 1);
    }
    out.extend([1, INTEGER]);
    signed(&mut out, number);
    if clock == 0 {
        out.push(0);
    } else {
        out.push(1);
        unsigned(&mut out, peer);
        out.push(1);
        unsigned(&mut out, clock - 1);
        out.push(1);
    }
    out.into()
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub(crate) fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    unsigned(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// A number that is not negative, where others could be: the first byte has a bit for the sign.
#[expect(clippy::cast_possible_truncation, reason = "six bits")]
fn signed(out: &mut Vec<u8>, value: u64) {
    if value < 0x40 {
        out.push(value as u8);
    } else {
        out.push((value & 0x3f) as u8 | 0x80);
        unsigned(out, value >> 6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `yjs` 13.6 writes them for `map.set("c7", 1)`, then 2; and how it writes 1000.
    #[test]
    fn updates_of_yjs_are_what_its_client_sends() {
        let update = |number| yjs_update(300, "c7", number);
        let first = b"\x01\x01\xac\x02\x00\x28\x01\x05nodes\x02c7\x01\x7d\x01\x00";
        assert_eq!(update(1), first[..]);
        let second = b"\x01\x01\xac\x02\x01\xa8\xac\x02\x00\x01\x7d\x02\x01\xac\x02\x01\x00\x01";
        assert_eq!(update(2), second[..]);
        let mut value = Vec::new();
        signed(&mut value, 1000);
        assert_eq!(value, [0xa8, 0x0f]);
    }

    #[test]
    fn words_are_those_of_the_other_program() {
        assert_eq!(word(5, 0), "b8aa72fe56e2d09df5181d3993505619");
        assert_eq!(word(9999, 4), "3f2ed7e1dd6799a17b9d6a2519d52565");
    }

    #[test]
    fn updates_of_loro_say_the_last_number() {
        let mut document = Document::new(5);
        for update in loro_updates(7, 20).unwrap() {
            document.import(&update).unwrap();
        }
        assert_eq!(document.to_json()["nodes"], json!({ "c7": 20 }));
    }
}
