use proptest::prelude::*;

use super::words::fold;
use super::*;
use crate::transcripts::samples::nasty_text;

fn query(text: &str) -> SearchQuery {
    SearchQuery::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn words_are_runs_of_letters_and_digits_in_lower_case() {
    let cases: [(&str, &[&str]); 9] = [
        ("", &[]),
        (" -- ?!", &[]),
        ("Follow-up at 10:30, OK?", &["follow", "up", "at", "10", "30", "ok"]),
        ("it's snake_case", &["it", "s", "snake", "case"]),
        ("CAFÉ Straße", &["café", "straße"]),
        ("İstanbul ΟΔΟΣ οδος", &["istanbul", "οδοσ", "οδοσ"]),
        ("שלום, 你好。", &["שלום", "你好"]),
        ("1e5a v2", &["1e5a", "v2"]),
        ("a\u{0}b😀c", &["a", "b", "c"]),
    ];
    for (text, expected) in cases {
        assert_eq!(tokens(text), expected, "{text:?}");
        assert_eq!(searchable(text), expected.join(" "));
    }
    assert_eq!(to_tsvector("Yes, yes: no"), "'yes':1 'yes':2 'no':3");
    assert_eq!(to_tsvector("?"), "");
}

#[test]
fn every_letter_folds_to_letters_that_fold_to_themselves() {
    for c in ('\0'..=char::MAX).filter(|c| c.is_alphanumeric()) {
        let folded: Vec<char> = fold(c).collect();
        assert!(!folded.is_empty(), "{c:?} is lost");
        for letter in folded {
            assert!(letter.is_alphanumeric(), "{c:?}");
            assert!(fold(letter).eq([letter]), "{c:?}");
        }
    }
}

#[test]
fn very_long_words_are_several() {
    let run = "é".repeat(WORD_CHARS_MAX);
    assert_eq!(tokens(&run), [run.as_str()]);
    assert_eq!(tokens(&(run.clone() + "xy")), [run.as_str(), "xy"]);
}

#[test]
fn queries_are_rendered_for_both_databases() {
    let cases = [
        ("hello", "\"hello\"", "('hello')"),
        ("Hello  World", "\"hello\" AND \"world\"", "('hello') & ('world')"),
        ("\"hello world\"", "\"hello world\"", "('hello' <-> 'world')"),
        ("pref*", "\"pref\"*", "('pref':*)"),
        ("pref**", "\"pref\"*", "('pref':*)"),
        ("follow-up", "\"follow up\"", "('follow' <-> 'up')"),
        ("follow-up*", "\"follow up\"*", "('follow' <-> 'up':*)"),
        ("\"a b\"* c", "\"a b\"* AND \"c\"", "('a' <-> 'b':*) & ('c')"),
        ("\"a b\" *", "\"a b\"", "('a' <-> 'b')"),
        ("a\"b c", "\"a\" AND \"b c\"", "('a') & ('b' <-> 'c')"),
        ("\"a\"\"b\"", "\"a\" AND \"b\"", "('a') & ('b')"),
        ("\"a*\" b-* * c*d", "\"a\" AND \"b\" AND \"c d\"", "('a') & ('b') & ('c' <-> 'd')"),
        ("\"\" \"?\" x", "\"x\"", "('x')"),
    ];
    for (text, fts5, tsquery) in cases {
        assert_eq!(query(text).to_fts5(), fts5, "{text}");
        assert_eq!(query(text).to_tsquery(), tsquery, "{text}");
    }
}

#[test]
fn operators_are_words_and_marks_are_nothing() {
    let cases = [
        ("a OR b", "\"a\" AND \"or\" AND \"b\""),
        ("NOT a", "\"not\" AND \"a\""),
        ("NEAR(a b, 5)", "\"near a\" AND \"b\" AND \"5\""),
        ("text:a ^b {c d}:e", "\"text a\" AND \"b\" AND \"c\" AND \"d e\""),
        ("'; DROP TABLE x; --", "\"drop\" AND \"table\" AND \"x\""),
        ("a' | 'b", "\"a\" AND \"b\""),
        ("!a & b <-> c:*", "\"a\" AND \"b\" AND \"c\""),
        ("a\\'b \\", "\"a b\""),
        ("% _ a%", "\"a\""),
    ];
    for (text, fts5) in cases {
        assert_eq!(query(text).to_fts5(), fts5, "{text}");
    }
}

#[test]
fn what_is_no_query_is_refused_with_a_reason() {
    for text in ["", "  ", "***", "\"\"", "\" - \"", "?!", "\u{0}"] {
        assert_eq!(SearchQuery::parse(text), Err(InvalidQuery::Empty), "{text:?}");
    }
    let longest = "a".repeat(QUERY_BYTES_MAX);
    assert!(SearchQuery::parse(&longest).is_ok());
    assert_eq!(SearchQuery::parse(&(longest + "a")), Err(InvalidQuery::TooLong));
    let most = "a ".repeat(QUERY_TERMS_MAX);
    assert!(SearchQuery::parse(&most).is_ok());
    assert_eq!(SearchQuery::parse(&(most + "b")), Err(InvalidQuery::TooManyTerms));
    assert_eq!(InvalidQuery::TooLong.to_string(), "a search may be at most 256 bytes long");
}

#[test]
fn texts_match_by_words_phrases_and_prefixes() {
    let text = "The follow-up: we'll ship Version 2 in MARCH.";
    for found in
        ["march", "MARCH the", "\"follow up\"", "follow-up", "vers*", "\"version 2\"", "ll"]
    {
        assert!(matches(text, &query(found)), "{found}");
    }
    for missing in
        ["vers", "april", "march april", "\"up follow\"", "\"the up\"", "arch*", "mar* x*"]
    {
        assert!(!matches(text, &query(missing)), "{missing}");
    }
    assert!(matches(text, &query("\"ship vers\"*")));
    assert!(!matches(text, &query("\"shi vers\"*")), "only the last word may go on");
    assert!(!matches("", &query("a")));
}

#[test]
fn hits_are_marked_and_everything_is_escaped() {
    let cases = [
        ("Tom & Tom's <b>", "tom", "<mark>Tom</mark> &amp; <mark>Tom</mark>&#39;s &lt;b&gt;"),
        ("a follow-up.", "\"follow up\"", "a <mark>follow-up</mark>."),
        ("a b c d", "\"a b\" \"b c\"", "<mark>a b c</mark> d"),
        ("versions", "vers*", "<mark>versions</mark>"),
        ("<mark>x</mark>", "mark x", MARKED_MARKS),
        ("nothing \"here\"", "there", "nothing &quot;here&quot;"),
        ("İstanbul!", "istanbul", "<mark>İstanbul</mark>!"),
    ];
    for (text, wanted, html) in cases {
        assert_eq!(highlight(text, &query(wanted)).html, html);
    }
    assert_eq!(highlight("é b, b é", &query("b")).hits, [(3, 4), (6, 7)]);
}

const MARKED_MARKS: &str = "&lt;<mark>mark</mark>&gt;<mark>x</mark>&lt;/<mark>mark</mark>&gt;";

fn unescaped(html: &str) -> String {
    let text = html.replace("<mark>", "").replace("</mark>", "");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&amp;", "&")
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![nasty_text(), "[a-c ]{0,12}".prop_map(String::from), any::<String>()]
}

proptest! {
    #[test]
    fn a_text_matches_if_every_term_is_hit(text in any_text(), wanted in any_text()) {
        let Ok(query) = SearchQuery::parse(&wanted) else { return Ok(()) };
        let highlight = highlight(&text, &query);
        let is_hit = |term: &Term| {
            let alone = SearchQuery { terms: vec![term.clone()] };
            highlight.hits.iter().any(|&(start, end)| matches(&text[start..end], &alone))
        };
        prop_assert_eq!(matches(&text, &query), query.terms.iter().all(is_hit));
        prop_assert_eq!(unescaped(&highlight.html), text);
        for pair in highlight.hits.windows(2) {
            prop_assert!(pair[0].1 < pair[1].0);
        }
    }

    #[test]
    fn a_text_is_found_by_its_own_words(text in any_text()) {
        let Ok(query) = SearchQuery::parse(&text.replace('"', " ")) else { return Ok(()) };
        prop_assert!(matches(&text, &query));
    }

    #[test]
    fn words_are_split_and_folded_once(text in any_text()) {
        let words = tokens(&text);
        prop_assert_eq!(&tokens(&searchable(&text)), &words);
        prop_assert!(words.iter().all(|word| !word.is_empty()));
        prop_assert!(words.iter().all(|word| word.chars().all(char::is_alphanumeric)));
    }

    #[test]
    fn nothing_typed_becomes_syntax(wanted in any_text()) {
        let Ok(query) = SearchQuery::parse(&wanted) else { return Ok(()) };
        let words: Vec<_> = query.terms.iter().flat_map(|term| term.words.clone()).collect();

        let fts5 = query.to_fts5();
        let quoted: Vec<_> = fts5.split('"').skip(1).step_by(2).collect();
        prop_assert_eq!(quoted.join(" "), words.join(" "));
        let syntax: String = fts5.split('"').step_by(2).collect();
        prop_assert!(syntax.replace(" AND ", "").chars().all(|c| c == '*'), "{}", fts5);

        let tsquery = query.to_tsquery();
        let quoted: Vec<_> = tsquery.split('\'').skip(1).step_by(2).collect();
        prop_assert_eq!(quoted.join(" "), words.join(" "));
        let syntax: String = tsquery.split('\'').step_by(2).collect();
        prop_assert!(syntax.chars().all(|c| " <->&()*:".contains(c)), "{}", tsquery);
    }
}
