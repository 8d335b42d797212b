//! How well the busy time of GPUs was used: for each operator its work, the rates that it came to, and what the GPU could have done.
//!
//! | file | holds |
//! |---|---|
//! | `launches` | operations of GPUs with the operators that they were launched in |
//! | `pieces` | what one call of an operator ran, as a row of its own kind |
//! | `contexts`, `modules` | where in the program operators were called; modules as a tree |
//! | `gradients` | which operators compute the gradients of which |
//! | `sequences` | what calls do one after the other: chains over one tensor, equal products |
//! | `works` | what each call has to do |
//! | `busy` | whose each busy nanosecond is |
//! | `figures` | sums: times, operations, bytes, least times, reasons |
//! | `rows` | what rows are told apart by, and the figures of each |
//! | `tables` | the tables |
//!
//! Every busy nanosecond of a GPU is in one row: the sum of all rows is the busy time of `timeline`, whether a row has figures or not.

mod busy;
mod contexts;
mod figures;
mod gradients;
mod launches;
mod modules;
mod pieces;
mod rows;
mod sequences;
mod tables;
mod works;

use crate::measure::{Measure, no_operation, notes};
use crate::table::Answer;
use rsys_traces::model::{Batch, Kinds, Model};
use rsys_traces::work::peaks::Peaks;

use self::launches::Launches;
use self::pieces::Pieces;

/// What rows are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// Operator, shapes, types and GPU.
    #[default]
    Shapes,
    /// Operator.
    Operator,
    /// Family.
    Category,
    /// The kernels that calls of operators ran.
    Kernel,
    /// Rank.
    Rank,
    /// The modules of PyTorch that called operators, by their classes.
    Module,
    /// The functions of Python that called operators.
    Line,
}

/// How the question is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// What rows are told apart by.
    pub by: By,
    /// The share of the roofline that operators could have reached, 1 being all of it; `None`: the best of each family in this run.
    pub target: Option<f64>,
    /// Peaks that count before those of the table.
    pub peaks: Vec<Peaks>,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Efficiency {
    options: Options,
    launches: Launches,
}

impl Efficiency {
    /// The question with options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            launches: Launches::default(),
        }
    }
}

impl Measure for Efficiency {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            host: true,
            arguments: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.launches.take(batch, self.options.by);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let launches = std::mem::take(&mut self.launches);
        let pieces = Pieces::of(launches, self.options.by, model);
        let rows = rows::of(pieces, model, &self.options);
        let mut notes = notes(model);
        let is_empty = rows.is_empty();
        if is_empty {
            notes.push(no_operation(model));
        }
        notes.extend(tables::notes(&rows, &self.options));
        Answer {
            tables: tables::tables(&rows, model, &self.options),
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}
