//! What is asked of traces, and traces of simulated jobs.

use std::path::{Path, PathBuf};

use rsys_analysis::advice::{advise, further_measures};
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::kernels::Kernels;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::gpu::sensors::Sensors;
use rsys_analysis::measure::gpu::streams::Streams;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::measure::host::calls::Calls;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::measure::host::functions::Functions;
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::measure::{Measure, of_summary};
use rsys_analysis::table::Answer;
use rsys_analysis::{answers, pass_counted, ranks};
use rsys_synthetic::Job;
use rsys_traces::read::BytesRead;

use super::Scratch;

/// All that advice on one process is made of.
pub fn advice_measures() -> Vec<(&'static str, Box<dyn Measure>)> {
    let mut measures: Vec<(&'static str, Box<dyn Measure>)> = vec![
        ("timeline", Box::<Timeline>::default()),
        ("gaps", Box::<Gaps>::default()),
        ("launch", Box::<Launch>::default()),
        ("copies", Box::<Copies>::default()),
        ("kernels", Box::<Kernels>::default()),
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

/// The answers to all questions that have a command, by their names. What advice alone asks has none, and so no schema.
pub fn asked(files: &[PathBuf]) -> Vec<(&'static str, Answer)> {
    let mut measures = of_summary();
    measures.push(("streams", Box::<Streams>::default()));
    let with_commands = measures.len();
    measures.extend(further_measures());
    let (names, mut measures): (Vec<_>, Vec<_>) = measures.into_iter().unzip();
    let (read, options) = (BytesRead::default(), Options::default());
    let model = pass_counted(files, &mut measures, &read, 1);
    let found = answers(&mut measures, &model, "run", 1);
    let mut named: Vec<_> = names.into_iter().zip(found).collect();
    let collectives = ranks::collectives(files, &read, 1).0;
    if files.len() > 1 {
        named.push(("collectives", collectives.clone()));
    }
    let advice = advise(&named, &profiling_cost(&model));
    named.truncate(with_commands);
    named.extend([
        ("advice", advice),
        ("overlap", ranks::overlap(files, &options, &read, 1).0),
        ("collectives", collectives),
    ]);
    let parts = |file: &Path| ranks::critical_path_parts(file, &options, &read, 1);
    let paths = ranks::critical_path_of(files, &[], 1, parts).0;
    named.push(("critical path", paths));
    named
}
