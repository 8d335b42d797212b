//! What is asked of traces, and traces of simulated jobs.

use std::path::PathBuf;

use rsys_analysis::advice::further_measures;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::calls::Calls;
use rsys_analysis::measure::copies::Copies;
use rsys_analysis::measure::functions::Functions;
use rsys_analysis::measure::gaps::Gaps;
use rsys_analysis::measure::sensors::Sensors;
use rsys_analysis::measure::timeline::Timeline;
use rsys_synthetic::Job;

use super::Scratch;

/// All that advice on one process is made of.
pub fn advice_measures() -> Vec<(&'static str, Box<dyn Measure>)> {
    let mut measures: Vec<(&'static str, Box<dyn Measure>)> = vec![
        ("timeline", Box::<Timeline>::default()),
        ("gaps", Box::<Gaps>::default()),
        ("copies", Box::<Copies>::default()),
        ("calls", Box::<Calls>::default()),
        ("functions", Box::<Functions>::default()),
        ("sensors", Box::<Sensors>::default()),
    ];
    measures.extend(further_measures());
    measures
}

/// Writes the traces of a job; returns them in the order of their names.
pub fn written(job: &Job, scratch: &Scratch) -> Vec<PathBuf> {
    let folder = scratch.write("root", b"").with_file_name("job");
    rsys_synthetic::write(job, &folder).unwrap();
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let files = files.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    files.sort();
    files
}
