//! The pictures of the page as files, for documents and talks: drawn from the same tables, light, without a browser.
//!
//! All of them are made of rectangles and of letters of one width, whose pixels a crate brings: there is no need of outlines, curves or fonts.

mod canvas;
mod flame;
mod lanes;
mod plots;
mod png;
mod records;
mod roofline;

use self::lanes::Plot;
use crate::table::{Answer, Table};

/// A picture in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The name of the file.
    pub name: String,
    /// The file, in PNG's format.
    pub png: Vec<u8>,
}

/// All pictures of a page that have something in them, in its order. `answer` and `plots` are what the page is made of, `label` is the name
/// of the run.
#[must_use]
pub fn pictures(answer: &Answer, plots: &Answer, label: &str) -> Vec<Picture> {
    let plot =
        |part: &str, key: &str, draw: &dyn Fn(&Table) -> Plot| table(plots, part, key).map(draw);
    let of_runs = |part: &str, draw: fn(&[&Table]) -> Plot| draw(&tables_of_runs(answer, part));
    let before_graphs = vec![
        plot("courses", "busy", &plots::busy),
        plot("courses", "processors", &plots::processors),
        Some(of_runs("timeline", plots::timeline)),
        Some(of_runs("gaps", plots::gaps)),
    ];
    let behind_graphs = vec![
        plot("durations", "kernel_durations", &plots::durations),
        part(answer, "memory")
            .and_then(|part| part.tables.first())
            .map(plots::memory),
        part(answer, "efficiency").and_then(roofline::plot),
        plot("courses", "curves", &|table| plots::curves(table, true)),
        plot("courses", "curves", &|table| plots::curves(table, false)),
    ];
    let drawn = |plots: Vec<Option<Plot>>| {
        let plots = plots.into_iter().flatten();
        plots
            .flat_map(|plot| plot.pictures(label))
            .collect::<Vec<_>>()
    };
    let mut pictures = drawn(before_graphs);
    if let Some(frames) = table(plots, "flame", "flame_frames") {
        let graphs = part(plots, "flame")
            .into_iter()
            .flat_map(|part| &part.tables);
        let graphs = graphs.filter(|table| table.key != frames.key);
        pictures.extend(graphs.filter_map(|table| flame::picture(table, frames, label)));
    }
    pictures.extend(drawn(behind_graphs));
    pictures
}

fn part<'a>(answer: &'a Answer, name: &str) -> Option<&'a Answer> {
    let found = answer.parts.iter().find(|(one, _)| *one == name);
    found.map(|(_, part)| part)
}

fn table<'a>(answer: &'a Answer, name: &str, key: &str) -> Option<&'a Table> {
    let mut tables = part(answer, name)?.tables.iter();
    tables.find(|table| table.key == key)
}

/// The tables of an answer, without those that hold a run's name alone.
fn tables_of_runs<'a>(answer: &'a Answer, name: &str) -> Vec<&'a Table> {
    let tables = part(answer, name).into_iter().flat_map(|part| &part.tables);
    tables
        .flat_map(|table| match table.key {
            "runs" => table.rows.iter().flat_map(|row| &row.below).collect(),
            _ => vec![table],
        })
        .collect()
}

#[cfg(test)]
mod tests;
