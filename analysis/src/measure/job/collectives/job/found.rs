//! What is found of all ranks, and which files have to be read again to say why some were late.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::gathering::{Gathering, Job};
use super::proxy_waits::ProxyWaits;
use super::records::Matching;
use super::stragglers::{Straggler, stragglers};
use crate::containers::packed_rows::RowFile;
use crate::measure::job::collectives::read::activity::{IntervalActivity, SecondReading};
use rsys_traces::model::Model;

/// What is read of each file.
type Files = BTreeMap<PathBuf, IntervalActivity>;

/// What was found of all ranks.
#[derive(Debug)]
pub struct Found {
    pub(crate) matching: Matching,
    pub(crate) stragglers: Vec<Straggler>,
    pub(crate) proxy_waits: ProxyWaits,
    file: Option<Arc<RowFile>>,
}

impl Found {
    pub(crate) fn of(gathering: Gathering, model: &Model) -> Self {
        let file = gathering.file.clone();
        let proxy_waits = ProxyWaits::of(&gathering, model);
        let matching = Matching::new(gathering, model);
        let stragglers = stragglers(&matching, model);
        Self {
            matching,
            stragglers,
            proxy_waits,
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
    pub fn second_readings(&self, model: &Model) -> Vec<SecondReading> {
        self.readings(|straggler, files| {
            for (process, windows) in straggler.windows(&self.matching) {
                let file = &model.process(process).file;
                // Processes of a file are in the model in the order in which the file has them.
                let before = model.processes[..process.index()].iter();
                let place = before.filter(|one| one.file == *file).count();
                let activity = files.entry(PathBuf::from(file)).or_default();
                activity.select(place, process, windows);
            }
        })
    }

    /// The files whose sensors may say why GPUs of ranks were slow, where their own traces have none; to be asked for when the others were learnt.
    #[must_use]
    pub fn sensor_readings(&self, model: &Model) -> Vec<SecondReading> {
        self.readings(|straggler, files| {
            for (process, windows) in straggler.without_clocks(&self.matching) {
                for file in self.matching.beside(process, model) {
                    let activity = files.entry(PathBuf::from(file)).or_default();
                    activity.select_sensors(process, windows.clone());
                }
            }
        })
    }

    /// The files that each straggler needs.
    fn readings(&self, files_of: impl Fn(&Straggler, &mut Files)) -> Vec<SecondReading> {
        let of_straggler = |(straggler, of): (usize, &Straggler)| {
            let mut files = Files::new();
            files_of(of, &mut files);
            let files = files.into_iter();
            files.map(move |(file, activity)| SecondReading {
                file,
                activity,
                straggler,
            })
        };
        self.stragglers
            .iter()
            .enumerate()
            .flat_map(of_straggler)
            .collect()
    }

    /// Takes in what a file says when it is read again; `model` is that of this file alone.
    pub fn learn(&mut self, reading: &SecondReading, model: &Model) {
        if let Some(straggler) = self.stragglers.get_mut(reading.straggler) {
            straggler.learn(reading.activity.found(model));
        }
    }

    /// How often an operation of a rank was read, all together: what the comparison takes grows as this does.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.matching.visited.get()
    }
}

impl Job {
    /// All files were added: what is found of them, and their processes.
    #[must_use]
    pub fn find(self) -> (Found, Model) {
        let (gathering, model) = self.into_gathered();
        (Found::of(gathering, &model), model)
    }
}
