//! The runs of a side, and what of their answers is compared.

use std::collections::BTreeMap;

use super::names::without_threads;
use super::statistics::{Estimate, Unit};
use crate::measure::Measure;
use crate::measure::gpu::gaps::Gaps;
use crate::measure::gpu::launch::Launch;
use crate::measure::gpu::memory::Memory;
use crate::measure::gpu::timeline::Timeline;
use crate::measure::host::calls::Calls;
use crate::measure::host::functions::Functions;
use crate::measure::host::process_lifetimes::ProcessLifetimes;
use crate::measure::pictures::spread::{Spread, Stretch};
use crate::table::Answer;
use crate::table::view::{View, rows};
use rsys_traces::model::Model;

/// From so many runs on, those tell how much is chance.
const REPETITIONS_MIN: usize = 3;

/// The CPU time of a run.
const CPU: &str = "CPU";

/// What is asked of a run, under the names of the questions; `spread` is shared with what is asked.
#[must_use]
pub fn measures(spread: &Spread) -> Vec<(&'static str, Box<dyn Measure>)> {
    vec![
        ("timeline", Box::<Timeline>::default()),
        ("gaps", Box::<Gaps>::default()),
        ("launch", Box::<Launch>::default()),
        ("calls", Box::<Calls>::default()),
        ("functions", Box::<Functions>::default()),
        ("memory", Box::<Memory>::default()),
        ("lives", Box::<ProcessLifetimes>::default()),
        ("spread", Box::new(spread.clone())),
    ]
}

/// What is known of a run.
#[derive(Debug)]
pub struct Run {
    answers: Vec<(&'static str, Answer)>,
    kernels: BTreeMap<String, Vec<Stretch>>,
}

impl Run {
    /// A run by the answers to [`measures`], of which `spread` has read the same.
    #[must_use]
    pub fn new(answers: Vec<(&'static str, Answer)>, spread: &Spread, model: &Model) -> Self {
        Self {
            answers,
            kernels: spread.kernels(model),
        }
    }

    fn answer(&self, question: &str) -> Option<&Answer> {
        let found = self.answers.iter().find(|(name, _)| *name == question);
        found.map(|(_, answer)| answer)
    }

    fn rows(&self, question: &str, table: &str) -> Vec<View<'_>> {
        rows(self.answer(question), table)
    }

    /// What is wrong with its files.
    pub(super) fn notes(&self) -> impl Iterator<Item = &String> {
        self.answer("timeline")
            .into_iter()
            .flat_map(|answer| &answer.notes)
    }
}

/// One side of a comparison: runs of the same program.
#[derive(Debug)]
pub struct Side {
    /// What it is called.
    pub label: String,
    /// Its runs, one at least.
    pub runs: Vec<Run>,
}

/// A kernel of a side.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Launches in a run, on average.
    pub count: f64,
    /// Nanoseconds in a run, on average.
    pub total: f64,
    /// Its mean duration in nanoseconds.
    pub mean: Estimate,
}

impl Side {
    pub(super) fn has_repetitions(&self) -> bool {
        self.runs.len() >= REPETITIONS_MIN
    }

    /// Its kernels by name.
    pub(super) fn kernels(&self) -> BTreeMap<String, Kernel> {
        let mut stretches: BTreeMap<&String, Vec<Vec<Unit>>> = BTreeMap::new();
        for run in &self.runs {
            for (name, of_run) in &run.kernels {
                let units = of_run.iter().map(|&stretch| stretch.into()).collect();
                stretches.entry(name).or_default().push(units);
            }
        }
        let runs = self.runs.len() as f64;
        let kernels = stretches.into_iter().map(|(name, of_runs)| {
            let sums = of_runs.iter().map(|units: &Vec<Unit>| Unit {
                count: units.iter().map(|unit| unit.count).sum(),
                sum: units.iter().map(|unit| unit.sum).sum(),
            });
            let sums: Vec<Unit> = sums.collect();
            let kernel = Kernel {
                count: sums.iter().map(|unit| unit.count).sum::<f64>() / runs,
                total: sums.iter().map(|unit| unit.sum).sum::<f64>() / runs,
                mean: match self.has_repetitions() {
                    true => Estimate::of_units(sums),
                    false => Estimate::of_units(of_runs.concat()),
                },
            };
            (name.clone(), kernel)
        });
        kernels.collect()
    }

    /// Values that each run has one of: 0 where it lacks one.
    fn of_runs(&self, values: impl Fn(&Run) -> Vec<(String, f64)>) -> BTreeMap<String, Estimate> {
        let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (place, run) in self.runs.iter().enumerate() {
            for (name, value) in values(run) {
                let of_name = sums
                    .entry(name)
                    .or_insert_with(|| vec![0.0; self.runs.len()]);
                of_name[place] += value;
            }
        }
        let estimates = sums.into_iter();
        estimates
            .map(|(name, values)| (name, Estimate::of_runs(&values)))
            .collect()
    }

    /// How many GPUs a run used, on average; one of several processes counts for each.
    pub(super) fn gpus(&self) -> f64 {
        let counts = self
            .runs
            .iter()
            .map(|run| run.rows("timeline", "devices").len());
        counts.sum::<usize>() as f64 / self.runs.len() as f64
    }

    /// Where the time of GPUs and processors went.
    pub(super) fn times(&self) -> BTreeMap<String, Estimate> {
        const KEYS: [(&str, &str); 6] = [
            ("total_ns", "GPUs, from first to last operation"),
            ("computation_ns", "computation"),
            ("total_comm_ns", "communication"),
            ("exposed_comm_ns", "exposed communication"),
            ("exposed_memcpy_ns", "exposed copies"),
            ("idle_ns", "idle"),
        ];
        let mut times = self.of_runs(|run| {
            let devices = run.rows("timeline", "devices");
            let mut times: Vec<(String, f64)> = devices
                .iter()
                .flat_map(|device| {
                    KEYS.map(|(key, name)| (name.to_owned(), device.count(key) as f64))
                })
                .collect();
            for process in run.rows("functions", "processes") {
                times.push((CPU.to_owned(), process.count("cpu_ns") as f64));
            }
            // Each host has a clock of its own.
            let mut hosts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            for life in run.rows("lives", "lives") {
                let (start_ns, end_ns) = (life.count("start_ns"), life.count("end_ns"));
                let of_host = hosts.entry(life.text("host").to_owned());
                let span = of_host.or_insert((start_ns, end_ns));
                *span = (span.0.min(start_ns), span.1.max(end_ns));
            }
            let wall_ns = hosts.values().map(|(first, last)| last - first).max();
            times.extend(wall_ns.map(|ns| ("wall".to_owned(), ns as f64)));
            times
        });
        if !self.has_repetitions()
            && let Some(cpu) = times.get_mut(CPU)
        {
            let processes = self
                .runs
                .iter()
                .flat_map(|run| run.rows("functions", "processes"));
            let samples = processes.map(|process| process.count("samples")).sum();
            *cpu = Estimate::of_samples(cpu.value, samples);
        }
        times
    }

    /// Idle time of GPUs by cause and place.
    pub(super) fn idle(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let devices = run.rows("gaps", "devices");
            let causes = devices.iter().flat_map(|device| device.below("causes"));
            let named = causes.map(|cause| {
                let name = match cause.text("where") {
                    "" => cause.text("text").to_owned(),
                    place => format!("{}: {}", cause.text("text"), without_threads(place)),
                };
                (name, cause.count("idle_ns") as f64)
            });
            named.collect()
        })
    }

    /// GPU time of kernels by operator.
    pub(super) fn operators(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let operators = run.rows("launch", "gpu_operators").into_iter();
            let known = operators.filter(|row| !row.text("framework").is_empty());
            known
                .map(|row| {
                    (
                        row.text("operator").to_owned(),
                        row.count("exclusive_ns") as f64,
                    )
                })
                .collect()
        })
    }

    /// Time in calls of GPU runtimes, RCCL and MPI, by function.
    pub(super) fn calls(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let calls = run.rows("calls", "calls").into_iter();
            let times = calls.map(|row| {
                let ns = row.count("total_ns") as f64;
                (row.text("name").to_owned(), ns)
            });
            times.collect()
        })
    }

    /// Time of operators and functions that were recorded from begin to end, their own.
    pub(super) fn recorded(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let recorded = run.rows("functions", "recorded").into_iter();
            let times = recorded.map(|row| {
                let ns = row.count("self_ns") as f64;
                (row.text("function").to_owned(), ns)
            });
            times.collect()
        })
    }

    /// What threads waited for, by the place in the program.
    pub(super) fn waits(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let waits = run.rows("functions", "waits").into_iter();
            let times = waits.map(|row| {
                let what = row.text("waited_for");
                let name = format!("{what} by {}", row.text("function"));
                (name, row.count("wait_ns") as f64)
            });
            times.collect()
        })
    }

    /// Memory at its peak by kind.
    pub(super) fn memory(&self) -> BTreeMap<String, Estimate> {
        self.of_runs(|run| {
            let memory = run.rows("memory", "memory").into_iter();
            memory
                .map(|row| {
                    (
                        row.text("memory").to_owned(),
                        row.count("peak_bytes") as f64,
                    )
                })
                .collect()
        })
    }

    /// CPU time of functions, their own.
    pub(super) fn functions(&self) -> BTreeMap<String, Estimate> {
        let name = |row: &View<'_>| {
            let module = row.text("module");
            // Functions of Python bear their file.
            let has_file = row.text("function").ends_with(')');
            match module.rsplit('/').next().unwrap_or(module) {
                _ if has_file => row.text("function").to_owned(),
                "" => row.text("function").to_owned(),
                module => format!("{} ({module})", row.text("function")),
            }
        };
        if self.has_repetitions() {
            return self.of_runs(|run| {
                let functions = run.rows("functions", "functions").into_iter();
                let own = functions.filter(|row| row.count("samples") > 0);
                own.map(|row| (name(&row), row.count("self_ns") as f64))
                    .collect()
            });
        }
        let mut sums: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        for row in self
            .runs
            .iter()
            .flat_map(|run| run.rows("functions", "functions"))
        {
            let samples = row.count("samples");
            if samples > 0 {
                let sum = sums.entry(name(&row)).or_default();
                sum.0 += row.count("self_ns") as f64;
                sum.1 += samples;
            }
        }
        let runs = self.runs.len() as f64;
        let estimates = sums.into_iter();
        estimates
            .map(|(name, (ns, samples))| (name, Estimate::of_samples(ns / runs, samples)))
            .collect()
    }

    /// The part of the computation during which there was communication, pooled over GPUs and runs.
    pub(super) fn overlap_ratio(&self) -> Option<f64> {
        let devices = || {
            self.runs
                .iter()
                .flat_map(|run| run.rows("timeline", "devices"))
        };
        let sum = |key: &str| devices().map(|device| device.count(key)).sum::<u64>() as f64;
        let computation_ns = sum("computation_ns");
        (computation_ns > 0.0).then(|| sum("comm_overlapped_by_compute_ns") / computation_ns)
    }
}
