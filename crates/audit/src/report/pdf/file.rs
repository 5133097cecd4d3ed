//! Putting the pages into a file.

use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use super::canvas::{Canvas, LEFT, PAGE_HEIGHT, PAGE_WIDTH, SMALL};
use super::font::Font;
use super::picture::Picture;

const LEVEL: u8 = 6;
const SYSTEM: SystemInfo<'_> =
    SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

const CATALOG: i32 = 1;
const PAGES: i32 = 2;
const INFO: i32 = 3;
const PICTURE: i32 = 4;
const REGULAR: i32 = 10;
const BOLD: i32 = 20;
const FIRST_PAGE: i32 = 30;

pub(super) fn write(mut canvas: Canvas, picture: Option<&Picture>, host: &str) -> Vec<u8> {
    let count = canvas.pages.len();
    for page in 0..count {
        let text = format!("Website audit of {host}, page {} of {count}", page + 1);
        canvas.on_page(page, LEFT, PAGE_HEIGHT - 28.0, SMALL, &text);
    }
    let mut pdf = Pdf::new();
    pdf.catalog(Ref::new(CATALOG)).pages(Ref::new(PAGES)).lang(TextStr("en"));
    let mut info = pdf.document_info(Ref::new(INFO));
    info.title(TextStr(&format!("Website audit of {host}"))).producer(TextStr("Roundsman"));
    info.finish();
    let page_ids: Vec<(Ref, Ref)> = (0..i32::try_from(count).unwrap_or(0))
        .map(|it| (Ref::new(FIRST_PAGE + 2 * it), Ref::new(FIRST_PAGE + 2 * it + 1)))
        .collect();
    let kids = page_ids.iter().map(|it| it.0);
    pdf.pages(Ref::new(PAGES)).kids(kids).count(i32::try_from(count).unwrap_or(0));
    for (content, (page_id, content_id)) in canvas.pages.into_iter().zip(page_ids) {
        let mut page = pdf.page(page_id);
        page.media_box(Rect::new(0.0, 0.0, PAGE_WIDTH, PAGE_HEIGHT));
        page.parent(Ref::new(PAGES)).contents(content_id);
        let mut resources = page.resources();
        resources.fonts().pair(Name(b"F1"), Ref::new(REGULAR)).pair(Name(b"F2"), Ref::new(BOLD));
        if picture.is_some() {
            resources.x_objects().pair(Name(b"Im1"), Ref::new(PICTURE));
        }
        resources.finish();
        page.finish();
        let packed = compress_to_vec_zlib(content.finish().as_slice(), LEVEL);
        pdf.stream(content_id, &packed).filter(Filter::FlateDecode);
    }
    write_font(&mut pdf, &canvas.regular, REGULAR);
    write_font(&mut pdf, &canvas.bold, BOLD);
    if let Some(picture) = picture {
        write_picture(&mut pdf, picture);
    }
    pdf.finish()
}

fn write_font(pdf: &mut Pdf, font: &Font, first: i32) {
    let [font_id, cid_id, descriptor_id, data_id, map_id] =
        [0, 1, 2, 3, 4].map(|it| Ref::new(first + it));
    let name = Name(font.name.as_bytes());
    pdf.type0_font(font_id)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(cid_id)
        .to_unicode(map_id);
    let mut cid = pdf.cid_font(cid_id);
    cid.subtype(CidFontType::Type2).base_font(name).system_info(SYSTEM);
    cid.font_descriptor(descriptor_id).default_width(0.0);
    cid.cid_to_gid_map_predefined(Name(b"Identity"));
    let widths = font.glyphs.remapped_gids().map(|glyph| font.advance(glyph));
    cid.widths().consecutive(0, widths);
    cid.finish();
    let scale = 1000.0 / f32::from(font.face.units_per_em());
    let part = |value: i16| f32::from(value) * scale;
    let bounds = font.face.global_bounding_box();
    pdf.font_descriptor(descriptor_id)
        .name(name)
        .flags(FontFlags::NON_SYMBOLIC)
        .bbox(Rect::new(
            part(bounds.x_min),
            part(bounds.y_min),
            part(bounds.x_max),
            part(bounds.y_max),
        ))
        .italic_angle(0.0)
        .ascent(part(font.face.ascender()))
        .descent(part(font.face.descender()))
        .cap_height(part(font.face.capital_height().unwrap_or(0)))
        .stem_v(80.0)
        .font_file2(data_id);
    // Without the subset the whole font goes in: larger, and its glyphs would have other numbers.
    let data =
        subsetter::subset(font.data, 0, &font.glyphs).expect("the font is part of the program");
    let packed = compress_to_vec_zlib(&data, LEVEL);
    let mut stream = pdf.stream(data_id, &packed);
    stream.filter(Filter::FlateDecode);
    stream.pair(Name(b"Length1"), i32::try_from(data.len()).unwrap_or(0));
    stream.finish();
    let mut map = UnicodeCmap::new(Name(b"Letters"), SYSTEM);
    for (glyph, letter) in &font.letters {
        map.pair(*glyph, *letter);
    }
    let map = map.finish();
    let packed = compress_to_vec_zlib(map.as_slice(), LEVEL);
    let mut cmap = pdf.cmap(map_id, &packed);
    cmap.filter(Filter::FlateDecode);
    cmap.finish();
}

fn write_picture(pdf: &mut Pdf, picture: &Picture) {
    let packed = compress_to_vec_zlib(&picture.rgb, LEVEL);
    let mut image = pdf.image_xobject(Ref::new(PICTURE), &packed);
    image.filter(Filter::FlateDecode);
    image.width(i32::try_from(picture.width_px).unwrap_or(0));
    image.height(i32::try_from(picture.height_px).unwrap_or(0));
    image.color_space().device_rgb();
    image.bits_per_component(8);
    image.finish();
}
