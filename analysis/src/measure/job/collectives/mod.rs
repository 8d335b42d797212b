//! Collectives over ranks: who made the others wait, by how much, and why.
//!
//! [`Collectives`] joins calls and kernels of each rank (`joining`). What that finds in a file is a [`Part`] (`part`: kept in a Parquet file), and a [`Job`] puts
//! parts together (`gathering`). When all was read, [`Job::find`] matches ranks by communicator and number (`study`) on one time axis (`clocks`). Ranks that stand out (`stragglers`) are looked at again, beside some that do not: their
//! files are read once more ([`Found::looks`], `doings`), and what they did more of is the cause (`causes`). What the job would gain without them is found by
//! going through its collectives once more (`replay`).

mod bandwidths;
mod causes;
mod clocks;
mod doings;
mod gathering;
mod joining;
mod map;
mod meetings;
mod part;
mod proxies;
mod readings;
mod recordings;
mod records;
mod remarks;
mod replay;
mod stragglers;
mod study;
mod tables;
mod waited;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub use doings::{Doings, Look};
pub use gathering::Job;
pub(crate) use meetings::{Axis, Meetings};
pub use part::Part;
pub(crate) use stragglers::UNJUDGED;
pub(crate) use tables::TOGETHER;

use crate::containers::packed_rows::RowFile;
use crate::measure::Measure;
use crate::table::Answer;
use gathering::Gathering;
use joining::Joining;
use records::Study;
use rsys_traces::model::{Batch, Kinds, Model};
use stragglers::{Straggler, stragglers};
use waited::Waited;

/// The question, while records are read. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Collectives(Arc<Mutex<Joining>>);

impl Measure for Collectives {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            host: true,
            marks: true,
            proxies: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        joining.take(batch);
    }

    /// The answer without causes, for which files have to be read again.
    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.find(model).answer(model)
    }
}

impl Collectives {
    /// Matches what was read, which is gone afterwards.
    #[must_use]
    pub fn find(&self, model: &Model) -> Found {
        Found::of(Gathering::of(self.take_joining(), model), model)
    }

    fn take_joining(&self) -> Joining {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut joining)
    }
}

/// What was found of all ranks.
pub struct Found {
    study: Study,
    stragglers: Vec<Straggler>,
    waited: Waited,
    file: Option<Arc<RowFile>>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found")
            .field("stragglers", &self.stragglers.len())
            .finish_non_exhaustive()
    }
}

impl Found {
    fn of(gathering: Gathering, model: &Model) -> Self {
        let file = gathering.file.clone();
        let waited = Waited::of(&gathering, model);
        let study = Study::new(gathering, model);
        let stragglers = stragglers(&study, model);
        Self {
            study,
            stragglers,
            waited,
            file,
        }
    }

    /// Whether all that was found counts: it does, unless the file of the job ([`Job::in_file`]) could not be read at some time so far.
    ///
    /// # Errors
    /// When it could not.
    pub fn checked(&self) -> std::io::Result<()> {
        let failure = self.file.as_ref().and_then(|file| file.failure());
        failure.map_or(Ok(()), Err)
    }

    /// The files that have to be read again to say why ranks were late.
    #[must_use]
    pub fn looks(&self, model: &Model) -> Vec<Look> {
        let mut looks = Vec::new();
        for (straggler, of) in self.stragglers.iter().enumerate() {
            let mut files: BTreeMap<PathBuf, Doings> = BTreeMap::new();
            for (process, windows) in of.windows(&self.study) {
                let file = &model.process(process).file;
                // Processes of a file are in the model in the order in which the file has them.
                let before = model.processes[..process.index()].iter();
                let place = before.filter(|one| one.file == *file).count();
                let doings = files.entry(PathBuf::from(file)).or_default();
                doings.ask(place, process, windows);
            }
            looks.extend(files.into_iter().map(|(file, doings)| Look {
                file,
                doings,
                straggler,
            }));
        }
        looks
    }

    /// The files whose sensors may say why GPUs of ranks were slow, where their own traces have none; to be asked for when the others were learnt.
    #[must_use]
    pub fn sensor_looks(&self, model: &Model) -> Vec<Look> {
        let mut looks = Vec::new();
        for (straggler, of) in self.stragglers.iter().enumerate() {
            let mut files: BTreeMap<PathBuf, Doings> = BTreeMap::new();
            for (process, windows) in of.without_clocks(&self.study) {
                for file in self.study.beside(process, model) {
                    let doings = files.entry(PathBuf::from(file)).or_default();
                    doings.ask_sensors(process, windows.clone());
                }
            }
            looks.extend(files.into_iter().map(|(file, doings)| Look {
                file,
                doings,
                straggler,
            }));
        }
        looks
    }

    /// Takes in what a file says when it is read again; `model` is that of this file alone.
    pub fn learn(&mut self, look: &Look, model: &Model) {
        if let Some(straggler) = self.stragglers.get_mut(look.straggler) {
            straggler.learn(look.doings.found(model));
        }
    }

    /// How often an operation of a rank was looked at, all together: what the comparison takes grows as this does.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.study.visited.get()
    }

    /// The answer, with the causes of what was looked at.
    #[must_use]
    pub fn answer(&self, model: &Model) -> Answer {
        tables::answer(&self.study, &self.stragglers, &self.waited, model)
    }
}
