//! Presets: named sets of values for common questions.

use crate::table::{self, Setting};

/// A named set of values.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Other names, among them the original's.
    pub aliases: &'static [&'static str],
    /// What it is for, in one line without a full stop.
    pub summary: &'static str,
    /// Why its values are what they are, in sentences.
    pub details: &'static str,
    /// Settings and their values, written as a user would.
    pub values: &'static [(&'static str, &'static str)],
}

/// All presets.
#[rustfmt::skip]
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "balanced",
        aliases: &["default"],
        summary: "A first look at any program: stacks, GPU activity, sensors and a summary",
        details: "100 samples per second are enough for a picture of the whole run and cost next to nothing.",
        values: &[("SAMPLING_FREQ", "100"), ("PROFILE", "true"), ("INCLUDE_BACKENDS", "rocm rocm-smi")],
    },
    Preset {
        name: "cpu",
        aliases: &["profile-only"],
        summary: "Where the CPU time goes, and nothing else",
        details: "Stacks and a summary; every other source of data is switched off.",
        values: &[("SAMPLING_FREQ", "300"), ("PROFILE", "true"), ("EXCLUDE_BACKENDS", "all")],
    },
    Preset {
        name: "detailed",
        aliases: &[],
        summary: "As much as there is, for a short program",
        details: "1000 samples per second, what threads wait for, all of ROCm with the HSA calls below it, the interfaces of parallel \
                  programs, and a summary.",
        values: &[
            ("SAMPLING_FREQ", "1000"), ("SAMPLING_REALTIME", "true"), ("SAMPLING_REALTIME_FREQ", "300"), ("PROFILE", "true"),
            ("INCLUDE_BACKENDS", "rocm hsa rocm-smi rcclp mpip ompt kokkosp"),
        ],
    },
    Preset {
        name: "waiting",
        aliases: &["latency"],
        summary: "What threads wait for: locks, files, sockets, other threads",
        details: "Blocked threads are sampled 100 times per second beside the samples of CPU time.",
        values: &[("SAMPLING_FREQ", "100"), ("SAMPLING_REALTIME", "true"), ("SAMPLING_REALTIME_FREQ", "100")],
    },
    Preset {
        name: "ml",
        aliases: &["workload-trace", "pytorch", "training"],
        summary: "Training and inference: Python stacks, kernels, RCCL and markers",
        details: "200 samples per second with the Python functions in them, and no frames of the interpreter itself. Data loaders and \
                  other children are profiled too.",
        values: &[
            ("SAMPLING_FREQ", "200"), ("PYTHON", "on"), ("PYTHON_NATIVE", "false"), ("FOLLOW", "all"),
            ("INCLUDE_BACKENDS", "rocm roctx rcclp rocm-smi"),
        ],
    },
    Preset {
        name: "hpc",
        aliases: &["trace-hpc"],
        summary: "Parallel programs: MPI, OpenMP, Kokkos and the GPU",
        details: "100 samples per second for each thread, and a file for each rank.",
        values: &[("SAMPLING_FREQ", "100"), ("INCLUDE_BACKENDS", "rocm rocm-smi mpip ompt kokkosp rcclp")],
    },
    Preset {
        name: "mpi",
        aliases: &["profile-mpi"],
        summary: "MPI calls and a summary for each rank",
        details: "No GPU activity: little data from many ranks.",
        values: &[("SAMPLING_FREQ", "50"), ("PROFILE", "true"), ("INCLUDE_BACKENDS", "mpip"), ("EXCLUDE_BACKENDS", "rocm rocm-smi")],
    },
    Preset {
        name: "openmp",
        aliases: &["trace-openmp"],
        summary: "OpenMP regions with the stacks of their threads",
        details: "300 samples per second, and offloaded regions with the GPU's activity.",
        values: &[("SAMPLING_FREQ", "300"), ("INCLUDE_BACKENDS", "ompt rocm")],
    },
    Preset {
        name: "trace-gpu",
        aliases: &["gpu", "runtime-trace", "trace-unified-memory"],
        summary: "What the GPU does: kernels, copies, HIP calls, sensors",
        details: "Few samples of the CPU, for the stacks that launch the work.",
        values: &[("SAMPLING_FREQ", "50"), ("INCLUDE_BACKENDS", "roctracer roctx rocm-smi")],
    },
    Preset {
        name: "sys-trace",
        aliases: &["system"],
        summary: "The whole of ROCm, down to the HSA calls",
        details: "For questions about the runtime itself; more data than trace-gpu.",
        values: &[("SAMPLING_FREQ", "100"), ("INCLUDE_BACKENDS", "rocm hsa rocm-smi")],
    },
    Preset {
        name: "counters",
        aliases: &["trace-hw-counters"],
        summary: "GPU hardware counters for each kernel",
        details: "Kernels run one after another while their counters are read. Name the counters with -G.",
        values: &[("SAMPLING_FREQ", "50"), ("INCLUDE_BACKENDS", "rocprofiler")],
    },
];

/// The preset with that name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    let name = name.trim().to_ascii_lowercase().replace('_', "-");
    PRESETS
        .iter()
        .find(|preset| preset.name == name || preset.aliases.contains(&name.as_str()))
}

/// The preset that `name` was probably meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let names = PRESETS
        .iter()
        .flat_map(|preset| std::iter::once(preset.name).chain(preset.aliases.iter().copied()));
    crate::nearest::nearest(&name.to_ascii_lowercase(), names)
}

/// A line for each preset.
#[must_use]
pub fn list() -> String {
    let mut text = String::new();
    for preset in PRESETS {
        text.push_str(&format!("  {:<12} {}\n", preset.name, preset.summary));
        if !preset.aliases.is_empty() {
            text.push_str(&format!(
                "  {:<12} also {}\n",
                "",
                preset.aliases.join(", ")
            ));
        }
    }
    text
}

impl Preset {
    /// What it is for and what it sets, in lines.
    #[must_use]
    pub fn explanation(&self) -> String {
        let mut text = format!("{}: {}.\n", self.name, self.summary);
        text.push_str(&format!("{}\n\n", self.details));
        for (name, value) in self.values {
            let option = table::find(name).and_then(|setting: &Setting| setting.option.as_ref());
            let option = option.map_or_else(String::new, |option| format!("  (--{})", option.long));
            text.push_str(&format!("  {name} = {value}{option}\n"));
        }
        text.push_str(
            "\nOptions of your own win over a preset; a preset wins over environment and files.\n",
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Settings};

    #[test]
    fn presets_are_sound() {
        let mut names = std::collections::BTreeSet::new();
        for preset in PRESETS {
            for name in std::iter::once(&preset.name).chain(preset.aliases) {
                assert!(names.insert(*name), "{name} twice");
                assert_eq!(find(name).map(|found| found.name), Some(preset.name));
            }
            let mut settings = Settings::defaults();
            for (name, value) in preset.values {
                assert!(table::find(name).is_some(), "{name}");
                settings
                    .set(name, value, Origin::Default)
                    .expect(preset.name);
            }
            assert!(preset.explanation().contains(preset.summary));
            assert!(!preset.summary.ends_with('.') && preset.details.ends_with('.'));
        }
        assert_eq!(find("TRACE_HPC").map(|preset| preset.name), Some("hpc"));
        assert_eq!(nearest("balancd"), Some("balanced"));
        assert!(list().contains("also trace-hpc"));
    }
}
