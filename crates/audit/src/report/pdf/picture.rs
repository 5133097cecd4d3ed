//! A screenshot as the file can hold it.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

const SIDE_PX_MAX: u32 = 8_000;
const DECODED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Red, green and blue of every point.
pub(super) struct Picture {
    pub(super) width_px: u32,
    pub(super) height_px: u32,
    pub(super) rgb: Vec<u8>,
}

impl Picture {
    /// Reads a PNG as browsers write them: eight bits, with or without transparency, not interlaced.
    /// Anything else is none.
    pub(super) fn read(png: &[u8]) -> Option<Self> {
        let mut rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
        let mut header = None;
        let mut packed = Vec::new();
        while let Some((length, more)) = rest.split_first_chunk::<4>() {
            let (kind, more) = more.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let data = more.get(..length)?;
            match kind {
                b"IHDR" => header = Some(Header::read(data)?),
                b"IDAT" => packed.extend_from_slice(data),
                b"IEND" => break,
                _ => {}
            }
            rest = more.get(length + 4..)?;
        }
        let header = header?;
        let raw = decompress_to_vec_zlib_with_limit(&packed, DECODED_BYTES_MAX).ok()?;
        let rgb = header.rgb(raw)?;
        Some(Picture { width_px: header.width_px, height_px: header.height_px, rgb })
    }

    #[expect(clippy::cast_precision_loss, reason = "a side has at most some thousand points")]
    pub(super) fn size(&self) -> (f32, f32) {
        (self.width_px.max(1) as f32, self.height_px.max(1) as f32)
    }
}

struct Header {
    width_px: u32,
    height_px: u32,
    channels: usize,
}

impl Header {
    fn read(data: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_be_bytes(*data.get(at..at + 4)?.first_chunk()?));
        let (width_px, height_px) = (number(0)?, number(4)?);
        let channels = match data.get(8..13)? {
            [8, 0, _, _, 0] => 1,
            [8, 2, _, _, 0] => 3,
            [8, 6, _, _, 0] => 4,
            _ => return None,
        };
        let is_sound = |side: u32| (1..=SIDE_PX_MAX).contains(&side);
        (is_sound(width_px) && is_sound(height_px)).then_some(Header {
            width_px,
            height_px,
            channels,
        })
    }

    /// Takes the filters of the lines away, and the transparency over white.
    fn rgb(&self, mut raw: Vec<u8>) -> Option<Vec<u8>> {
        let line_bytes = usize::try_from(self.width_px).ok()? * self.channels;
        let height = usize::try_from(self.height_px).ok()?;
        if raw.len() < height * (line_bytes + 1) {
            return None;
        }
        let mut rgb = Vec::with_capacity(height * line_bytes);
        let mut before = vec![0; line_bytes];
        for line in raw.chunks_exact_mut(line_bytes + 1).take(height) {
            let (filter, line) = line.split_first_mut()?;
            unfilter(*filter, line, &before, self.channels)?;
            before.copy_from_slice(line);
            for point in line.chunks_exact(self.channels) {
                match *point {
                    [gray] => rgb.extend([gray; 3]),
                    [red, green, blue] => rgb.extend([red, green, blue]),
                    [red, green, blue, alpha] => {
                        rgb.extend([red, green, blue].map(|it| over_white(it, alpha)));
                    }
                    _ => return None,
                }
            }
        }
        Some(rgb)
    }
}

fn over_white(value: u8, alpha: u8) -> u8 {
    let mixed = (u32::from(value) * u32::from(alpha) + 255 * (255 - u32::from(alpha))) / 255;
    u8::try_from(mixed).unwrap_or(255)
}

/// Each byte was stored as its difference from a guess by its neighbours.
fn unfilter(filter: u8, line: &mut [u8], before: &[u8], channels: usize) -> Option<()> {
    for at in 0..line.len() {
        let left = at.checked_sub(channels).map_or(0, |it| line[it]);
        let up = before[at];
        let corner = at.checked_sub(channels).map_or(0, |it| before[it]);
        let guess = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => u8::try_from(u16::midpoint(u16::from(left), u16::from(up))).unwrap_or(0),
            4 => paeth(left, up, corner),
            _ => return None,
        };
        line[at] = line[at].wrapping_add(guess);
    }
    Some(())
}

/// Whichever neighbour is nearest to what their slope leads to.
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let slope = i16::from(left) + i16::from(up) - i16::from(corner);
    let distance = |it: u8| (slope - i16::from(it)).abs();
    if distance(left) <= distance(up) && distance(left) <= distance(corner) {
        left
    } else if distance(up) <= distance(corner) {
        up
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_read_whatever_their_filters() {
        // Two lines of two points with transparency; the second is stored as the difference from the first.
        let raw = [1, 10, 20, 30, 255, 1, 1, 1, 0, 2, 5, 5, 5, 0, 0, 0, 0, 0];
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut chunk = |kind: &[u8], data: &[u8]| {
            png.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
            png.extend(kind);
            png.extend(data);
            png.extend([0; 4]);
        };
        chunk(b"IHDR", &[0, 0, 0, 2, 0, 0, 0, 2, 8, 6, 0, 0, 0]);
        chunk(b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&raw, 6));
        chunk(b"IEND", &[]);
        let picture = Picture::read(&png).unwrap();
        assert_eq!(picture.rgb, [10, 20, 30, 11, 21, 31, 15, 25, 35, 11, 21, 31]);
        for end in 0..png.len() - 12 {
            assert!(Picture::read(&png[..end]).is_none(), "{end}");
        }
    }
}
