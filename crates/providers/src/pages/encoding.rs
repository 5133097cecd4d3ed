//! Undoes a body's content encoding, piece by piece, and never makes more of it than is allowed.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;

/// What we say that we understand.
pub(super) const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Nobody encodes more often; each time may multiply the size.
const LAYERS_MAX: usize = 2;
const PIECE_BYTES: usize = 16 * 1024;
/// The window that browsers allow, and with it the memory.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;

const BOMB_BYTES_MIN: u64 = 1024 * 1024;
const BOMB_RATIO_MIN: u64 = 1000;

/// Takes what was transferred and keeps what it means.
pub(super) struct Decoder {
    way: Box<dyn Finish>,
    kept: Arc<Mutex<Kept>>,
}

/// What came out.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    /// Of all, kept or not.
    pub(super) decoded_bytes: u64,
    /// There is more than is allowed.
    pub(super) is_over: bool,
    taken_bytes: u64,
    decoded_bytes_max: u64,
    keep_bytes_max: u64,
}

/// The body is not what its header says.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the body is larger than it may be")]
    TooLarge,
    #[error("the body is not encoded as its header says: {0}")]
    Broken(io::Error),
}

impl Decoder {
    /// `encodings` as the headers name them, in the order in which they were applied. One that nobody
    /// knows is left as it is, as browsers do.
    pub(super) fn new(encodings: &[String], decoded_bytes_max: u64, kept_bytes_max: u64) -> Self {
        let limits = Kept { decoded_bytes_max, keep_bytes_max: kept_bytes_max, ..Kept::default() };
        let kept = Arc::new(Mutex::new(limits));
        let mut way: Box<dyn Finish> = Box::new(Sink(kept.clone()));
        for encoding in encodings.iter().take(LAYERS_MAX) {
            way = match encoding.as_str() {
                "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(way)),
                "deflate" => Box::new(Deflate::Unknown(Vec::new(), way)),
                "br" => {
                    let decoder = DecompressorWriter::new(way, PIECE_BYTES);
                    Box::new(Brotli { decoder, has_begun: false })
                }
                "zstd" => Box::new(Zstd { encoded: Vec::new(), to: way }),
                _ => way,
            };
        }
        Decoder { way, kept }
    }

    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        lock(&self.kept).taken_bytes += piece.len() as u64;
        let done = self.way.write_all(piece);
        self.outcome(done)
    }

    pub(super) fn finish(&mut self) -> Result<(), DecodeError> {
        let done = self.way.finish();
        self.outcome(done)
    }

    pub(super) fn decoded_bytes(&self) -> u64 {
        lock(&self.kept).decoded_bytes
    }

    pub(super) fn into_kept(self) -> Kept {
        std::mem::take(&mut *lock(&self.kept))
    }

    fn outcome(&self, done: io::Result<()>) -> Result<(), DecodeError> {
        match done {
            _ if lock(&self.kept).is_over => Err(DecodeError::TooLarge),
            Ok(()) => Ok(()),
            Err(error) => Err(DecodeError::Broken(error)),
        }
    }
}

/// Something that is written to and has an end.
trait Finish: Write + Send {
    fn finish(&mut self) -> io::Result<()>;
}

impl Finish for Box<dyn Finish> {
    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }
}

impl Kept {
    /// No page shrinks like this; a decoder that is asked to go on takes memory for its window too.
    fn is_bomb(&self) -> bool {
        self.decoded_bytes > BOMB_BYTES_MIN
            && self.decoded_bytes / self.taken_bytes.max(1) > BOMB_RATIO_MIN
    }
}

struct Sink(Arc<Mutex<Kept>>);

impl Write for Sink {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let mut kept = lock(&self.0);
        let kept = &mut *kept;
        let room = kept.decoded_bytes_max - kept.decoded_bytes;
        let allowed = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
        let room = kept.keep_bytes_max.saturating_sub(kept.bytes.len() as u64);
        let wanted = usize::try_from(room).unwrap_or(usize::MAX).min(allowed);
        kept.bytes.extend_from_slice(&piece[..wanted]);
        kept.decoded_bytes += allowed as u64;
        if allowed < piece.len() || kept.is_bomb() {
            kept.is_over = true;
            return Err(io::Error::other("too large"));
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Sink {
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for MultiGzDecoder<Box<dyn Finish>> {
    fn finish(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().finish()
    }
}

/// What is called deflate is meant to be zlib, and sometimes is not.
enum Deflate {
    Unknown(Vec<u8>, Box<dyn Finish>),
    Zlib(ZlibDecoder<Box<dyn Finish>>),
    Raw(DeflateDecoder<Box<dyn Finish>>),
    Lost,
}

impl Write for Deflate {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if let Deflate::Unknown(begin, _) = self {
            begin.extend_from_slice(piece);
            let &[first, second, ..] = begin.as_slice() else { return Ok(piece.len()) };
            let is_zlib =
                first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
            let Deflate::Unknown(begin, to) = std::mem::replace(self, Deflate::Lost) else {
                return Err(io::Error::other("lost"));
            };
            *self = if is_zlib {
                Deflate::Zlib(ZlibDecoder::new(to))
            } else {
                Deflate::Raw(DeflateDecoder::new(to))
            };
            self.write_all(&begin)?;
            return Ok(piece.len());
        }
        match self {
            Deflate::Zlib(zlib) => zlib.write(piece),
            Deflate::Raw(raw) => raw.write(piece),
            Deflate::Unknown(..) | Deflate::Lost => Err(io::Error::other("lost")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Deflate {
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Deflate::Zlib(zlib) => {
                zlib.try_finish()?;
                zlib.get_mut().finish()
            }
            Deflate::Raw(raw) => {
                raw.try_finish()?;
                raw.get_mut().finish()
            }
            Deflate::Unknown(begin, to) if begin.is_empty() => to.finish(),
            Deflate::Unknown(..) | Deflate::Lost => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

struct Brotli {
    decoder: DecompressorWriter<Box<dyn Finish>>,
    has_begun: bool,
}

impl Write for Brotli {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        // A window of up to a gigabyte, which is no part of the format that browsers speak.
        let is_large = piece.first().is_some_and(|first| first & 0x7f == 0x11);
        if is_large && !self.has_begun {
            return Err(io::Error::other("the window is too large"));
        }
        self.has_begun |= !piece.is_empty();
        self.decoder.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Brotli {
    fn finish(&mut self) -> io::Result<()> {
        self.decoder.close()?;
        self.decoder.get_mut().finish()
    }
}

/// Decodes only at the end: what is encoded is bounded as well.
struct Zstd {
    encoded: Vec<u8>,
    to: Box<dyn Finish>,
}

impl Write for Zstd {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.encoded.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Zstd {
    fn finish(&mut self) -> io::Result<()> {
        let encoded = std::mem::take(&mut self.encoded);
        let mut rest = encoded.as_slice();
        let mut piece = vec![0; PIECE_BYTES];
        while !rest.is_empty() {
            let frame =
                StreamingDecoder::new_with_max_window_size(&mut rest, ZSTD_WINDOW_BYTES_MAX);
            let mut frame = frame.map_err(io::Error::other)?;
            loop {
                let bytes = frame.read(&mut piece)?;
                if bytes == 0 {
                    break;
                }
                self.to.write_all(&piece[..bytes])?;
            }
        }
        self.to.finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text() -> Vec<u8> {
        (0..20_000_u32).flat_map(|n| format!("line {}\n", n % 977).into_bytes()).collect()
    }

    fn encoded(encoding: &str, plain: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match encoding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            "raw" => {
                let mut encoder = DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            "br" => include_bytes!("../../tests/pages/lines.br").to_vec(),
            _ => compress_to_vec(plain, CompressionLevel::Fastest),
        }
    }

    fn decode(encodings: &[&str], body: &[u8], max: u64) -> Result<Vec<u8>, DecodeError> {
        let encodings: Vec<String> = encodings.iter().map(|&name| name.to_owned()).collect();
        let mut decoder = Decoder::new(&encodings, max, max);
        for piece in body.chunks(777) {
            decoder.take(piece)?;
        }
        decoder.finish()?;
        Ok(decoder.into_kept().bytes)
    }

    #[test]
    fn every_encoding_gives_back_what_was_encoded() {
        let plain = text();
        let forms = ["gzip", "deflate", "raw", "br", "zstd"];
        for (name, form) in forms.map(|form| (if form == "raw" { "deflate" } else { form }, form)) {
            let body = encoded(form, &plain);
            assert!(body.len() < plain.len() / 2, "{form}");
            assert!(decode(&[name], &body, 1 << 20).unwrap() == plain, "{form}");
            // Deflate does not tell that its end is missing; the transfer does.
            let half = decode(&[name], &body[..body.len() / 2], 1 << 20);
            let is_told = matches!(half, Err(DecodeError::Broken(_)));
            assert_eq!(is_told, name != "deflate", "{form}");
            let over = decode(&[name], &body, plain.len() as u64 - 1);
            assert!(matches!(over, Err(DecodeError::TooLarge)), "{form}");
        }
        let twice = encoded("gzip", &encoded("zstd", &plain));
        assert!(decode(&["zstd", "gzip"], &twice, 1 << 20).unwrap() == plain);
        assert_eq!(decode(&[], b"as it is", 100).unwrap(), b"as it is");
        assert_eq!(decode(&["rot13"], b"nf vg vf", 100).unwrap(), b"nf vg vf");
        assert!(decode(&["gzip"], b"not gzip at all", 100).is_err());
    }

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut decoder = Decoder::new(&["gzip".to_owned()], 1 << 20, 10);
        let plain = text();
        decoder.take(&encoded("gzip", &plain)).unwrap();
        decoder.finish().unwrap();
        assert_eq!(decoder.decoded_bytes(), plain.len() as u64);
        assert_eq!(decoder.into_kept().bytes, plain[..10]);
    }
}
