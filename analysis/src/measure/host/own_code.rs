//! CPU time of the functions in the user's own files, each with everything that it calls: what he can change, where the functions of most own time are
//! in libraries.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::functions::{Weight, share};
use crate::program::code_place::{cells, is_own_code};
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Frame, Model, StackId};

/// The time of a function.
#[derive(Debug, Default)]
struct Time {
    /// Its samples in which no other function of these files is further in.
    innermost: Weight,
    /// The total by line.
    lines: HashMap<u32, u64>,
    total_ns: u64,
    /// The last stack that was counted in the total.
    last: usize,
}

/// The functions, those of most time first; `None` where no sample shows one.
pub(super) fn table(stacks: &HashMap<StackId, Weight>, model: &Model) -> Option<Table> {
    let whole_ns = stacks.values().map(|weight| weight.time_ns).sum();
    let mut rows: Vec<(Time, [Cell; 3])> = times(stacks, model)
        .into_iter()
        .map(|(mut frame, time)| {
            // Of lines with equal time the first.
            let lines = time.lines.iter().map(|(&line, &ns)| (ns, Reverse(line)));
            frame.line = lines.max().map_or(0, |(_, Reverse(line))| line);
            (time, cells(Some(&frame), model, ""))
        })
        .collect();
    rows.sort_by_cached_key(|(time, cells)| {
        let times = (time.total_ns, time.innermost.time_ns);
        (Reverse(times), format!("{cells:?}"))
    });
    let columns = [
        Column::plain("function", "function"),
        Column::plain("source", ""),
        Column::plain("line", "hottest line"),
        Column::plain("samples", "samples"),
        Column::ns("own_ns", "here and in libraries"),
        Column::share("own_share", ""),
        Column::ns("total_ns", "total"),
        Column::share("total_share", "total"),
    ];
    let title = "CPU time in your own files, by function with all that it calls";
    let mut table = Table::new("own_code", title, &columns);
    table.rows_in_text = 30;
    for (time, cells) in rows {
        let mut row = cells.to_vec();
        row.extend::<[Cell; 5]>([
            time.innermost.samples.into(),
            time.innermost.time_ns.into(),
            share(time.innermost.time_ns, whole_ns),
            time.total_ns.into(),
            share(time.total_ns, whole_ns),
        ]);
        table.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// By function, as a frame without its line.
fn times(stacks: &HashMap<StackId, Weight>, model: &Model) -> HashMap<Frame, Time> {
    let mut times: HashMap<Frame, Time> = HashMap::new();
    for (number, (&stack, &weight)) in (1..).zip(stacks) {
        let frames = model.stacks.innermost_first(stack);
        let own = frames.filter(|frame| is_own_code(frame, model));
        for (depth, frame) in own.enumerate() {
            let time = times.entry(Frame { line: 0, ..*frame }).or_default();
            if depth == 0 {
                time.innermost.add(weight);
            }
            if time.last != number {
                time.last = number;
                time.total_ns += weight.time_ns;
                *time.lines.entry(frame.line).or_default() += weight.time_ns;
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_count_for_the_function_that_calls_them() {
        let mut model = Model::default();
        let mut stack = |frames: &[(&str, &str, u32)]| {
            frames.iter().fold(StackId::ROOT, |stack, frame| {
                let &(function, file, line) = frame;
                let frame = Frame {
                    function: model.texts.intern(function),
                    mapping: model.texts.intern(file),
                    source: model.texts.intern(file),
                    line,
                };
                let frame = model.stacks.frame_id(frame);
                model.stacks.child(stack, frame)
            })
        };
        let main = ("main", "/home/me/train.py", 9);
        let load = ("load", "/home/me/train.py", 3);
        let loads = ("loads", "/usr/lib/python3.11/json/__init__.py", 70);
        let stacks = [
            (stack(&[main, load, loads]), 50),
            (stack(&[main, load]), 30),
            (stack(&[main, load, load]), 10),
            (stack(&[loads]), 10),
        ];
        let stacks = stacks.map(|(stack, time_ns)| {
            let samples = 1;
            (stack, Weight { samples, time_ns })
        });
        let table = table(&HashMap::from(stacks), &model).unwrap();
        let told: Vec<_> = table
            .rows
            .iter()
            .map(|row| {
                (
                    &row.cells[0],
                    [&row.cells[2], &row.cells[3], &row.cells[4], &row.cells[6]],
                )
            })
            .collect();
        let [load, main] = [Cell::from("load"), Cell::from("main")];
        let of_load = [3, 3, 90, 90].map(Cell::Count);
        let of_main = [9, 0, 0, 90].map(Cell::Count);
        let expected = [(&load, of_load.each_ref()), (&main, of_main.each_ref())];
        assert_eq!(told, expected);
    }
}
