//! Pixels that rectangles and texts are drawn into. Lengths are those of the page; each is [`SCALE`] pixels.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use super::png;

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// Fine enough for screens of today, and for print.
const SCALE: usize = 2;

pub(super) const BACK: Colour = [0xff, 0xff, 0xff];
pub(super) const RAISED: Colour = [0xf5, 0xf7, 0xf9];
pub(super) const LINE: Colour = [0xd5, 0xdb, 0xe1];
pub(super) const TEXT: Colour = [0x1b, 0x20, 0x26];
pub(super) const SOFT: Colour = [0x54, 0x5d, 0x68];
pub(super) const IDLE: Colour = [0xe3, 0xe7, 0xeb];

/// Those of the page in its light form (`page.css`).
const COLOURS: [Colour; 11] = [
    [0x2f, 0x6f, 0xde],
    [0xd9, 0x82, 0x2b],
    [0x2f, 0x9e, 0x62],
    [0x9b, 0x59, 0xc9],
    [0xc9, 0x4f, 0x6d],
    [0x14, 0x91, 0x9b],
    [0x8a, 0x6d, 0x3b],
    [0x6b, 0x77, 0x85],
    [0xb8, 0xb1, 0x2a],
    [0x5a, 0x4f, 0xcf],
    [0xe2, 0x6a, 0xa5],
];

/// The colour of the thing of this number.
pub(super) fn colour(number: usize) -> Colour {
    COLOURS[number % COLOURS.len()]
}

/// A colour between two, at a place from 0 to 1.
pub(super) fn between(one: Colour, other: Colour, place: f64) -> Colour {
    let mix = |at: usize| {
        let (one, other) = (f64::from(one[at]), f64::from(other[at]));
        (one + place * (other - one) + 0.5) as u8
    };
    [mix(0), mix(1), mix(2)]
}

/// How letters look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// Names of frames.
    Small,
    /// All else.
    Plain,
    /// The heading.
    Large,
}

impl Letters {
    fn raster(self) -> RasterHeight {
        match self {
            Self::Small => RasterHeight::Size20,
            Self::Plain => RasterHeight::Size24,
            Self::Large => RasterHeight::Size32,
        }
    }

    /// How wide a letter is.
    pub(super) fn width(self) -> f64 {
        get_raster_width(WEIGHT, self.raster()) as f64 / SCALE as f64
    }

    /// How high a line is.
    pub(super) fn height(self) -> f64 {
        self.raster().val() as f64 / SCALE as f64
    }

    /// A text, cut at its end where it is wider than this; empty where next to nothing would be left.
    pub(super) fn fit(self, text: &str, width: f64) -> String {
        let room = (width.max(0.0) / self.width()) as usize;
        if text.chars().count() <= room {
            return text.to_owned();
        }
        if room < 3 {
            return String::new();
        }
        text.chars().take(room - 2).chain("..".chars()).collect()
    }
}

const WEIGHT: FontWeight = FontWeight::Regular;

/// What stands for a letter that the font lacks.
const UNKNOWN: char = '?';

/// A picture.
#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    /// An empty picture.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let (width, height) = (pixel(width), pixel(height));
        Self {
            width,
            height,
            pixels: BACK.repeat(width * height),
        }
    }

    /// Fills what lies between two corners, at least a pixel in each direction if they differ in it.
    pub(super) fn fill(&mut self, [left, top]: [f64; 2], [right, bottom]: [f64; 2], ink: Colour) {
        let span = |from: f64, to: f64, most: usize| {
            let start = pixel(from).min(most);
            let end = pixel(to).max(start + usize::from(to > from)).min(most);
            start..end
        };
        let columns = span(left, right, self.width);
        for row in span(top, bottom, self.height) {
            let at = 3 * (row * self.width + columns.start);
            let line = &mut self.pixels[at..at + 3 * columns.len()];
            line.chunks_exact_mut(3)
                .for_each(|pixel| pixel.copy_from_slice(&ink));
        }
    }

    /// Writes a line of text with its upper left corner at a place; what is outside of the picture is cut off.
    pub(super) fn write(&mut self, [left, top]: [f64; 2], text: &str, how: Letters, ink: Colour) {
        let (mut left, top) = (pixel(left), pixel(top));
        for letter in text.chars() {
            let known = get_raster(letter, WEIGHT, how.raster());
            let Some(glyph) = known.or_else(|| get_raster(UNKNOWN, WEIGHT, how.raster())) else {
                continue;
            };
            for (down, line) in glyph.rows().enumerate() {
                for (right, strength) in line.iter().enumerate() {
                    self.blend(left + right, top + down, ink, f64::from(*strength) / 255.0);
                }
            }
            left += glyph.width();
        }
    }

    fn blend(&mut self, x: usize, y: usize, ink: Colour, strength: f64) {
        if strength > 0.0 && x < self.width && y < self.height {
            let at = 3 * (y * self.width + x);
            let below = [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2]];
            self.pixels[at..at + 3].copy_from_slice(&between(below, ink, strength));
        }
    }

    /// The picture as a file.
    pub(super) fn png(&self) -> Vec<u8> {
        png::encode(self.width, &self.pixels)
    }

    /// The colour of a pixel.
    #[cfg(test)]
    pub(super) fn at(&self, x: usize, y: usize) -> Colour {
        let at = 3 * (y * self.width + x);
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2]]
    }
}

/// The nearest border between pixels.
fn pixel(length: f64) -> usize {
    (length.max(0.0) * SCALE as f64 + 0.5) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_where_they_belong_and_nothing_is_outside() {
        let mut canvas = Canvas::new(20.0, 10.0);
        canvas.fill([5.0, 2.0], [7.0, 4.0], colour(0));
        assert_eq!(canvas.at(9, 5), BACK);
        assert_eq!(canvas.at(10, 4), colour(0));
        assert_eq!(canvas.at(13, 7), colour(0));
        assert_eq!(canvas.at(14, 7), BACK);
        // What is thin is seen all the same; what lies outside is not, and does no harm.
        canvas.fill([1.0, 1.0], [1.01, 1.01], colour(1));
        assert_eq!(canvas.at(2, 2), colour(1));
        canvas.fill([18.0, 8.0], [1e9, 1e9], colour(2));
        assert_eq!(canvas.at(39, 19), colour(2));
        canvas.write([15.0, 5.0], "far too long", Letters::Plain, TEXT);
        assert_eq!(canvas.pixels.len(), 3 * 40 * 20);
    }

    #[test]
    fn letters_are_drawn_and_texts_cut() {
        let inked = |text: &str| {
            let mut canvas = Canvas::new(30.0, 16.0);
            canvas.write([0.0, 0.0], text, Letters::Plain, TEXT);
            canvas.pixels.iter().filter(|part| **part < 128).count()
        };
        assert_eq!(inked(" "), 0);
        assert!(inked("l") > 20 && inked("W") > inked("l"));
        // Units and separators of the page, and what no font of this size has.
        assert!(inked("\u{b5}") > 20 && inked("\u{b7}") > 2);
        assert_eq!(inked("\u{4e2d}"), inked("?"));
        let width = Letters::Plain.width();
        assert_eq!(Letters::Plain.fit("abcdef", 6.0 * width), "abcdef");
        assert_eq!(Letters::Plain.fit("abcdefg", 6.0 * width), "abcd..");
        assert_eq!(Letters::Plain.fit("abcdefg", 2.0 * width), "");
    }
}
