//! Words are found in what a user's meetings have said, and nobody else's.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::BotStatus;
use roundsman_core::ports::{SearchHit, SearchPage};
use roundsman_core::transcripts::{SearchQuery, WORD_CHARS_MAX, matches};
use roundsman_core::users::UserId;

use super::attend::user;
use super::backdoor::Said;
use super::fixture::{Fixture, at_once};
use super::speak::{
    NOISE, UID, hear, read, rename, room, room_of, settle, settle_all, speech, told, told_by,
    unfiltered,
};
use super::wishes::SECOND;

const TEXTS: [&str; 14] = [
    "The follow-up: we'll ship Version 2 in MARCH.",
    "we will follow the plan up to march",
    "Version 20, not version 2",
    "ships and shipping",
    "1e5a or 1.5e3, 10:30 at 3.14",
    "CAFÉ Straße naïve",
    "cafe strasse naive",
    "İstanbul ΟΔΟΣ",
    "שלום עולם",
    "你好 世界 it's 😀 snake_case",
    "a b c a b",
    "the and for you not or near",
    "http://example.org/path?query=1 mail@example.org",
    "running runs ran",
];

/// Live or final, in either database, what is found is what the rule finds.
pub async fn words_phrases_and_beginnings_are_found(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let long = format!("{} tail", "w".repeat(WORD_CHARS_MAX + 5));
    let texts: Vec<&str> = TEXTS.into_iter().chain([long.as_str()]).collect();
    let queries = [
        "march",
        "MARCH version",
        "\"follow up\"",
        "follow-up",
        "vers*",
        "\"version 2\"",
        "version 2",
        "\"version 2\"*",
        "ship",
        "ship*",
        "ships",
        "1e5a",
        "1e5*",
        "\"1 5e3\"",
        "10:30",
        "3.14",
        "café",
        "cafe",
        "CAFE*",
        "straße",
        "strasse",
        "istanbul",
        "οδος",
        "ΟΔΟΣ",
        "שלום",
        "你好",
        "it's",
        "snake case",
        "\"b c a\"",
        "\"a b\"",
        "\"c b\"",
        "not",
        "or",
        "near",
        "a OR b",
        "the",
        "example.org",
        "run",
        "runs",
        "ll",
        "'; DROP TABLE x",
        "x:* & !y",
        "w*",
        "tail",
        "\"a b c a b\"",
        "zzz",
        "march zzz",
    ];
    let told = texts.iter().zip(0i64..).map(|(text, n)| told(n * 1000, n * 1000 + 900, text));
    hear(fx, room.says(1, told.collect())).await;
    for settled in [false, true] {
        for query in queries.iter().map(|text| (text, parse(text))) {
            let (text, query) = query;
            let expected: BTreeSet<&str> =
                texts.iter().filter(|text| matches(text, &query)).copied().collect();
            let hits = search(fx, room.user, text).await;
            let found: BTreeSet<&str> =
                hits.iter().map(|hit| hit.line.segment.content.text.as_str()).collect();
            assert_eq!(found, expected, "{text}, settled: {settled}");
            assert_eq!(found.len(), hits.len(), "each once");
            assert!(hits.iter().all(|hit| hit.id.is_some() == settled));
        }
        settle(fx, &room, unfiltered()).await;
    }
}

/// A hit says where it is, and is the line that is read there.
pub async fn a_hit_is_the_line_that_is_read(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.starts(UID, fx.now(), fx.now())).await;
    hear(fx, room.says(1, vec![told_by("Ann", 0, 900, "alpha kept")])).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(2, vec![told(1000, 1900, "alpha live")])).await;
    let lines = read(fx, &room).await.lines;
    let hits = search(fx, room.user, "alpha").await;
    assert_eq!(hits.len(), 2);
    assert!(hits[0].id.is_none() && hits[1].id.is_some(), "live ones first");
    assert_eq!([&hits[1].line, &hits[0].line], [&lines[0], &lines[1]]);
    for hit in &hits {
        assert_eq!((hit.meeting_id, hit.platform.as_str()), (room.meeting, "google_meet"));
        assert_eq!(hit.native_id.as_ref(), Some(&room.native_id));
    }
    let Some(door) = &fx.backdoor else { return };
    assert_eq!(hits[1].id, Some(door.said(room.meeting).await[0].0), "the number of its row");
}

pub async fn nobody_finds_what_others_said(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    for (room, word) in [(&room, "mine"), (&other, "theirs")] {
        hear(fx, room.says(1, speech(3, &format!("shared {word} kept")))).await;
        settle_all(fx, room).await;
        hear(fx, room.says(1, vec![told(9000, 9900, &format!("shared {word} live"))])).await;
    }
    for (user, word) in [(room.user, "mine"), (other.user, "theirs")] {
        let hits = search(fx, user, "shared").await;
        assert_eq!(hits.len(), 4);
        assert!(hits.iter().all(|hit| hit.line.segment.content.text.contains(word)));
    }
    assert_eq!(search(fx, room.user, "theirs").await, vec![]);
    assert_eq!(search(fx, UserId::new(1_000_000), "shared").await, vec![]);
    // A number is a word like any other, whoever's it is.
    let number = other.user.get().to_string();
    assert_eq!(search(fx, room.user, &format!("theirs {number}")).await, vec![]);
    assert_eq!(search(fx, room.user, &format!("owner:{number} OR shared")).await, vec![]);
}

/// Live ones, then final ones, newest first; pages follow each other.
pub async fn pages_follow_each_other(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut rooms = Vec::new();
    for name in ["first", "second"] {
        let room = room_of(fx, ada, name, BotStatus::Active).await;
        for part in 0..3i64 {
            let said = (0..3)
                .map(|n| told((part * 3 + n) * 1000, (part * 3 + n) * 1000 + 900, "alpha said"));
            hear(fx, room.says(part, said.collect())).await;
            settle_all(fx, &room).await;
        }
        hear(fx, room.says(9, vec![told(20_000, 20_900, "alpha live")])).await;
        rooms.push(room);
    }
    let all = search_page(fx, ada, "alpha", None, 100).await;
    assert_eq!(all.len(), 20);
    assert!(all[..2].iter().all(|hit| hit.id.is_none()), "live ones first");
    let ids: Vec<i64> = all[2..].iter().filter_map(|hit| hit.id).collect();
    assert_eq!(ids.len(), 18);
    assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "newest first: {ids:?}");
    assert_eq!(search_page(fx, ada, "alpha", None, 0).await, vec![]);
    assert_eq!(search_page(fx, ada, "alpha", None, 1).await.len(), 1);
    let mut found = search_page(fx, ada, "alpha", None, 7).await;
    assert_eq!(found.len(), 7);
    loop {
        let before = found.last().and_then(|hit| hit.id);
        assert!(before.is_some(), "two live ones fill no page of seven");
        let page = search_page(fx, ada, "alpha", before, 7).await;
        assert!(page.len() <= 7 && page.iter().all(|hit| hit.id.is_some()));
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found[2..], all[2..]);
    assert_eq!(search_page(fx, ada, "alpha", Some(i64::MAX), 100).await, all[2..]);
    assert_eq!(search_page(fx, ada, "alpha", Some(0), 100).await, vec![]);
}

/// T-6: what was changed is found by what it says now.
pub async fn a_changed_text_is_found_by_its_new_words(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told_by("Ann", 0, 900, "alpha words"), told(1000, 1900, NOISE)]))
        .await;
    hear(fx, room.says(2, vec![told_by("Ann", 0, 900, "bravo words")])).await;
    let counts = async || {
        let mut counts = Vec::new();
        for word in ["alpha", "bravo", "charlie", "words", "audio"] {
            counts.push(search(fx, room.user, word).await.len());
        }
        counts
    };
    assert_eq!(counts().await, [0, 1, 0, 1, 1]);
    settle_all(fx, &room).await;
    assert_eq!(counts().await, [0, 1, 0, 1, 0], "what was refused is not found");
    hear(fx, room.says(3, vec![told_by("Ann", 0, 900, "charlie words")])).await;
    assert_eq!(counts().await, [0, 0, 1, 1, 0]);
    let hit = search(fx, room.user, "charlie").await.remove(0);
    assert_eq!(Some(&hit.line), read(fx, &room).await.lines.first());
    // A speaker's name is not what was said, and another name loses no words.
    rename(fx, &room, "Ann", "Zoë").await;
    assert_eq!(counts().await, [0, 0, 1, 1, 0]);
    assert_eq!(search(fx, room.user, "ann").await, vec![]);
    let hit = search(fx, room.user, "charlie").await.remove(0);
    assert_eq!(hit.line.segment.content.speaker.as_deref(), Some("Zoë"));
}

/// Rows that somebody else wrote are found once they were looked at.
pub async fn rows_of_somebody_else_are_found_once_indexed(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    hear(fx, room.says(1, vec![told(0, 900, "alpha ours")])).await;
    settle_all(fx, &room).await;
    for number in 0..5 {
        let said = Said { end: 1.0, text: format!("alpha theirs {number}"), ..Said::default() };
        door.put_said(room.meeting, said.clone()).await;
        door.put_said(other.meeting, said).await;
    }
    assert_eq!(search(fx, room.user, "alpha").await.len(), 1);
    let mut looked_at = 0;
    loop {
        let count = index(fx, 4).await;
        assert!(count <= 4, "no more than it may");
        looked_at += count;
        if count == 0 {
            break;
        }
    }
    assert!(looked_at >= 10, "{looked_at} rows were looked at");
    assert_eq!(search(fx, room.user, "alpha").await.len(), 6);
    assert_eq!(search(fx, other.user, "alpha theirs").await.len(), 5);
    assert_eq!(search(fx, room.user, "\"theirs 3\"").await.len(), 1);
    // Ours are found at once and once, whether or not they were looked at as well.
    hear(fx, room.says(2, vec![told(5000, 5900, "alpha later")])).await;
    settle_all(fx, &room).await;
    assert_eq!(search(fx, room.user, "later").await.len(), 1);
    index(fx, 100).await;
    assert_eq!(index(fx, 100).await, 0);
    assert_eq!(search(fx, room.user, "later").await.len(), 1);
    let said = Said { end: 1.0, text: "alpha last".to_owned(), ..Said::default() };
    door.put_said(room.meeting, said).await;
    assert_eq!(index(fx, 100).await, 1);
    assert_eq!(search(fx, room.user, "last").await.len(), 1);
}

/// One row that cannot be searched keeps nobody from being found.
pub async fn a_row_that_is_too_large_stops_nobody(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let room = room(fx, "ada").await;
    let words: Vec<String> = (0..300_000).map(|n| format!("w{n}")).collect();
    let texts = [words.join(" "), "x".repeat(3_000_000), String::new(), "alpha".to_owned()];
    for text in texts {
        door.put_said(room.meeting, Said { end: 1.0, text, ..Said::default() }).await;
    }
    for _ in 0..4 {
        index(fx, 1).await;
    }
    assert_eq!(index(fx, 100).await, 0);
    assert_eq!(search(fx, room.user, "alpha").await.len(), 1);
}

pub async fn what_is_deleted_is_not_found(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, speech(2, "alpha"))).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(1, vec![told(9000, 9900, "alpha live")])).await;
    assert_eq!(search(fx, room.user, "alpha").await.len(), 3);
    fx.advance(SECOND);
    let deleted = fx.store.delete_transcript(room.user, room.target(), fx.now()).await;
    deleted.expect("delete_transcript").expect("it is theirs");
    index(fx, 100).await;
    assert_eq!(search(fx, room.user, "alpha").await, vec![]);
    // The next segment may get the number of one that is gone.
    hear(fx, room.says(2, vec![told(0, 900, "bravo")])).await;
    settle_all(fx, &room).await;
    assert_eq!(search(fx, room.user, "alpha").await, vec![]);
    assert_eq!(search(fx, room.user, "bravo").await.len(), 1);
}

/// What was searched a while ago is sound all the same when words come and go.
pub async fn a_search_finds_nothing_wrong_with_the_words(fx: &Arc<Fixture>) {
    let room = Arc::new(room(fx, "ada").await);
    for version in 0..12i64 {
        let searches = (0..8).map(|_| {
            let (fx, room) = (Arc::clone(fx), Arc::clone(&room));
            async move { search(&fx, room.user, "alpha").await.len() }
        });
        let found: BTreeSet<usize> = at_once(searches).await.into_iter().collect();
        assert_eq!(found.len(), 1, "all find the same: {found:?}");
        if version % 4 == 3 {
            let deleted = fx.store.delete_transcript(room.user, room.target(), fx.now()).await;
            deleted.expect("delete_transcript").expect("it is theirs");
        }
        for part in 0..10i64 {
            let at = (version * 10 + part) * 1000;
            hear(fx, room.says(version, vec![told(at, at + 900, "alpha words")])).await;
            settle(fx, &room, unfiltered()).await;
        }
        for _ in 0..4 {
            assert_eq!(fx.store.check().await.expect("check"), vec![]);
        }
    }
}

fn parse(text: &str) -> SearchQuery {
    SearchQuery::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn search(fx: &Fixture, user: UserId, text: &str) -> Vec<SearchHit> {
    search_page(fx, user, text, None, 100).await
}

async fn search_page(
    fx: &Fixture,
    user: UserId,
    text: &str,
    before: Option<i64>,
    rows_max: u32,
) -> Vec<SearchHit> {
    let page = SearchPage { before, rows_max };
    let hits = fx.store.search_transcripts(user, parse(text), page).await;
    hits.expect("search_transcripts")
}

async fn index(fx: &Fixture, rows_max: u32) -> u32 {
    fx.store.index_transcriptions(rows_max).await.expect("index_transcriptions")
}
