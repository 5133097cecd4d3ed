//! What images weigh, and whether room is kept for them.

use roundsman_core::audits::observed::ResourceKind;

use super::estimate::answered;
use super::rule;
use crate::css;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::{bytes, count};
use crate::verdict::{EvidenceKind, Finding, Impact};

const SAVED_BYTES_MIN: u64 = 4_096;
const GIF_BYTES_MAX: u64 = 100 * 1024;
const IMAGE_BYTES_MAX: u64 = 500 * 1024;
/// What a modern format saves of a JPEG or PNG, as a share of its size.
const MODERN_SAVES_PERCENT: u64 = 30;

const DIMENSIONS: Rule = rule(
    "performance_image_dimensions",
    "image_dimensions",
    [
        "Images say how large they are",
        "Images do not say how large they are",
        "Without width and height, the browser keeps no room, and the text jumps when the image comes.",
        "Write the width and height of the file into the <img>; CSS may still scale it.",
    ],
);

const FORMATS: Rule = rule(
    "performance_image_formats",
    "image_formats",
    [
        "Images use modern formats",
        "Images could use modern formats",
        "WebP and AVIF look the same at a much smaller size.",
        "Serve AVIF or WebP with <picture>, or let the CDN choose by the Accept header; make animations videos.",
    ],
);

const HEAVY: Rule = rule(
    "performance_image_weight",
    "image_weight",
    [
        "No image is very heavy",
        "Some images are very heavy",
        "One photograph straight from the camera weighs more than everything else on a page.",
        "Scale images to the size they are shown at, and offer several with srcset.",
    ],
);

pub(super) fn check(page: &Page<'_>, unsized_images: &[Element<'_>]) -> Vec<Finding> {
    let images = page.dom.named("img").count();
    let dimensions = DIMENSIONS.without(images, unsized_images).mattering(Impact::Medium);
    vec![dimensions, formats(page), heavy(page)]
}

/// Images for which no room can be kept.
pub(super) fn without_dimensions<'a>(page: &'a Page<'_>) -> Vec<Element<'a>> {
    let has_room = |it: &Element<'_>| {
        let has = |name: &str| {
            it.filled(name).is_some()
                || it.attr("style").is_some_and(|style| css::declaration(style, name).is_some())
        };
        has("width") && has("height") || has("aspect-ratio")
    };
    page.dom.named("img").filter(|it| it.filled("src").is_some() && !has_room(it)).collect()
}

fn formats(page: &Page<'_>) -> Finding {
    let images: Vec<_> = answered(page)
        .filter(|(it, _)| it.kind == ResourceKind::Image)
        .filter_map(|(it, answer)| Some((it, answer.transfer_bytes, answer.image.as_ref()?)))
        .collect();
    if images.is_empty() {
        return FORMATS.not_applicable();
    }
    let saving = |format: &str, size: u64| match format {
        "png" | "jpeg" | "jpg" => {
            Some(size * MODERN_SAVES_PERCENT / 100).filter(|it| *it > SAVED_BYTES_MIN)
        }
        "gif" => (size > GIF_BYTES_MAX).then_some(size / 2),
        _ => None,
    };
    let old: Vec<_> = images
        .iter()
        .filter_map(|(it, size, seen)| Some((it, size, seen, saving(&seen.format, *size)?)))
        .collect();
    let saved: u64 = old.iter().map(|(.., saved)| saved).sum();
    let finding = FORMATS.passed_if(old.is_empty());
    let finding = if old.is_empty() {
        finding
    } else {
        finding.saying(&format!(
            "About {} of {} could be saved.",
            bytes(saved),
            count(old.len(), "image")
        ))
    };
    let finding = old.iter().fold(finding, |it, (resource, size, seen, _)| {
        let text = format!("{} {} {}", seen.format, bytes(**size), resource.url);
        it.with(EvidenceKind::Url, &text, Some(resource.placement.line))
    });
    finding.mattering(if saved > 200 * 1024 { Impact::High } else { Impact::Medium })
}

fn heavy(page: &Page<'_>) -> Finding {
    let images: Vec<_> = answered(page).filter(|(it, _)| it.kind == ResourceKind::Image).collect();
    if images.is_empty() {
        return HEAVY.not_applicable();
    }
    let heavy: Vec<_> =
        images.iter().filter(|(_, it)| it.transfer_bytes > IMAGE_BYTES_MAX).collect();
    let finding = heavy.iter().fold(HEAVY.passed_if(heavy.is_empty()), |it, (resource, answer)| {
        let size = answer.image.as_ref().and_then(|it| Some((it.width_px?, it.height_px?)));
        let size = size.map(|(width, height)| format!(" {width}×{height}")).unwrap_or_default();
        let text = format!("{}{size} {}", bytes(answer.transfer_bytes), resource.url);
        it.with(EvidenceKind::Url, &text, Some(resource.placement.line))
    });
    finding.mattering(Impact::High)
}
