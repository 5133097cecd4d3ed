//! What the beginning of an image says about it.

use imagesize::{Compression, ImageType};
use roundsman_core::audits::observed::ImageSeen;

/// Enough for the headers of every format, with a colour profile before them.
pub(super) const BEGIN_BYTES_MAX: u64 = 128 * 1024;
/// An SVG says its size in its first tag.
const SVG_CHARS_MAX: usize = 4096;

/// `None` for what is no image of a format that browsers show.
pub(super) fn read(begin: &[u8]) -> Option<ImageSeen> {
    let format = match imagesize::image_type(begin) {
        Ok(ImageType::Png) => "png",
        Ok(ImageType::Jpeg) => "jpeg",
        Ok(ImageType::Gif) => "gif",
        Ok(ImageType::Webp) => "webp",
        Ok(ImageType::Ico) => "ico",
        Ok(ImageType::Heif(Compression::Av1)) => "avif",
        _ => return svg(begin),
    };
    let size = imagesize::blob_size(begin).ok();
    let px = |px: usize| u32::try_from(px).ok();
    let width_px = size.as_ref().and_then(|size| px(size.width));
    let height_px = size.as_ref().and_then(|size| px(size.height));
    Some(ImageSeen { format: format.to_owned(), width_px, height_px })
}

fn svg(begin: &[u8]) -> Option<ImageSeen> {
    let text = String::from_utf8_lossy(&begin[..begin.len().min(SVG_CHARS_MAX)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let at = text.starts_with('<').then(|| text.find("<svg"))??;
    let tag = &text[at..];
    let tag = &tag[..tag.find('>').unwrap_or(tag.len())];
    let length = |name: &str| {
        let value = value_of(tag, name)?;
        let digits = value.trim().trim_end_matches("px");
        digits.parse::<f64>().ok().and_then(whole)
    };
    let view: Vec<f64> = value_of(tag, "viewBox")
        .map(|view| view.split([' ', ',']).filter_map(|part| part.parse().ok()).collect())
        .unwrap_or_default();
    let of_view = |at: usize| view.get(at).copied().and_then(whole);
    Some(ImageSeen {
        format: "svg".to_owned(),
        width_px: length("width").or_else(|| of_view(2)),
        height_px: length("height").or_else(|| of_view(3)),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is not in the range is sorted out"
)]
fn whole(px: f64) -> Option<u32> {
    (px > 0.0 && px < 1e9).then_some(px.ceil() as u32)
}

fn value_of<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let find = |quote: char| {
        let begin = format!(" {name}={quote}");
        let at = tag.find(&begin)? + begin.len();
        tag[at..].split(quote).next()
    };
    find('"').or_else(|| find('\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_says_its_size_or_its_view() {
        let check = |text: &str, width_px, height_px| {
            let expected = ImageSeen { format: "svg".to_owned(), width_px, height_px };
            assert_eq!(read(text.as_bytes()), Some(expected), "{text}");
        };
        check("<svg width=\"10\" height='20px'></svg>", Some(10), Some(20));
        check("<?xml version='1.0'?>\n<svg viewBox=\"0 0 30.5 40\">", Some(31), Some(40));
        check("<svg width=\"100%\">", None, None);
        for other in [&b""[..], b"<html>", b"plain <svg>", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"] {
            let read = read(other);
            assert!(read.is_none_or(|seen| seen.format != "svg"), "{other:?}");
        }
    }
}
