//! Files that are known and not read: what to give instead.

use std::path::Path;

/// Bytes at the begin of a file, where something is looked for.
fn has(start: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(start, part).is_some()
}

/// What a file is that cannot be read, and what to give instead; `None` if it is nothing that is known.
pub(super) fn what_it_is(path: &Path, start: &[u8]) -> Option<&'static str> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.as_deref().unwrap_or_default();
    let is_json = matches!(start.trim_ascii_start().first(), Some(b'{'));
    Some(match () {
        () if start.get(257..262) == Some(b"ustar") => {
            "an archive: unpack it (tar -xf) and give the traces in it"
        }
        () if name.ends_with(".nsys-rep") || name.ends_with(".qdrep") => {
            "a report of Nsight Systems: give the database that `nsys export --type sqlite` makes of it"
        }
        () if is_json
            && has(start, b"\"nodes\"")
            && has(start, b"\"schema\"")
            && !has(start, b"traceEvents") =>
        {
            "an execution trace of PyTorch (Chakra's input), which has no times of GPUs: give the trace that PyTorch's profiler writes of the same run"
        }
        () if has(start, b"\"TotalDurationNs\"") || has(start, b"TotalDurationNs,AverageNs") => {
            "a table of sums (rocprofv3 --stats, rocprof --stats): give the *_kernel_trace.csv, *_results.json or *_results.db of the same run"
        }
        () if name.starts_with("pmc_perf") || name == "sysinfo.csv" => {
            "a table of rocprof-compute, which has counters of kernels and no times: give a trace of rocprofv3 of the same program"
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names_or_their_begin() {
        for (name, start, word) in [
            (
                "a.json",
                r#"{"schema": "1.0.2-chakra", "pid": 1, "nodes": [{"id": 1}]}"#,
                "execution trace",
            ),
            (
                "t_stats.csv",
                "\"Name\",\"Calls\",\"TotalDurationNs\"\n",
                "table of sums",
            ),
            ("run.nsys-rep", "", "Nsight Systems"),
            (
                "pmc_perf.csv",
                "Dispatch_ID,Kernel_Name\n",
                "rocprof-compute",
            ),
        ] {
            let found = what_it_is(Path::new(name), start.as_bytes());
            assert!(
                found.is_some_and(|text| text.contains(word)),
                "{name}: {found:?}"
            );
        }
        assert_eq!(
            what_it_is(Path::new("t.json"), b"{\"traceEvents\": []}"),
            None
        );
    }
}
