//! Questions about ranks, for which the files of some of them are read a second time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::measure::gpu::timeline::Timeline;
use crate::measure::job::collectives;
use crate::measure::job::collectives::Collectives;
use crate::measure::job::critical;
use crate::measure::job::iterations;
use crate::measure::job::iterations::{Iterations, Lane, Options, Part};
use crate::measure::{Measure, no_operation, notes};
use crate::pass::pass_counted;
use crate::program::runs::runs;
use crate::table::Answer;
use rsys_traces::model::{Model, Process};
use rsys_traces::read::BytesRead;

/// Who made the others wait in collectives, and why; with the model of all files, which has processes and notices only. Each file is read alone, by one of
/// `jobs` threads. `read_bytes` counts the bytes of the first reading, for progress.
pub fn collectives(files: &[PathBuf], read_bytes: &BytesRead, jobs: usize) -> (Answer, Model) {
    let jobs_of_file = (jobs / files.len().max(1)).max(1);
    let (found, model) = compared(files, jobs, collectives::Job::default(), |file| {
        collectives_part(file, read_bytes, jobs_of_file)
    });
    (found.answer(&model), model)
}

/// What [`collectives()`] finds in one file.
#[must_use]
pub fn collectives_part(file: &Path, read_bytes: &BytesRead, jobs: usize) -> collectives::Part {
    let collectives = Collectives::default();
    let measures = &mut [Box::new(collectives.clone()) as Box<dyn Measure>];
    let model = pass_counted(&[file.to_path_buf()], measures, read_bytes, jobs);
    collectives.part(&model)
}

/// [`collectives()`] of what `of_file` finds in each file, put together in a job that is empty so far.
///
/// # Errors
/// When the file of the job cannot be read.
pub fn collectives_of(
    files: &[PathBuf],
    jobs: usize,
    job: collectives::Job,
    of_file: impl Fn(&Path) -> collectives::Part + Sync,
) -> io::Result<(Answer, Model)> {
    let (found, model) = compared(files, jobs, job, of_file);
    let answer = found.answer(&model);
    found.checked()?;
    Ok((answer, model))
}

/// The files of ranks that stand out, and of some others, are read once more.
fn compared(
    files: &[PathBuf],
    jobs: usize,
    job: collectives::Job,
    of_file: impl Fn(&Path) -> collectives::Part + Sync,
) -> (collectives::Found, Model) {
    each(files, jobs, |file| job.add(of_file(file)));
    let (mut found, model) = job.find();
    let read_again = |found: &mut collectives::Found, readings: Vec<collectives::SecondReading>| {
        for reading in readings {
            let measures = &mut [Box::new(reading.activity.clone()) as Box<dyn Measure>];
            let file = std::slice::from_ref(&reading.file);
            let of_file = pass_counted(file, measures, &BytesRead::default(), jobs);
            found.learn(&reading, &of_file);
        }
    };
    let readings = found.second_readings(&model);
    read_again(&mut found, readings);
    let readings = found.sensor_readings(&model);
    read_again(&mut found, readings);
    (found, model)
}

/// Of the traces of several runs those of one, by its number from 1 on; they are read for that.
///
/// # Errors
/// How many runs there are, if not so many; `None` if nothing tells them apart.
pub fn of_run(
    files: Vec<PathBuf>,
    number: usize,
    jobs: usize,
) -> Result<Vec<PathBuf>, Option<usize>> {
    let found: Mutex<Vec<(PathBuf, Vec<Process>)>> = Mutex::default();
    each(&files, jobs, |file| {
        let measures = &mut [Box::<Timeline>::default() as Box<dyn Measure>];
        let model = pass_counted(&[file.to_path_buf()], measures, &BytesRead::default(), 1);
        let mut all = found.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((file.to_path_buf(), model.processes));
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let processes = found.iter().flat_map(|(_, processes)| processes.clone());
    let runs = runs(&processes.collect::<Vec<_>>()).ok_or(None)?;
    let count = runs.iter().max().map_or(1, |last| last + 1);
    if number > count {
        return Err(Some(count));
    }
    let mut at = 0;
    found.retain(|(_, processes)| {
        let own = &runs[at..at + processes.len()];
        at += processes.len();
        own.first().copied().unwrap_or(0) + 1 == number
    });
    Ok(found.into_iter().map(|(file, _)| file).collect())
}

/// Does something with each file, on `jobs` threads.
pub fn each(files: &[PathBuf], jobs: usize, act: impl Fn(&Path) + Sync) {
    let next = AtomicUsize::new(0);
    let act_on_some = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(file);
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(files.len()) {
            scope.spawn(act_on_some);
        }
        act_on_some();
    });
}

/// How long the iterations of all ranks took, and what of that was what. Each file is read alone, by one of `jobs` threads, so that memory does not grow
/// with their number but for what the answer holds. The model has processes and notices only.
pub fn overlap(
    files: &[PathBuf],
    options: &Options,
    read_bytes: &BytesRead,
    jobs: usize,
) -> (Answer, Model) {
    let jobs_of_file = (jobs / files.len().max(1)).max(1);
    overlap_of(files, options, jobs, |file| {
        overlap_part(file, options, read_bytes, jobs_of_file)
    })
}

/// What [`overlap`] finds in one file.
#[must_use]
pub fn overlap_part(file: &Path, options: &Options, read_bytes: &BytesRead, jobs: usize) -> Part {
    let iterations = Iterations::default();
    let measures = &mut [Box::new(iterations.clone()) as Box<dyn Measure>];
    let model = pass_counted(&[file.to_path_buf()], measures, read_bytes, jobs);
    Part {
        lanes: iterations.find(&model, options),
        processes: model.processes,
        notices: model.notices,
    }
}

/// [`overlap`] of what `of_file` finds in each file. Where there are more iterations than the answer can list, no more is kept of each than 40 bytes.
pub fn overlap_of(
    files: &[PathBuf],
    options: &Options,
    jobs: usize,
    of_file: impl Fn(&Path) -> Part + Sync,
) -> (Answer, Model) {
    let found: Mutex<(Vec<Lane>, Model, usize)> = Mutex::default();
    each(files, jobs, |file| {
        let part = of_file(file);
        let mut all = found.lock().unwrap_or_else(PoisonError::into_inner);
        let (lanes, model, count) = &mut *all;
        let new = part.lanes.iter().map(|lane| lane.iterations.len());
        let (before, first) = (*count, lanes.len());
        *count += new.sum::<usize>();
        lanes.extend(part.lanes);
        model.processes.extend(part.processes);
        model.notices.extend(part.notices);
        if iterations::are_too_many(*count) {
            // Those that came before have none any more once there were too many.
            let first = if iterations::are_too_many(before) {
                first
            } else {
                0
            };
            let few = lanes[first..].iter_mut();
            few.for_each(|lane| lane.details = Vec::new());
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut lanes, mut model, _) = found;
    model
        .processes
        .sort_by(|one, other| one.order().cmp(&other.order()));
    lanes.sort_by(|one, other| one.order().cmp(&other.order()));
    let mut answer = iterations::answer(&lanes, options);
    if lanes.is_empty() {
        answer.notes.push(no_operation(&model));
    }
    answer.notes.extend(notes(&model));
    (answer, model)
}

/// What [`critical_path_of`] needs of one file, found in one reading.
#[must_use]
pub fn critical_path_parts(
    file: &Path,
    options: &Options,
    read_bytes: &BytesRead,
    jobs: usize,
) -> (Part, collectives::Part) {
    let (iterations, collectives) = (Iterations::default(), Collectives::default());
    let measures = &mut [
        Box::new(iterations.clone()) as Box<dyn Measure>,
        Box::new(collectives.clone()),
    ];
    let model = pass_counted(&[file.to_path_buf()], measures, read_bytes, jobs);
    let part = Part {
        lanes: iterations.find(&model, options),
        processes: model.processes.clone(),
        notices: model.notices.clone(),
    };
    (part, collectives.part(&model))
}

/// The critical paths of the iterations with these numbers, or of the median one and the slowest: of what `of_file` finds in each file. The files of ranks
/// that are on the paths are read once more.
pub fn critical_path_of(
    files: &[PathBuf],
    wanted: &[u64],
    jobs: usize,
    of_file: impl Fn(&Path) -> (Part, collectives::Part) + Sync,
) -> (Answer, Model) {
    let job = collectives::Job::default();
    let lanes: Mutex<Vec<(PathBuf, Lane)>> = Mutex::default();
    each(files, jobs, |file| {
        let (part, of_collectives) = of_file(file);
        job.add(of_collectives);
        let found = part.lanes.into_iter().map(|mut lane| {
            // Of a large job that would be most.
            lane.details = Vec::new();
            (file.to_path_buf(), lane)
        });
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.extend(found);
    });
    let mut lanes = lanes.into_inner().unwrap_or_else(PoisonError::into_inner);
    lanes.sort_by(|one, other| (one.1.order(), &one.0).cmp(&(other.1.order(), &other.0)));
    let (found, model) = job.find();
    let read_again = |file: &Path, measure| {
        let file = [file.to_path_buf()];
        pass_counted(&file, &mut [measure], &BytesRead::default(), jobs)
    };
    let mut answer = critical::answer(&lanes, &found, &model, wanted, &read_again);
    answer.notes.extend(notes(&model));
    (answer, model)
}
