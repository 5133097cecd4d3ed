//! The report as a PDF, drawn by hand: no browser is needed to make it.
//!
//! The fonts are carried along and only what is used of them goes into the file. What they have no
//! picture for, such as Chinese, shows as a box, and the document says so.

mod canvas;
mod file;
mod font;
mod parts;
mod picture;

use canvas::{BOLD, Canvas, LEFT, REGULAR, SOFT, Style, WIDTH};

use super::ReportContext;
use super::markup::when;
use super::story::{change_sentence, device, host, issues, summary};
use crate::verdict::Verdict;

const HEAD_PT: f32 = 118.0;

pub fn report_pdf(verdict: &Verdict, context: &ReportContext<'_>) -> Vec<u8> {
    let issues = issues(verdict);
    let mut canvas = Canvas::new();
    head(&mut canvas, verdict);
    canvas.paragraph(LEFT, WIDTH, Style { size_pt: 11.0, ..REGULAR }, &summary(verdict, &issues));
    if let Some(comparison) = context.comparison {
        canvas.skip(3.0);
        canvas.paragraph(
            LEFT,
            WIDTH,
            Style { color: SOFT, ..REGULAR },
            &change_sentence(comparison),
        );
    }
    parts::categories(&mut canvas, verdict, context);
    parts::first_things(&mut canvas, &issues);
    parts::findings(&mut canvas, &issues);
    parts::comparison(&mut canvas, context);
    parts::measurements(&mut canvas, verdict);
    let picture = context.screenshot_png.and_then(picture::Picture::read);
    if let Some(picture) = &picture {
        parts::screenshot(&mut canvas, picture);
    }
    parts::waterfall(&mut canvas, verdict);
    parts::history(&mut canvas, context);
    parts::fourteen(&mut canvas, verdict);
    parts::missing(&mut canvas, verdict);
    parts::method(&mut canvas, verdict);
    file::write(canvas, picture.as_ref(), &host(&verdict.final_url))
}

fn head(canvas: &mut Canvas, verdict: &Verdict) {
    const TOP: f32 = 40.0;
    let white = (1.0, 1.0, 1.0);
    let pale = (0.78, 0.84, 0.93);
    canvas.rect(LEFT - 12.0, TOP, WIDTH + 24.0, HEAD_PT, (0.06, 0.16, 0.31));
    canvas.disc(LEFT + 48.0, TOP + HEAD_PT / 2.0, 44.0, white);
    canvas.ring(LEFT + 48.0, TOP + HEAD_PT / 2.0, 35.0, 8.0, verdict.overall);
    let x = LEFT + 112.0;
    let width = WIDTH - 116.0;
    canvas.line_at(
        x,
        TOP + 26.0,
        width,
        Style { size_pt: 8.5, color: pale, ..REGULAR },
        "WEBSITE AUDIT",
    );
    let title = Style { size_pt: 21.0, color: white, ..BOLD };
    canvas.line_at(x, TOP + 50.0, width, title, &host(&verdict.final_url));
    let small = Style { size_pt: 9.5, color: pale, ..REGULAR };
    canvas.line_at(x, TOP + 68.0, width, small, &verdict.final_url);
    let seen = format!(
        "Looked at on {} as seen from {}.",
        when(verdict.looked_at),
        device(verdict.device)
    );
    canvas.line_at(x, TOP + 96.0, width, small, &seen);
    canvas.move_to(TOP + HEAD_PT + 22.0);
}
