//! Pixels as a PNG file.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Eight bits for each of red, green and blue; deflate, filters of single rows, not interlaced.
const FORM: [u8; 5] = [8, 2, 0, 0, 0];
/// Each byte as its difference from the one above: most rows are like the one before.
const UP: u8 = 2;

/// A picture of so many pixels in a row, of three bytes each.
pub(super) fn encode(width: usize, pixels: &[u8]) -> Vec<u8> {
    let stride = 3 * width;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    let above = std::iter::once(vec![0; stride]);
    let above = above.chain(pixels.chunks_exact(stride).map(<[u8]>::to_vec));
    for (row, above) in pixels.chunks_exact(stride).zip(above) {
        let differences = row.iter().zip(above).map(|(one, up)| one.wrapping_sub(up));
        let line: Vec<u8> = std::iter::once(UP).chain(differences).collect();
        // A vector takes whatever is written to it.
        packed.write_all(&line).ok();
    }
    let packed = packed.finish().unwrap_or_default();
    let height = pixels.len() / stride.max(1);
    let size = [width, height].map(|side| u32::try_from(side).unwrap_or(u32::MAX).to_be_bytes());
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &[&size.concat()[..], &FORM].concat());
    chunk(&mut file, b"IDAT", &packed);
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    file.extend(length.to_be_bytes());
    file.extend(kind);
    file.extend(content);
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(content);
    file.extend(sum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    #[test]
    fn pixels_come_back() {
        let (width, height) = (7, 5);
        let pixels: Vec<u8> = (0..3 * width * height).map(|at| (at * 37) as u8).collect();
        let file = encode(width, &pixels);
        assert_eq!(file[..8], SIGNATURE);
        let length = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((length(8), &file[12..16]), (13, &b"IHDR"[..]));
        assert_eq!((length(16), length(20)), (width, height));
        let at = 8 + 12 + 13;
        assert_eq!(file[at + 4..at + 8], *b"IDAT");
        let mut lines = Vec::new();
        let packed = &file[at + 8..at + 8 + length(at)];
        ZlibDecoder::new(packed).read_to_end(&mut lines).unwrap();
        let mut row = vec![0_u8; 3 * width];
        let mut back: Vec<u8> = Vec::new();
        for line in lines.chunks(3 * width + 1) {
            assert_eq!(line[0], UP);
            for (byte, difference) in row.iter_mut().zip(&line[1..]) {
                *byte = byte.wrapping_add(*difference);
            }
            back.extend(&row);
        }
        assert_eq!(back, pixels);
        assert!(file.ends_with(&[0xae, 0x42, 0x60, 0x82]), "the sum of IEND");
    }
}
