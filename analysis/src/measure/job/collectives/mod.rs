//! Collectives over ranks: who made the others wait, by how much, and why.
//!
//! | folder | holds |
//! |---|---|
//! | `read` | what one rank read: calls joined with their kernels, kept in a Parquet file as a [`Part`]; and what a late rank did, of a second reading |
//! | `job` | what the job makes of it: a [`Job`] puts parts together, operations are matched over ranks and judged, and late ranks get a cause |
//! | `answer` | the tables |

mod answer;
mod job;
mod read;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use answer::TOGETHER;
pub use job::found::Found;
pub use job::gathering::Job;
pub(crate) use job::last_arrivals::{Axis, LastArrivals};
pub(crate) use job::stragglers::UNJUDGED;
pub use read::activity::{IntervalActivity, SecondReading};
pub use read::part::Part;

use crate::measure::Measure;
use crate::table::Answer;
use read::joining::Joining;
use rsys_traces::model::{Batch, Kinds, Model};

/// The question, while records are read. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Collectives(Arc<Mutex<Joining>>);

impl Measure for Collectives {
    fn needs(&self) -> Kinds {
        Kinds {
            marks: true,
            proxies: true,
            ..Kinds::GPU_AND_HOST
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        joining.take(batch);
    }

    /// The answer without causes, for which files have to be read again.
    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let job = Job::default();
        job.add(self.part(model));
        let (found, model) = job.find();
        found.answer(&model)
    }
}

impl Collectives {
    /// What was read, of files of which `model` is; it is gone afterwards.
    pub(crate) fn part(&self, model: &Model) -> Part {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Part::of(std::mem::take(&mut joining), model)
    }
}
