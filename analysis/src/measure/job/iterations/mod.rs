//! Iterations of ranks: how long each took, what of it was computation, communication that nothing hid, copies and idleness, and what was different in
//! the slowest.
//!
//! | file | holds |
//! |---|---|
//! | `records` | what is kept while a file is read |
//! | `marker` | which names mark iterations |
//! | `occurrences` | where a marker is in a process |
//! | `period` | kernels that recur, where nothing is named |
//! | `assign` | which operations, and which times of a GPU, belong to which iteration |
//! | `sums` | the numbers of an iteration |
//! | `alone` | how long kernels were all that a GPU did |
//! | `differences` | what was different in slow iterations |
//! | `verdicts` | warm-up, outliers, and where the length of iterations changes |
//! | `gpu` | a GPU of a process, whose operations are divided |
//! | `lane` | all iterations of a rank on one GPU, as they were found |
//! | `part` | what was found of a file, in a Parquet file |
//! | `job` | what the ranks of a job have in common |
//! | `map` | ranks by iterations, for a picture |
//! | `tables`, `remarks` | the answer |
//!
//! Each file is measured alone, so that memory does not grow with the number of ranks; what comes of it, a [`Lane`] for each GPU of a process, needs no model.

mod alone;
mod assign;
mod differences;
mod gpu;
mod job;
mod lane;
mod map;
mod marker;
mod notes;
mod occurrences;
mod part;
mod period;
mod records;
mod sums;
mod tables;
mod verdicts;

use std::sync::{Arc, Mutex, PoisonError};

use crate::measure::{Measure, no_operation, notes};
use crate::table::Answer;
pub use assign::Assign;
pub use differences::Difference;
pub use lane::{Detail, Iteration, Lane, Layers};
pub use marker::MarkerKind;
pub use part::Part;
use records::Records;
use rsys_traces::model::{Batch, Kinds, Model};
pub use sums::{FIELDS, Field, Sums};
pub use tables::{answer, are_too_many};
pub use verdicts::Verdict;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The name of a range, mark, operator, function, call, kernel or collective that recurs once in each iteration; `None`: what recurs is found.
    pub marker: Option<String>,
    /// Which operations of GPUs belong to an iteration.
    pub assign: Assign,
}

/// The question, while the records of a file are read. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Iterations(Arc<Mutex<Records>>);

impl Measure for Iterations {
    fn needs(&self) -> Kinds {
        Kinds::ALL
    }

    fn take(&mut self, batch: &Batch) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.take(batch);
    }

    /// The answer of these files alone, with a marker that is found.
    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let options = Options::default();
        let lanes = self.find(model, &options);
        let mut answer = answer(&lanes, &options);
        if lanes.is_empty() {
            answer.notes.push(no_operation(model));
        }
        answer.notes.extend(notes(model));
        answer
    }
}

impl Iterations {
    /// The iterations of each GPU of each process, in the order of output. What was read is gone afterwards.
    #[must_use]
    pub fn find(&self, model: &Model, options: &Options) -> Vec<Lane> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gpu::lanes(std::mem::take(&mut records), model, options)
    }
}
