//! Flame graphs: callers above what they call, as wide as their time.

use super::Picture;
use super::canvas::{Canvas, Colour, Letters, TEXT};
use super::lanes::{HEAD, MARGIN, WIDTH, head};
use crate::show::quantity::quantity;
use crate::table::{Cell, Table, Unit};

/// The height of a frame.
const ROW: f64 = 15.0;
/// Frames of more callers are left out: a picture has an end.
const DEPTH_MAX: usize = 120;
/// And those that would be narrower than this.
const WIDTH_MIN: f64 = 0.8;

/// A frame: what it is, and where.
struct Node {
    name: String,
    module: String,
    source: String,
    total_ns: u64,
    parent: Option<usize>,
    children: Vec<usize>,
}

fn text(cell: Option<&Cell>) -> String {
    match cell {
        Some(Cell::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

fn count(cell: Option<&Cell>) -> Option<u64> {
    match cell {
        Some(Cell::Count(count)) => Some(*count),
        _ => None,
    }
}

/// The nodes of a table, behind a root for all of them.
fn nodes(table: &Table, frames: &Table) -> Vec<Node> {
    let mut nodes = vec![Node {
        name: "all".to_owned(),
        module: String::new(),
        source: String::new(),
        total_ns: 0,
        parent: None,
        children: Vec::new(),
    }];
    let cell = |row: usize, key: &str| {
        let at = table.columns.iter().position(|column| column.key == key)?;
        table.rows[row].cells.get(at)
    };
    for row in 0..table.rows.len() {
        // Frames that have a number are in a table of their own.
        let frame = cell(row, "frame");
        let known = count(frame).and_then(|number| frames.rows.get(usize::try_from(number).ok()?));
        let part = |at: usize| known.map_or_else(String::new, |row| text(row.cells.get(at)));
        let total_ns = count(cell(row, "total_ns")).unwrap_or(0);
        let parent = count(cell(row, "parent")).map_or(0, |parent| parent as usize + 1);
        nodes.push(Node {
            name: if known.is_some() {
                part(0)
            } else {
                text(frame)
            },
            module: part(1),
            source: part(2),
            total_ns,
            parent: Some(parent),
            children: Vec::new(),
        });
        nodes[parent].children.push(row + 1);
        if parent == 0 {
            nodes[0].total_ns += total_ns;
        }
    }
    nodes
}

/// A graph as a picture; none of no time.
pub(super) fn picture(table: &Table, frames: &Table, label: &str) -> Option<Picture> {
    let nodes = nodes(table, frames);
    let all_ns = nodes[0].total_ns;
    if all_ns == 0 {
        return None;
    }
    let scale = (WIDTH - 2.0 * MARGIN) / all_ns as f64;
    let mut places = Vec::new();
    let mut todo = vec![(0_usize, 0_usize, MARGIN)];
    while let Some((at, depth, left)) = todo.pop() {
        let width = nodes[at].total_ns as f64 * scale;
        if width < WIDTH_MIN || depth >= DEPTH_MAX {
            continue;
        }
        places.push((at, depth, left, width));
        let mut children = nodes[at].children.clone();
        children.sort_by_key(|child| std::cmp::Reverse(nodes[*child].total_ns));
        let mut next = left;
        for child in children {
            todo.push((child, depth + 1, next));
            next += nodes[child].total_ns as f64 * scale;
        }
    }
    let depth = places.iter().map(|place| place.1).max().unwrap_or(0) + 1;
    let mut canvas = Canvas::new(WIDTH, HEAD + depth as f64 * ROW + MARGIN);
    let total = quantity(&Cell::Count(all_ns), Unit::Nanoseconds);
    let title = format!("Flame graph: {} ({total})", table.title);
    let top = head(&mut canvas, &title, label);
    for (at, depth, left, width) in places {
        let node = &nodes[at];
        let upper = top + depth as f64 * ROW;
        // A gap between frames, where there is room for one.
        let right = left + if width > 2.0 { width - 0.5 } else { width };
        canvas.fill([left, upper], [right, upper + ROW - 0.5], tint(node));
        let name = Letters::Small.fit(&node.name, width - 6.0);
        canvas.write([left + 3.0, upper + 2.0], &name, Letters::Small, TEXT);
    }
    Some(Picture {
        name: format!("{}.png", table.key.replace('_', "-")),
        png: canvas.png(),
    })
}

/// The colour of a frame, as on the page: Python is green, marks are grey, all else goes by its file.
fn tint(node: &Node) -> Colour {
    let part = hash(&node.name);
    if node.parent.is_none() || node.name.starts_with(['[', '(']) {
        hsl(215.0, 0.14, 0.80)
    } else if node.source.ends_with(".py") || node.source.starts_with('<') {
        let other = hash(&format!("{}.", node.name));
        hsl(95.0 + 55.0 * part, 0.48, 0.72 + 0.08 * other)
    } else {
        hsl(8.0 + 44.0 * hash(&node.module), 0.82, 0.70 + 0.10 * part)
    }
}

/// A number from 0 to 1 for a text.
fn hash(text: &str) -> f64 {
    let sum = |sum: u32, unit: u16| (sum * 31 + u32::from(unit)) % 9973;
    f64::from(text.encode_utf16().fold(7, sum)) / 9973.0
}

/// Hue in degrees; saturation and lightness from 0 to 1.
fn hsl(hue: f64, saturation: f64, lightness: f64) -> Colour {
    let strength = saturation * lightness.min(1.0 - lightness);
    let part = |shift: f64| {
        let at = (shift + hue / 30.0) % 12.0;
        let value = lightness - strength * (at - 3.0).min(9.0 - at).clamp(-1.0, 1.0);
        (255.0 * value + 0.5) as u8
    };
    [part(0.0), part(8.0), part(4.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_page() {
        // As browsers compute them.
        assert_eq!(hsl(0.0, 1.0, 0.5), [255, 0, 0]);
        assert_eq!(hsl(120.0, 1.0, 0.25), [0, 128, 0]);
        assert_eq!(hsl(215.0, 0.14, 0.80), [197, 203, 211]);
        assert!((hash("main") - 0.0).abs() <= 1.0 && hash("main") != hash("niam"));
    }
}
