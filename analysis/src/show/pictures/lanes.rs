//! Pictures that are made of lanes: shapes of the same width below each other, each with its name.

use super::Picture;
use super::canvas::{BACK, Canvas, Colour, LINE, Letters, RAISED, SOFT, TEXT};

/// The width of all pictures, and the space at their borders.
pub(super) const WIDTH: f64 = 900.0;
pub(super) const MARGIN: f64 = 16.0;
/// More lanes than this are divided among several pictures.
const LANES_MAX: usize = 12;
/// Between lanes.
const GAP: f64 = 10.0;

/// Lanes about one thing.
#[derive(Debug)]
pub(super) struct Plot {
    /// The name of the file, without a number and its ending.
    pub file: String,
    pub title: String,
    /// What has to be known to read it, if anything.
    pub about: String,
    /// What the colours mean.
    pub legend: Vec<(String, Colour)>,
    pub lanes: Vec<Lane>,
}

/// A shape with its name.
#[derive(Debug)]
pub(super) struct Lane {
    pub title: String,
    /// What stands behind the title.
    pub caption: String,
    pub height: f64,
    pub back: Colour,
    pub blocks: Vec<Block>,
    /// What is written below the shape, from its left to its right border.
    pub marks: Vec<String>,
}

impl Lane {
    /// An empty lane.
    pub(super) fn new(title: String, height: f64) -> Self {
        Self {
            title,
            caption: String::new(),
            height,
            back: RAISED,
            blocks: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn space(&self) -> f64 {
        let line = Letters::Plain.height() + 2.0;
        let marks = if self.marks.is_empty() { 0.0 } else { line };
        line + self.height + marks + GAP
    }

    fn draw(&self, canvas: &mut Canvas, top: f64) {
        let (left, width) = (MARGIN, WIDTH - 2.0 * MARGIN);
        let letter = Letters::Plain.width();
        // The title gives way to the caption: that is short, and names may be long.
        let caption_width = (self.caption.chars().count() + 2) as f64 * letter;
        let title = Letters::Plain.fit(&self.title, (width - caption_width).max(width / 3.0));
        canvas.write([left, top], &title, Letters::Plain, TEXT);
        let behind = left + (title.chars().count() + 2) as f64 * letter;
        let caption = Letters::Plain.fit(&self.caption, left + width - behind);
        canvas.write([behind, top], &caption, Letters::Plain, SOFT);
        let top = top + Letters::Plain.height() + 2.0;
        let bottom = top + self.height;
        canvas.fill([left, top], [left + width, bottom], self.back);
        for block in &self.blocks {
            let (from, to) = (block.left.clamp(0.0, 1.0), block.right.clamp(0.0, 1.0));
            let (low, high) = (block.low.clamp(0.0, 1.0), block.high.clamp(0.0, 1.0));
            canvas.fill(
                [left + width * from, bottom - self.height * high],
                [left + width * to, bottom - self.height * low],
                block.colour,
            );
        }
        for (at, mark) in self.marks.iter().enumerate() {
            let place = at as f64 / (self.marks.len() - 1).max(1) as f64;
            let length = mark.chars().count() as f64 * letter;
            canvas.write(
                [left + place * (width - length), bottom + 1.0],
                mark,
                Letters::Plain,
                SOFT,
            );
        }
    }
}

/// A rectangle within a lane, whose width and height are 1; what is high is above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub left: f64,
    pub right: f64,
    pub low: f64,
    pub high: f64,
    pub colour: Colour,
}

/// Writes the heading of a picture and tells where it ends.
pub(super) fn head(canvas: &mut Canvas, title: &str, label: &str) -> f64 {
    let width = WIDTH - 2.0 * MARGIN;
    let title = Letters::Large.fit(title, width);
    canvas.write([MARGIN, MARGIN], &title, Letters::Large, TEXT);
    let used = (title.chars().count() + 2) as f64 * Letters::Large.width();
    let label = Letters::Plain.fit(label, width - used);
    let length = label.chars().count() as f64 * Letters::Plain.width();
    canvas.write(
        [WIDTH - MARGIN - length, MARGIN + 3.0],
        &label,
        Letters::Plain,
        SOFT,
    );
    HEAD
}

/// How high the heading is.
pub(super) const HEAD: f64 = MARGIN + 26.0;

impl Plot {
    /// Its pictures; `label` is the name of the run.
    pub(super) fn pictures(&self, label: &str) -> Vec<Picture> {
        let parts = self.lanes.chunks(LANES_MAX);
        let count = parts.len();
        let digits = count.to_string().len();
        parts
            .enumerate()
            .map(|(at, lanes)| {
                let (name, title) = match count {
                    1 => (self.file.clone(), self.title.clone()),
                    _ => (
                        format!("{}-{:0digits$}", self.file, at + 1),
                        format!("{} ({} of {count})", self.title, at + 1),
                    ),
                };
                Picture {
                    name: format!("{name}.png"),
                    png: self.draw(lanes, &title, label).png(),
                }
            })
            .collect()
    }

    fn draw(&self, lanes: &[Lane], title: &str, label: &str) -> Canvas {
        let legend = self.legend_lines();
        let line = Letters::Plain.height() + 4.0;
        let about = if self.about.is_empty() { 0.0 } else { line };
        let space: f64 = lanes.iter().map(Lane::space).sum();
        let height = HEAD + about + legend.len() as f64 * line + GAP + space + MARGIN - GAP;
        let mut canvas = Canvas::new(WIDTH, height);
        let mut top = head(&mut canvas, title, label);
        if !self.about.is_empty() {
            let about = Letters::Plain.fit(&self.about, WIDTH - 2.0 * MARGIN);
            canvas.write([MARGIN, top], &about, Letters::Plain, SOFT);
            top += line;
        }
        for names in legend {
            for (left, name, ink) in names {
                canvas.fill([left, top + 1.0], [left + 10.0, top + 11.0], LINE);
                canvas.fill([left + 0.5, top + 1.5], [left + 9.5, top + 10.5], ink);
                canvas.write([left + 14.0, top], &name, Letters::Plain, TEXT);
            }
            top += line;
        }
        top += GAP;
        for lane in lanes {
            lane.draw(&mut canvas, top);
            top += lane.space();
        }
        canvas
    }

    /// The legend in lines: where each name begins, and its colour.
    fn legend_lines(&self) -> Vec<Vec<(f64, String, Colour)>> {
        let mut lines: Vec<Vec<_>> = Vec::new();
        let mut left = WIDTH;
        for (name, ink) in &self.legend {
            let name = Letters::Plain.fit(name, WIDTH / 2.0);
            let length = 14.0 + name.chars().count() as f64 * Letters::Plain.width() + 18.0;
            if left + length > WIDTH - MARGIN + 18.0 {
                lines.push(Vec::new());
                left = MARGIN;
            }
            if let Some(line) = lines.last_mut() {
                line.push((left, name, *ink));
            }
            left += length;
        }
        lines
    }
}

/// Parts of a whole beside each other, without those that are nothing.
pub(super) fn beside(parts: &[(f64, Colour)], whole: f64) -> Vec<Block> {
    let mut left = 0.0;
    let mut blocks = Vec::new();
    for (value, colour) in parts.iter().filter(|(value, _)| *value > 0.0) {
        let right = left + value / whole.max(f64::MIN_POSITIVE);
        blocks.push(Block {
            left,
            right,
            low: 0.0,
            high: 1.0,
            colour: *colour,
        });
        // A fine line between neighbours, which may have the same colour.
        blocks.push(Block {
            left: right,
            right: right + 0.0005,
            low: 0.0,
            high: 1.0,
            colour: BACK,
        });
        left = right;
    }
    blocks.pop();
    blocks
}
