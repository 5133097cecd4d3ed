//! The letters: which of them are used, how wide they are.

use std::collections::BTreeMap;

use subsetter::GlyphRemapper;
use ttf_parser::Face;

const REGULAR: &[u8] = include_bytes!("../../../fonts/DejaVuSansCondensed.ttf");
const BOLD: &[u8] = include_bytes!("../../../fonts/DejaVuSansCondensed-Bold.ttf");
/// Stands for what the fonts have no picture of.
const UNKNOWN: char = '\u{25a1}';

pub(super) struct Font {
    pub(super) name: &'static str,
    pub(super) data: &'static [u8],
    pub(super) face: Face<'static>,
    pub(super) glyphs: GlyphRemapper,
    /// What each glyph of the file stands for, so that text can be searched and copied.
    pub(super) letters: BTreeMap<u16, char>,
    pub(super) has_unknown: bool,
}

impl Font {
    pub(super) fn regular() -> Self {
        Font::load("RNDSMN+DejaVuSansCondensed", REGULAR)
    }

    pub(super) fn bold() -> Self {
        Font::load("RNDSMB+DejaVuSansCondensed-Bold", BOLD)
    }

    fn load(name: &'static str, data: &'static [u8]) -> Self {
        let face = Face::parse(data, 0).expect("the font is part of the program");
        let (glyphs, letters) = (GlyphRemapper::new(), BTreeMap::new());
        Font { name, data, face, glyphs, letters, has_unknown: false }
    }

    /// The glyph of a letter in the font.
    fn glyph(&self, letter: char) -> Option<ttf_parser::GlyphId> {
        let letter = if letter == '\u{a0}' { ' ' } else { letter };
        self.face.glyph_index(letter).filter(|it| it.0 != 0)
    }

    fn glyph_or_box(&self, letter: char) -> ttf_parser::GlyphId {
        self.glyph(letter).or_else(|| self.glyph(UNKNOWN)).unwrap_or_default()
    }

    /// In thousandths of the size.
    pub(super) fn advance(&self, glyph: u16) -> f32 {
        let advance = self.face.glyph_hor_advance(ttf_parser::GlyphId(glyph)).unwrap_or(500);
        f32::from(advance) * 1000.0 / f32::from(self.face.units_per_em())
    }

    pub(super) fn width_of(&self, letter: char, size_pt: f32) -> f32 {
        self.advance(self.glyph_or_box(letter).0) * size_pt / 1000.0
    }

    pub(super) fn width(&self, text: &str, size_pt: f32) -> f32 {
        text.chars().map(|it| self.width_of(it, size_pt)).sum()
    }

    /// The text as the file has it: two bytes for each glyph.
    pub(super) fn encode(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * text.len());
        for letter in text.chars() {
            self.has_unknown |= self.glyph(letter).is_none();
            let glyph = self.glyphs.remap(self.glyph_or_box(letter).0);
            self.letters.entry(glyph).or_insert(letter);
            bytes.extend(glyph.to_be_bytes());
        }
        bytes
    }
}
