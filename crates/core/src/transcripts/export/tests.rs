use proptest::prelude::*;

use super::*;
use crate::transcripts::samples::{SESSION_START, any_speech, said};

fn meeting() -> ExportMeeting {
    ExportMeeting {
        title: "Weekly *sync*\n# <b>".to_owned(),
        platform: "google_meet".to_owned(),
        native_id: Some("abc-defg-hij".to_owned()),
        start_time: Some(SESSION_START),
    }
}

/// Two sessions, a line of a session without a start, and text that means something to a format.
fn lines() -> Vec<Line> {
    let mut second = said(500, 2_000, "Ann", "\u{0}=cmd()|' /C calc'!A0");
    second.session_start = Some(Timestamp::from_micros(SESSION_START.as_micros() + 3_600_000_000));
    second.segment.key.session_uid = Some("later".to_owned());
    let mut unknown = said(4_000, 4_000, "", "- no start\u{7}");
    unknown.session_start = None;
    unknown.segment.key.session_uid = None;
    vec![
        said(0, 1_500, "Ann", "Hello,\n\nworld --> \"quoted\""),
        said(1_500, 3_250, "Ann", "<script>alert(1)</script> & 1. *bold*"),
        said(3_250, 5_000, "דנה <x>", "שלום 😀\u{202e} {\\an8}"),
        said(5_000, 6_000, "", "1. nobody_said this"),
        said(6_000, 7_000, "Bob", " \u{0}\n"),
        second,
        unknown,
    ]
}

fn file(format: ExportFormat) -> String {
    export(&meeting(), &lines(), format)
}

#[test]
fn formats_are_read_as_they_are_written() {
    for format in ExportFormat::ALL {
        assert_eq!(ExportFormat::parse(format.as_str()), Ok(format));
        assert_eq!(format.extension(), format.as_str());
        assert!(format.content_type().contains('/'));
    }
    for text in ["", "TXT", "pdf", "txt "] {
        assert_eq!(ExportFormat::parse(text), Err(UnknownFormat));
    }
}

#[test]
fn text() {
    let expected = "\
[00:00:00] Ann: Hello, world --> \"quoted\"
[00:00:01] Ann: <script>alert(1)</script> & 1. *bold*
[00:00:03] דנה <x>: שלום 😀 {\\an8}
[00:00:05] 1. nobody_said this
[01:00:00] Ann: =cmd()|' /C calc'!A0
[00:00:04] - no start
";
    assert_eq!(file(ExportFormat::Txt), expected);
}

#[test]
fn srt() {
    let expected = "\
1
00:00:00,000 --> 00:00:01,500
Ann: Hello, world --› \"quoted\"

2
00:00:01,500 --> 00:00:03,250
Ann: ‹script›alert(1)‹/script› & 1. *bold*

3
00:00:03,250 --> 00:00:05,000
דנה ‹x›: שלום 😀 (\\an8)

4
00:00:04,000 --> 00:00:04,001
- no start

5
00:00:05,000 --> 00:00:06,000
1. nobody_said this

6
01:00:00,500 --> 01:00:02,000
Ann: =cmd()|' /C calc'!A0

";
    assert_eq!(file(ExportFormat::Srt), expected);
}

#[test]
fn vtt() {
    let expected = "\
WEBVTT

00:00:00.000 --> 00:00:01.500
<v Ann>Hello, world --&gt; \"quoted\"</v>

00:00:01.500 --> 00:00:03.250
<v Ann>&lt;script&gt;alert(1)&lt;/script&gt; &amp; 1. *bold*</v>

00:00:03.250 --> 00:00:05.000
<v דנה &lt;x&gt;>שלום 😀 {\\an8}</v>

00:00:04.000 --> 00:00:04.001
- no start

00:00:05.000 --> 00:00:06.000
1. nobody_said this

01:00:00.500 --> 01:00:02.000
<v Ann>=cmd()|' /C calc'!A0</v>
";
    assert_eq!(file(ExportFormat::Vtt), expected);
}

#[test]
fn csv() {
    let day = "2026-01-31T12:00:0";
    let expected = format!(
        "start,end,absolute_start_time,absolute_end_time,speaker,language,text,session_uid,\
         segment_id\r\n\
         0.000,1.500,{day}0.000000+00:00,{day}1.500000+00:00,Ann,,\
         \"Hello,\n\nworld --> \"\"quoted\"\"\",session,\r\n\
         1.500,3.250,{day}1.500000+00:00,{day}3.250000+00:00,Ann,,\
         <script>alert(1)</script> & 1. *bold*,session,\r\n\
         3.250,5.000,{day}3.250000+00:00,{day}5.000000+00:00,דנה <x>,,\
         שלום 😀 {{\\an8}},session,\r\n\
         5.000,6.000,{day}5.000000+00:00,{day}6.000000+00:00,,,1. nobody_said this,session,\r\n\
         6.000,7.000,{day}6.000000+00:00,{day}7.000000+00:00,Bob,,\" \n\",session,\r\n\
         0.500,2.000,2026-01-31T13:00:00.500000+00:00,2026-01-31T13:00:02.000000+00:00,Ann,,\
         '=cmd()|' /C calc'!A0,later,\r\n\
         4.000,4.000,,,,,'- no start,,\r\n"
    );
    assert_eq!(file(ExportFormat::Csv), expected);
}

#[test]
fn markdown() {
    let expected = "\
# Weekly \\*sync\\* \\# &lt;b&gt;

- Platform: google\\_meet
- Meeting: abc-defg-hij
- Started: 2026-01-31T12:00:00.000000Z

**Ann** (00:00:00)

Hello, world --&gt; \"quoted\" &lt;script&gt;alert(1)&lt;/script&gt; &amp; 1. \\*bold\\*

**דנה &lt;x&gt;** (00:00:03)

שלום 😀 {\\\\an8}

(00:00:05)

1\\. nobody\\_said this

**Ann** (01:00:00)

\\=cmd()\\|' /C calc'!A0

(00:00:04)

\\- no start
";
    assert_eq!(file(ExportFormat::Md), expected);
}

#[test]
fn json_has_what_rest_has() {
    let file: serde_json::Value = serde_json::from_str(&file(ExportFormat::Json)).unwrap();
    let meeting = serde_json::json!({
        "title": "Weekly *sync*\n# <b>", "platform": "google_meet",
        "native_meeting_id": "abc-defg-hij", "start_time": "2026-01-31T12:00:00.000000",
    });
    assert_eq!(file["meeting"], meeting);
    let segments: Vec<_> = lines().iter().map(line_body).collect();
    assert_eq!(file["segments"], serde_json::Value::from(segments));
}

#[test]
fn nothing_said_is_still_a_file() {
    let nobody =
        ExportMeeting { title: " \n".to_owned(), native_id: None, start_time: None, ..meeting() };
    let empty = |format| export(&nobody, &[], format);
    assert_eq!(empty(ExportFormat::Txt), "");
    assert_eq!(empty(ExportFormat::Srt), "");
    assert_eq!(empty(ExportFormat::Vtt), "WEBVTT\n");
    assert_eq!(empty(ExportFormat::Csv).lines().count(), 1);
    assert_eq!(empty(ExportFormat::Md), "# Transcript\n\n- Platform: google\\_meet\n");
}

#[test]
fn every_start_of_a_formula_is_disarmed() {
    for text in
        ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", " =1", "\u{1}=1", "＝1", "\u{a0}@a"]
    {
        assert!(super::csv::harmless(text).starts_with('\''), "{text:?}");
    }
    for text in ["", "a=1", "1-1", "'", "שלום", "\u{7}plain"] {
        assert!(!super::csv::harmless(text).starts_with("''"), "{text:?}");
    }
    assert_eq!(super::csv::harmless("\u{7}plain\u{202e}"), "plain");
}

#[test]
fn any_line_break_is_quoted() {
    for text in ["a\rb", "a\nb", "a\r\nb"] {
        let table = export(&meeting(), &[said(0, 1, "Ann", text)], ExportFormat::Csv);
        assert!(table.contains(&format!(",\"{text}\",")), "{table:?}");
    }
}

#[test]
fn times_of_cues_are_never_negative_or_empty() {
    let mut early = said(-5_000, -7_000, "Ann", "early");
    early.segment.key.field = "early".to_owned();
    let srt = export(&meeting(), &[early], ExportFormat::Srt);
    assert!(srt.contains("00:00:00,000 --> 00:00:00,001"), "{srt}");
    let long = said(360_000_000, 360_000_001, "Ann", "a hundred hours");
    let vtt = export(&meeting(), &[long], ExportFormat::Vtt);
    assert!(vtt.contains("100:00:00.000 --> 100:00:00.001"), "{vtt}");
}

/// The cells of a table, read by the rules of RFC 4180 and nothing else.
fn cells(table: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut rest = table.chars().peekable();
    let mut within = false;
    while let Some(c) = rest.next() {
        match c {
            '"' if within && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' if within => within = false,
            '"' if cell.is_empty() => within = true,
            ',' if !within => row.push(std::mem::take(&mut cell)),
            '\r' if !within && rest.peek() == Some(&'\n') => {
                rest.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(!within && cell.is_empty() && row.is_empty(), "the last row is not ended");
    rows
}

/// A cue as a plain reader sees it: blocks between blank lines that have a line with an arrow.
fn cue_blocks(file: &str) -> Vec<Vec<&str>> {
    let blocks = file.split("\n\n").map(|block| block.lines().filter(|line| !line.is_empty()));
    blocks.map(Iterator::collect).filter(|block: &Vec<_>| !block.is_empty()).collect()
}

fn is_spoken(line: &Line) -> bool {
    !super::text::one_line(&line.segment.content.text).is_empty()
}

proptest! {
    #[test]
    fn there_is_a_cue_for_each_text(lines in any_speech()) {
        let spoken = lines.iter().filter(|line| is_spoken(line)).count();

        let srt = export(&meeting(), &lines, ExportFormat::Srt);
        let blocks = cue_blocks(&srt);
        prop_assert_eq!(blocks.len(), spoken);
        for (index, block) in blocks.iter().enumerate() {
            prop_assert_eq!(block.len(), 3, "{:?}", block);
            prop_assert_eq!(block[0], (index + 1).to_string());
            prop_assert!(block[1].contains(" --> ") && !block[2].contains("-->"));
        }

        let vtt = export(&meeting(), &lines, ExportFormat::Vtt);
        let blocks = cue_blocks(&vtt);
        prop_assert_eq!(blocks.len(), spoken + 1);
        prop_assert_eq!(&blocks[0], &["WEBVTT"]);
        let mut earlier = "";
        for block in &blocks[1..] {
            prop_assert_eq!(block.len(), 2, "{:?}", block);
            let (from, to) = block[0].split_once(" --> ").unwrap();
            prop_assert!(earlier <= from && from < to, "{} {} {}", earlier, from, to);
            earlier = from;
            let inner = block[1].strip_prefix("<v ").map_or(block[1], |rest| {
                rest.split_once('>').and_then(|(_, text)| text.strip_suffix("</v>")).unwrap()
            });
            prop_assert!(!inner.contains(['<', '>']), "{}", inner);
        }
    }

    #[test]
    fn a_table_is_read_back(lines in any_speech()) {
        let table = export(&meeting(), &lines, ExportFormat::Csv);
        let rows = cells(&table);
        prop_assert_eq!(rows.len(), lines.len() + 1);
        for (row, line) in rows[1..].iter().zip(&lines) {
            let content = &line.segment.content;
            prop_assert_eq!(row.len(), rows[0].len());
            prop_assert_eq!(&row[6], &super::csv::harmless(&content.text));
            let speaker = content.speaker.as_deref().map(super::csv::harmless);
            prop_assert_eq!(Some(&row[4]), speaker.as_ref());
            for cell in row {
                let start = cell.trim_start().chars().next();
                prop_assert!(!matches!(start, Some('=' | '+' | '-' | '@')), "{}", cell);
            }
        }
    }

    #[test]
    fn text_has_a_line_for_each_text(lines in any_speech()) {
        let file = export(&meeting(), &lines, ExportFormat::Txt);
        prop_assert_eq!(file.lines().count(), lines.iter().filter(|line| is_spoken(line)).count());
        prop_assert!(file.chars().all(|c| c == '\n' || !super::text::is_control(c)));
    }

    #[test]
    fn markdown_has_no_tags(lines in any_speech()) {
        let file = export(&meeting(), &lines, ExportFormat::Md);
        prop_assert!(!file.contains(['<', '>']), "{}", file);
    }
}
