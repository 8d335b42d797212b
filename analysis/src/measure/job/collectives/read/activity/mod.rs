//! What a rank did in some stretches of time: on its GPU, on its threads, and what its sensors said.
//!
//! The stretches are those before late arrivals, so of a long run little is kept. They are known only when all ranks were compared, and the files
//! of few ranks are read again for this. Sensors may be in the trace of another process of the machine, such as the shell that started the ranks: then only
//! these are read from there.

mod process;
mod sensors;
mod summary;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use summary::{COMM, COMPUTE, COPY, Copied, IDLE, RankActivity};

use crate::containers::sets::Union;
use crate::measure::Measure;
use crate::measure::gpu::sensors::sensor;
use crate::table::Answer;
use process::ProcessActivity;
use rsys_traces::model::entry;
use rsys_traces::model::{Batch, HostKind, Kinds, Model, ProcessId};
use sensors::Readings;

/// A file that has to be read again, and what for.
#[derive(Debug)]
pub struct SecondReading {
    /// The file.
    pub file: PathBuf,
    /// What it is read by.
    pub activity: IntervalActivity,
    /// Which of the ranks that were late it is read for.
    pub(crate) straggler: usize,
}

/// What ranks did in some stretches of time, while a file is read. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct IntervalActivity(Arc<Mutex<FileActivity>>);

/// What is gathered of a file.
#[derive(Debug, Default)]
struct FileActivity {
    processes: Vec<ProcessActivity>,
    /// What sensors said, for processes that may be of other files.
    readings: Vec<(ProcessId, Readings)>,
}

impl IntervalActivity {
    /// Asks about a process of the file: its index in the file, and when.
    pub(crate) fn select(&self, place: usize, id: ProcessId, windows: Vec<(u64, u64)>) {
        let windows: Union = windows.into_iter().collect();
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = Readings::within(windows.intervals().to_vec());
        file.readings.push((id, readings));
        let process = entry(&mut file.processes, place);
        process.id = Some(id);
        process.windows = windows;
    }

    /// Asks what the sensors in the file said at some times in which a process of another file worked.
    pub(crate) fn select_sensors(&self, id: ProcessId, mut windows: Vec<(u64, u64)>) {
        windows.sort_unstable();
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.readings.push((id, Readings::within(windows)));
    }

    /// What was found, by the ids of the model of all files; `model` is that of the file.
    pub(crate) fn found(&self, model: &Model) -> Vec<(ProcessId, RankActivity)> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let FileActivity {
            processes,
            readings,
        } = &mut *file;
        let mut found: BTreeMap<ProcessId, RankActivity> = BTreeMap::new();
        for (place, process) in processes.iter_mut().enumerate() {
            if let Some(id) = process.id {
                found.insert(id, process.summary(ProcessId::new(place), model));
            }
        }
        for (id, readings) in readings {
            let activity = found.entry(*id).or_default();
            for (counter, mean) in readings.means() {
                if let Some((gpu, None, name, unit)) = sensor(counter, model) {
                    activity.sensors.insert((gpu, name, unit), mean);
                }
            }
        }
        found.into_iter().collect()
    }
}

impl Measure for IntervalActivity {
    fn needs(&self) -> Kinds {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match file.processes.is_empty() {
            true => Kinds {
                counters: true,
                ..Kinds::default()
            },
            false => Kinds {
                marks: false,
                ..Kinds::ALL
            },
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let FileActivity {
            processes,
            readings,
        } = &mut *file;
        for record in &batch.gpu {
            if let Some(process) = selected(processes, record.process) {
                process.operation(record);
            }
        }
        for slice in &batch.host {
            if let Some(process) = selected(processes, slice.process) {
                match slice.kind {
                    HostKind::Runnable => process.could_run(slice),
                    _ => process.slice(slice),
                }
            }
        }
        for sample in &batch.samples {
            if let Some(process) = selected(processes, sample.process) {
                process.sample(sample);
            }
        }
        // Those that were seen from outside are samples as well.
        for wait in batch.lock_waits.iter().filter(|one| !one.is_sampled) {
            if let Some(process) = selected(processes, wait.process) {
                process.lock_wait(wait);
            }
        }
        for (_, readings) in readings {
            readings.take(&batch.counters);
        }
    }

    fn answer(&mut self, _model: &Model, _label: &str) -> Answer {
        Answer::default()
    }
}

fn selected(processes: &mut [ProcessActivity], id: ProcessId) -> Option<&mut ProcessActivity> {
    let process = processes.get_mut(id.index())?;
    process.id.map(|_| process)
}

#[cfg(test)]
mod tests;
