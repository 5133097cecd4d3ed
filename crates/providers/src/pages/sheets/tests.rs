use super::*;

/// Imports as `import link`, with `~` if they are for something else than a screen; fonts as `font link`.
fn found(text: &str) -> Vec<String> {
    let shown = |link: SheetLink| match link {
        SheetLink::Import { link, is_for_screens: true } => format!("import {link}"),
        SheetLink::Import { link, is_for_screens: false } => format!("import~ {link}"),
        SheetLink::Font { link, .. } => format!("font {link}"),
    };
    links(text).into_iter().map(shown).collect()
}

#[test]
fn imports_are_read_in_all_their_forms() {
    let text = r#"@charset "utf-8"; /* @import "no.css"; */ @IMPORT "1.css";
        @import url(2.css) ; @import url( "3.css?a=;b" );@import'4.css'screen;
        @layer base, theme; @import "5.css" layer(base) supports(display: grid) print;
        @import "6.css" layer screen, print; @import url("7.css") not all;
        <!-- @import "\38.css" --> ; @import url(9\ 9.css) (min-width: 600px);
        @import url(); @import "";"#;
    assert_eq!(
        found(text),
        [
            "import 1.css",
            "import 2.css",
            "import 3.css?a=;b",
            "import 4.css",
            "import~ 5.css",
            "import 6.css",
            "import~ 7.css",
            "import 8.css",
            "import 9 9.css",
        ]
    );
}

#[test]
fn what_stands_after_a_rule_is_no_import() {
    for before in ["p { }", "@media print { }", "@font-face { }", "@layer a { }", ":root{--x:1}"] {
        assert_eq!(found(&format!("{before} @import 'no.css';")), [""; 0], "{before}");
    }
    assert_eq!(
        found("p::after { content: \"@import 'no.css'; @font-face{src:url(no)}\" }"),
        [""; 0]
    );
}

#[test]
fn a_font_is_the_first_source_that_can_be_read() {
    let text = r#"
        @font-face { font-family: A; src: url(a.eot); src: local("A"), url("a.eot?#iefix")
            format("embedded-opentype"), url(a.woff2) format("woff2"), url(a.woff) format("woff") }
        @media screen { @FONT-FACE { src: URL('b.ttf') } p { background: url(no.png) } }
        @font-face { src: url(c.svg) format('svg') }
        @font-face { src: local(D) }
        @font-face { src: url(data:font/woff2;base64,AA}A;A) format(woff2), url(no.woff) }
        @font-face { /* ; src: url(no) */ src /**/ : url(e.woff2) format(woff2) tech(variations); x }
        @font-face { src: url(f.woff2)"#;
    assert_eq!(
        found(text),
        [
            "font a.woff2",
            "font b.ttf",
            "font data:font/woff2;base64,AA}A;A",
            "font e.woff2",
            "font f.woff2",
        ]
    );
}

#[test]
fn a_font_is_for_the_letters_that_it_names() {
    let ranges = |list: &str| match links(&format!("@font-face{{src:url(a);unicode-range:{list}}}"))
        .remove(0)
    {
        SheetLink::Font { ranges, .. } => ranges,
        other @ SheetLink::Import { .. } => panic!("{other:?}"),
    };
    assert_eq!(ranges("U+26, u+0-7F , U+4??"), [(0x26, 0x26), (0, 0x7f), (0x400, 0x4ff)]);
    for odd in ["", "26", "U+", "U+9-1", "U+110000", "U+zz", "U+1-2-3", "U+26 U+27"] {
        assert_eq!(ranges(odd), [], "{odd}");
    }
    let page = Letters::of("Ein schöner Tag, \u{10ffff}");
    for (list, is_needed) in [
        ("U+0-7F", true),
        ("U+F6", true),
        ("U+F5, U+F7", false),
        ("U+400-4FF", false),
        ("U+10FFFF", true),
        ("U+10FFFE", false),
        ("U+400-4FF, U+45", true),
        ("nothing", true),
    ] {
        assert_eq!(page.are_in(&ranges(list)), is_needed, "{list}");
    }
}

#[test]
fn large_and_odd_sheets_do_no_harm() {
    for odd in
        ["@", "@import", "@import url(", "@font-face", "@font-face{src:", "\"", "(", "\\", "/*"]
    {
        let _ = links(odd);
        let _ = links(&odd.repeat(20_000));
    }
    let many: Vec<String> = (0..3000).map(|n| format!("@import '{n}.css';")).collect();
    assert_eq!(links(&many.concat()).len(), LINKS_MAX);
    let ranges = vec!["U+1"; RANGES_MAX + 1].join(",");
    let font = links(&format!("@font-face{{src:url(a);unicode-range:{ranges}}}"));
    assert_eq!(font, [SheetLink::Font { link: "a".to_owned(), ranges: vec![] }]);
}

/// Letters drawn by a small generator, the same in every run.
fn drawn(from: &str, count: usize, seed: &mut u64) -> String {
    let letters: Vec<char> = from.chars().collect();
    let mut next = || {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        letters[usize::try_from(*seed >> 33).unwrap() % letters.len()]
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn whatever_comes_is_read() {
    let mut seed = 1;
    for round in 0..20_000 {
        let text = drawn("@{}();:,\"'\\/*<!->urlimportü \u{10ffff}\n", round % 60, &mut seed);
        let _ = links(&text);
        let _ = links(&format!("@import {text};@font-face{{src:{text};unicode-range:{text}}}"));
    }
}

#[test]
fn letters_are_found_where_they_are() {
    let mut seed = 2;
    for round in 0..2000_u32 {
        let text = drawn("AZaz09äöü\u{400}\u{43f}\u{440}\u{10000}", 3, &mut seed);
        let range = (round % 97 * 11, round % 97 * 11 + round % 53);
        let is_there = text.chars().any(|letter| (range.0..=range.1).contains(&(letter as u32)));
        assert_eq!(Letters::of(&text).are_in(&[range]), is_there, "{text} {range:?}");
    }
}
