//! Whatever was heard, and however much, is read as it was heard.

use std::sync::Arc;

use roundsman_core::effects::Frame;
use roundsman_core::ports::FinishAnswer;
use roundsman_core::recordings::SpokenSegment;
use roundsman_core::transcripts::TEXT_BYTES_MAX;

use super::fixture::Fixture;
use super::record::{
    as_spoken, finish, new_begun, recording, save, says, transcript, transcript_since,
};
use super::recordings_finish::search;
use super::visit::{meeting, room};

/// More than fits into one frame.
pub async fn a_long_transcript_is_saved_whole(fx: &Arc<Fixture>) {
    const COUNT: i64 = 2500;
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let filler = "word ".repeat(40);
    let spoken: Vec<SpokenSegment> = (0..COUNT)
        .map(|n| {
            let speaker = ["Ann", "Bob", "Cat"][usize::try_from(n % 3).expect("few")];
            says(speaker, n * 500, n * 500 + 700, &format!("number {n} {filler}"))
        })
        .collect();
    let frames = save(fx, &begun.id, spoken, guard).await;
    assert!(frames.len() > 1, "it is told in several frames");
    // Whoever has heard only the first ones reads at least what the others told.
    for place in [0, frames.len() / 2, frames.len() - 2] {
        let since = transcript_since(fx, id, Some(frames[place].seq)).await;
        let told: usize = frames[place + 1..].iter().map(segments_in).sum();
        assert!(since.lines.len() >= told, "{} of {told}", since.lines.len());
    }
    let owner = meeting(fx, id).await.user_id;
    assert_eq!(search(fx, owner, "\"number 2499\"").await.len(), 1);
}

/// What leaves no place in one database or the other is put right, in both alike.
pub async fn every_text_comes_back_as_it_was_heard(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "Ada's 😀 \"rec\"", "weekly").await;
    let odd = "it's \"odd\" \\ 😀 \u{202e}ü; -- %s $1 ?1 </script> \t\r\n 👩‍👩‍👧";
    let mut long = "long 😀 ".repeat(TEXT_BYTES_MAX / 10);
    long.push_str(&"x".repeat(TEXT_BYTES_MAX - long.len()));
    let spoken = vec![
        says(odd.trim(), 0, 900, odd),
        says("Ann", 1000, 1900, "你好 世界 שלום"),
        says("Ann", 2000, 2900, &long),
        says(&"😀".repeat(255), 3000, 3900, "a name as long as may be"),
        SpokenSegment { language: Some("x".repeat(10)), ..says("Ann", 4000, 4900, "words") },
        says("Ann", 86_000_000, 186_000_000, "almost a day later, for long"),
    ];
    save(fx, &begun.id, spoken.clone(), guard).await;
    assert_eq!(as_spoken(&transcript(fx, id).await.lines), spoken);
    let owner = meeting(fx, id).await.user_id;
    for (query, count) in [("odd", 1), ("\"你好 世界\"", 1), ("long", 3), ("almost", 1)] {
        assert_eq!(search(fx, owner, query).await.len(), count, "{query}");
    }
}

/// Too much for a column, or nothing that one can hold: the rest is kept.
pub async fn what_has_no_place_is_cut(fx: &Arc<Fixture>) {
    room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let spoken = vec![
        says("An\0n", 0, 900, "a\0b"),
        says(&"😀".repeat(300), 1000, 1900, "a long name"),
        SpokenSegment {
            language: Some("haitian creole".to_owned()),
            ..says("Ann", 2000, 2900, "a long language")
        },
        SpokenSegment { language: Some("e\0n".to_owned()), ..says("Ann", 3000, 3900, "NUL") },
    ];
    let answer = finish(fx, &begun.id, spoken.clone(), guard).await;
    let FinishAnswer::Saved { meeting, .. } = answer else { panic!("{answer:?}") };
    let read = as_spoken(&transcript(fx, meeting).await.lines);
    let texts: Vec<&str> = read.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["ab", "a long name", "a long language", "NUL"]);
    let times = |spoken: &[SpokenSegment]| {
        spoken.iter().map(|one| (one.start_ms, one.end_ms)).collect::<Vec<_>>()
    };
    assert_eq!(times(&read), times(&spoken));
    for one in &read {
        let texts = [Some(&one.text), one.speaker.as_ref(), one.language.as_ref()];
        assert!(texts.into_iter().flatten().all(|text| !text.contains('\0')), "{one:?}");
    }
    assert_eq!(recording(fx, &begun.id).await.segments, 4);
}

/// A transcriber that knows no times says everything at once: it is read in several segments.
pub async fn a_very_long_text_is_read_in_pieces(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let (begun, guard) = new_begun(fx, "rec", "weekly").await;
    let words: Vec<String> = (0..20_000).map(|n| format!("wörd-{n}😀")).collect();
    let text = words.join(" ");
    let without_words = "ä".repeat(TEXT_BYTES_MAX);
    let spoken = vec![
        says("Ann", 1000, 601_000, &text),
        says("Bob", 700_000, 710_000, &without_words),
        says("Bob", 800_000, 810_000, "short"),
    ];
    let answer = finish(fx, &begun.id, spoken, guard).await;
    assert!(matches!(answer, FinishAnswer::Saved { .. }), "{answer:?}");
    let read = as_spoken(&transcript(fx, id).await.lines);
    assert!(read.iter().all(|one| one.text.len() <= TEXT_BYTES_MAX));
    assert!(read.is_sorted_by(|one, next| one.end_ms <= next.start_ms), "one after the other");
    let said_by = |name: &str| {
        let theirs = read.iter().filter(|one| one.speaker.as_deref() == Some(name));
        theirs.map(|one| one.text.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(said_by("Ann").join(" "), text, "no word is lost or cut");
    assert_eq!(said_by("Bob").concat(), without_words + "short");
    assert_eq!((read[0].start_ms, read[read.len() - 1].end_ms), (1000, 810_000));
    assert_eq!(recording(fx, &begun.id).await.segments as usize, read.len());
    // Where a word is that is said a thousand times is not known of each time; that it is, is.
    let owner = meeting(fx, id).await.user_id;
    assert_eq!(search(fx, owner, "wörd 19999").await.len(), 1);
}

fn segments_in(frame: &Frame) -> usize {
    frame.body.to_value()["payload"]["segments"].as_array().map_or(0, Vec::len)
}
