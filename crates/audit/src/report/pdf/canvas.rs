//! Pages to draw on, from top to bottom. Places are in points from the upper left corner.

use pdf_writer::types::LineCapStyle;
use pdf_writer::{Content, Name, Str};

use super::font::Font;
use crate::report::markup::is_odd;
use crate::verdict::Light;

pub(super) const PAGE_WIDTH: f32 = 595.28;
pub(super) const PAGE_HEIGHT: f32 = 841.89;
pub(super) const LEFT: f32 = 48.0;
pub(super) const WIDTH: f32 = PAGE_WIDTH - 2.0 * LEFT;
const TOP: f32 = 46.0;
const BOTTOM: f32 = PAGE_HEIGHT - 54.0;
/// What is written beyond this is left out: nobody reads it, and it must end.
const PAGES_MAX: usize = 60;
const LINE_HEIGHT: f32 = 1.38;

pub(super) type Color = (f32, f32, f32);
pub(super) const INK: Color = (0.11, 0.16, 0.22);
pub(super) const SOFT: Color = (0.35, 0.40, 0.48);
pub(super) const RULE: Color = (0.88, 0.90, 0.93);

#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) is_bold: bool,
    pub(super) size_pt: f32,
    pub(super) color: Color,
}

pub(super) const REGULAR: Style = Style { is_bold: false, size_pt: 9.5, color: INK };
pub(super) const BOLD: Style = Style { is_bold: true, size_pt: 9.5, color: INK };
pub(super) const SMALL: Style = Style { is_bold: false, size_pt: 8.0, color: SOFT };

pub(super) struct Canvas {
    pub(super) pages: Vec<Content>,
    pub(super) regular: Font,
    pub(super) bold: Font,
    /// Where the next thing goes on the last page.
    y: f32,
    is_full: bool,
}

pub(super) fn color(score: u8) -> Color {
    match Light::of(score) {
        Light::Red => (0.78, 0.16, 0.16),
        Light::Yellow => (0.70, 0.42, 0.0),
        Light::Green => (0.11, 0.50, 0.23),
    }
}

impl Canvas {
    pub(super) fn new() -> Self {
        let (regular, bold) = (Font::regular(), Font::bold());
        Canvas { pages: vec![Content::new()], regular, bold, y: TOP, is_full: false }
    }

    pub(super) fn has_unknown(&self) -> bool {
        self.regular.has_unknown || self.bold.has_unknown
    }

    pub(super) fn y(&self) -> f32 {
        self.y
    }

    pub(super) fn move_to(&mut self, y: f32) {
        self.y = y;
    }

    pub(super) fn skip(&mut self, height: f32) {
        self.y += height;
    }

    /// Goes to a new page if so much does not fit on this one.
    pub(super) fn need(&mut self, height: f32) {
        if self.y + height > BOTTOM {
            self.is_full |= self.pages.len() >= PAGES_MAX;
            self.y = TOP;
            if !self.is_full {
                self.pages.push(Content::new());
            }
        }
    }

    /// None once the document is full.
    fn page(&mut self) -> Option<&mut Content> {
        if self.is_full { None } else { self.pages.last_mut() }
    }

    pub(super) fn rect(&mut self, x: f32, y: f32, width: f32, height: f32, color: Color) {
        let Some(page) = self.page().filter(|_| width > 0.0) else { return };
        page.set_fill_rgb(color.0, color.1, color.2);
        page.rect(x, PAGE_HEIGHT - y - height, width, height).fill_nonzero();
    }

    pub(super) fn rule(&mut self) {
        let y = self.y;
        self.rect(LEFT, y, WIDTH, 0.6, RULE);
    }

    pub(super) fn disc(&mut self, x: f32, y: f32, radius: f32, color: Color) {
        let Some(page) = self.page() else { return };
        page.set_stroke_rgb(color.0, color.1, color.2);
        page.set_line_width(2.0 * radius).set_line_cap(LineCapStyle::RoundCap);
        let y = PAGE_HEIGHT - y;
        page.move_to(x, y).line_to(x, y).stroke();
    }

    /// A ring that is filled as far as the score, clockwise from the top, with the number in it.
    pub(super) fn ring(&mut self, x: f32, y: f32, radius: f32, width: f32, score: u8) {
        let color = color(score);
        self.arc(x, y, radius, width, 1.0, (0.90, 0.91, 0.93));
        self.arc(x, y, radius, width, f32::from(score.min(100)) / 100.0, color);
        let size_pt = radius * 0.8;
        let text = score.to_string();
        let text_width = self.bold.width(&text, size_pt);
        let style = Style { is_bold: true, size_pt, color };
        self.line_at(x - text_width / 2.0, y + size_pt * 0.36, text_width + 1.0, style, &text);
    }

    fn arc(&mut self, x: f32, y: f32, radius: f32, width: f32, share: f32, color: Color) {
        const STEPS: u8 = 48;
        if share <= 0.0 {
            return;
        }
        let Some(page) = self.page() else { return };
        page.set_stroke_rgb(color.0, color.1, color.2);
        page.set_line_width(width).set_line_cap(LineCapStyle::RoundCap);
        for step in 0..=STEPS {
            let angle = share * std::f32::consts::TAU * f32::from(step) / f32::from(STEPS);
            let at = (x + radius * angle.sin(), PAGE_HEIGHT - y + radius * angle.cos());
            if step == 0 {
                page.move_to(at.0, at.1);
            } else {
                page.line_to(at.0, at.1);
            }
        }
        page.stroke();
    }

    pub(super) fn polyline(&mut self, points: &[(f32, f32)], width: f32, color: Color) {
        let Some(page) = self.page() else { return };
        page.set_stroke_rgb(color.0, color.1, color.2).set_line_width(width);
        let Some((first, rest)) = points.split_first() else { return };
        page.move_to(first.0, PAGE_HEIGHT - first.1);
        for point in rest {
            page.line_to(point.0, PAGE_HEIGHT - point.1);
        }
        page.stroke();
    }

    /// Draws the picture that the file calls `Im1`.
    pub(super) fn picture(&mut self, x: f32, y: f32, width: f32, height: f32) {
        let Some(page) = self.page() else { return };
        page.save_state().transform([width, 0.0, 0.0, height, x, PAGE_HEIGHT - y - height]);
        page.x_object(Name(b"Im1")).restore_state();
    }

    fn font(&mut self, style: Style) -> &mut Font {
        if style.is_bold { &mut self.bold } else { &mut self.regular }
    }

    pub(super) fn width(&mut self, style: Style, text: &str) -> f32 {
        self.font(style).width(text, style.size_pt)
    }

    /// One line with its base at `y`, cut where it does not fit.
    pub(super) fn line_at(&mut self, x: f32, y: f32, width: f32, style: Style, text: &str) {
        if self.is_full {
            return;
        }
        let text = self.fitted(&cleaned(text), width, style);
        let bytes = self.font(style).encode(&text);
        self.show(x, y, style, &bytes);
    }

    pub(super) fn line_right(&mut self, right: f32, y: f32, style: Style, text: &str) {
        let width = self.width(style, text);
        self.line_at(right - width, y, width + 1.0, style, text);
    }

    fn show(&mut self, x: f32, y: f32, style: Style, bytes: &[u8]) {
        let name = if style.is_bold { Name(b"F2") } else { Name(b"F1") };
        let Some(page) = self.page() else { return };
        page.begin_text().set_font(name, style.size_pt);
        page.set_fill_rgb(style.color.0, style.color.1, style.color.2);
        page.next_line(x, PAGE_HEIGHT - y).show(Str(bytes)).end_text();
    }

    /// A page may be finished later, to say how many there are.
    pub(super) fn on_page(&mut self, page: usize, x: f32, y: f32, style: Style, text: &str) {
        let bytes = self.font(style).encode(&cleaned(text));
        let Some(page) = self.pages.get_mut(page) else { return };
        page.begin_text().set_font(Name(b"F1"), style.size_pt);
        page.set_fill_rgb(style.color.0, style.color.1, style.color.2);
        page.next_line(x, PAGE_HEIGHT - y).show(Str(&bytes)).end_text();
    }

    fn fitted(&mut self, text: &str, width: f32, style: Style) -> String {
        let font = self.font(style);
        if font.width(text, style.size_pt) <= width {
            return text.to_owned();
        }
        let room = width - font.width_of('…', style.size_pt);
        let mut used = 0.0;
        let fits = |letter: &char| {
            used += font.width_of(*letter, style.size_pt);
            used <= room
        };
        text.chars().take_while(fits).chain(['…']).collect()
    }

    pub(super) fn line_height(style: Style) -> f32 {
        style.size_pt * LINE_HEIGHT
    }

    /// The text in lines that fit. Words that are too long are broken.
    pub(super) fn lines(&mut self, text: &str, width: f32, style: Style) -> Vec<String> {
        let text = cleaned(text);
        let font = self.font(style);
        let space = font.width_of(' ', style.size_pt);
        let mut lines = vec![String::new()];
        let mut used = 0.0;
        for word in text.split_whitespace() {
            let length = font.width(word, style.size_pt);
            let is_first = lines.last().is_some_and(String::is_empty);
            if !is_first && used + space + length > width {
                lines.push(String::new());
                used = 0.0;
            } else if !is_first {
                push(&mut lines, ' ');
                used += space;
            }
            for letter in word.chars() {
                let length = font.width_of(letter, style.size_pt);
                if used + length > width && used > 0.0 {
                    lines.push(String::new());
                    used = 0.0;
                }
                push(&mut lines, letter);
                used += length;
            }
        }
        lines
    }

    /// Text with line breaks, at the current place.
    pub(super) fn paragraph(&mut self, x: f32, width: f32, style: Style, text: &str) {
        for line in self.lines(text, width, style) {
            let height = Canvas::line_height(style);
            self.need(height);
            let y = self.y + style.size_pt;
            self.line_at(x, y, width + 2.0, style, &line);
            self.y += height;
        }
    }

    /// A paragraph on a coloured ground.
    pub(super) fn boxed(&mut self, x: f32, width: f32, style: Style, ground: Color, text: &str) {
        const PADDING: f32 = 6.0;
        let lines = self.lines(text, width - 2.0 * PADDING, style);
        let count = f32::from(u16::try_from(lines.len()).unwrap_or(u16::MAX));
        let height = count * Canvas::line_height(style) + 2.0 * PADDING;
        self.need(height);
        let top = self.y;
        self.rect(x, top, width, height - 2.0, ground);
        self.y += PADDING - 1.0;
        for line in lines {
            let y = self.y + style.size_pt;
            self.line_at(x + PADDING, y, width, style, &line);
            self.y += Canvas::line_height(style);
        }
        self.y = top + height;
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.skip(20.0);
        self.need(70.0);
        let style = Style { size_pt: 14.0, ..BOLD };
        self.paragraph(LEFT, WIDTH, style, text);
        self.skip(3.0);
        self.rule();
        self.skip(8.0);
    }
}

fn push(lines: &mut [String], letter: char) {
    if let Some(line) = lines.last_mut() {
        line.push(letter);
    }
}

fn cleaned(text: &str) -> String {
    text.chars()
        .map(|c| if is_odd(c) { if c.is_whitespace() { ' ' } else { '\u{fffd}' } } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_scripts_are_broken_into_lines() {
        let mut canvas = Canvas::new();
        let text = format!("Köln Велосипеды Αθήνα {} \u{202e}x\u{0}", "https://a.test/".repeat(40));
        let lines = canvas.lines(&text, 200.0, REGULAR);
        assert!(lines.len() > 5);
        assert!(lines.iter().all(|it| canvas.regular.width(it, REGULAR.size_pt) <= 200.0));
        for line in &lines {
            canvas.paragraph(LEFT, 200.0, REGULAR, line);
        }
        assert!(!canvas.has_unknown());
        canvas.paragraph(LEFT, 200.0, REGULAR, "自転車 😀 مرحبا");
        assert!(canvas.has_unknown());
        assert!(crate::report::pdf::file::write(canvas, None, "自転車.test").starts_with(b"%PDF-"));
    }

    #[test]
    fn a_document_ends() {
        let mut canvas = Canvas::new();
        canvas.paragraph(LEFT, 60.0, REGULAR, &"word ".repeat(40_000));
        assert_eq!(canvas.pages.len(), PAGES_MAX);
    }
}
