//! Which tables belong to one process: `4711_kernel_trace.csv`, `4711_hip_api_trace.csv` and so on.

use std::path::{Path, PathBuf};

/// What stands at the end of the names of tables, in the order in which they are read: agents and calls before what those caused.
const TABLES: [&str; 15] = [
    "agent_info",
    "hip_api_trace",
    "hip_runtime_api_trace",
    "hip_compiler_api_trace",
    "hsa_api_trace",
    "rccl_api_trace",
    "marker_api_trace",
    "rocdecode_api_trace",
    "rocjpeg_api_trace",
    "rocshmem_api_trace",
    "memory_allocation_trace",
    "kernel_trace",
    "memory_copy_trace",
    "scratch_memory_trace",
    "counter_collection",
];

/// How tables may be packed.
const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// What stands in front of the name of a table, and which table it is.
fn split(path: &Path) -> Option<(&str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let packed = PACKED.iter().rev().find(|packed| name.ends_with(*packed))?;
    let name = name.strip_suffix(packed)?.strip_suffix(".csv")?;
    TABLES.iter().find_map(|table| {
        let prefix = name.strip_suffix(table)?;
        (prefix.is_empty() || prefix.ends_with('_')).then_some((prefix, *table))
    })
}

/// The tables of the process that a table belongs to, in the order in which they are read. A file with another name is alone.
pub(super) fn group(path: &Path) -> Vec<PathBuf> {
    let Some((prefix, _)) = split(path) else {
        return vec![path.to_path_buf()];
    };
    let of_table = |table: &&str| {
        let mut paths = PACKED
            .iter()
            .map(|packed| path.with_file_name(format!("{prefix}{table}.csv{packed}")));
        paths.find(|path| path.is_file())
    };
    let found: Vec<PathBuf> = TABLES.iter().filter_map(of_table).collect();
    match found.is_empty() {
        true => vec![path.to_path_buf()],
        false => found,
    }
}

/// The process id that a name begins with, as rocprofv3 writes it.
pub(super) fn pid(path: &Path) -> Option<u32> {
    let (prefix, _) = split(path)?;
    let words = prefix.trim_end_matches('_').rsplit(['_', '.', '-']);
    words.filter_map(|word| word.parse().ok()).next()
}

/// The other tables of the process that a table of rocprofv3 belongs to: who names one of them means all. None if it is no table.
#[must_use]
pub fn csv_companions(path: &Path) -> Vec<PathBuf> {
    match split(path) {
        None => Vec::new(),
        Some(_) => {
            let mut others = group(path);
            others.retain(|other| other != path);
            others
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_process() {
        for (name, expected) in [
            ("4711_kernel_trace.csv", Some(("4711_", "kernel_trace"))),
            (
                "out_4711_hip_api_trace.csv.gz",
                Some(("out_4711_", "hip_api_trace")),
            ),
            ("kernel_trace.csv", Some(("", "kernel_trace"))),
            ("mykernel_trace.csv", None),
            ("4711_kernel_stats.csv", None),
            ("4711_kernel_trace.json", None),
        ] {
            assert_eq!(split(Path::new(name)), expected, "{name}");
        }
        assert_eq!(pid(Path::new("a/out_4711_hip_api_trace.csv")), Some(4711));
        assert_eq!(pid(Path::new("kernel_trace.csv")), None);
    }
}
