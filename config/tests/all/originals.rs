//! Configuration files as three generations of the original generate them, with all of their settings, in all of their forms: each is
//! read as it is, to the right values.

use rsys_config::{Environment, Settings, table};

/// Name, value as the original writes it, value as it is read; nothing where the setting has no effect here.
type Row = (&'static str, &'static str, &'static str);

/// Of omnitrace and version 0.1 (ROCm 6.3), with what a user changed.
const FIRST: &[Row] = &[
    ("CONFIG_FILE", "", ""),
    ("MODE", "sampling", ""),
    ("TRACE", "true", "true"),
    ("PROFILE", "false", "false"),
    ("USE_SAMPLING", "true", ""),
    ("USE_PROCESS_SAMPLING", "true", "true"),
    ("USE_ROCTRACER", "true", "true"),
    ("USE_ROCM_SMI", "true", "true"),
    ("USE_ROCTX", "true", "true"),
    ("USE_KOKKOSP", "false", "false"),
    ("USE_CAUSAL", "false", ""),
    ("USE_MPIP", "true", "true"),
    ("USE_PID", "false", "false"),
    ("USE_RCCLP", "false", "false"),
    ("USE_ROCPROFILER", "true", "true"),
    ("USE_OMPT", "false", "false"),
    ("USE_CODE_COVERAGE", "false", ""),
    ("USE_TEMPORARY_FILES", "true", ""),
    (
        "OUTPUT_PATH",
        "rocprofiler-systems-%tag%-output",
        "rocprofiler-systems-%tag%-output",
    ),
    ("OUTPUT_PREFIX", "%rank%-", "%rank%-"),
    ("CAUSAL_BACKEND", "auto", ""),
    ("CAUSAL_BINARY_SCOPE", "%MAIN%", ""),
    ("CI", "false", ""),
    ("COLLAPSE_PROCESSES", "false", ""),
    ("COUT_OUTPUT", "false", "false"),
    ("CPU_AFFINITY", "false", ""),
    ("DEBUG", "false", "false"),
    ("DL_VERBOSE", "0", ""),
    ("ENABLE_CATEGORIES", "", ""),
    ("ENABLE_SIGNAL_HANDLER", "true", ""),
    ("ENABLED", "true", "true"),
    ("FILE_OUTPUT", "true", ""),
    ("FLAT_PROFILE", "false", "false"),
    ("INPUT_EXTENSIONS", "json,xml", ""),
    ("JSON_OUTPUT", "true", "true"),
    ("KOKKOSP_NAME_LENGTH_MAX", "0", "0"),
    ("MAX_DEPTH", "65535", "65535"),
    ("MEMORY_UNITS", "MB", ""),
    ("MONOCHROME", "false", "false"),
    ("NETWORK_INTERFACE", "", ""),
    ("NUM_THREADS_HINT", "1", ""),
    (
        "PAPI_EVENTS",
        "PAPI_TOT_CYC,perf::PAGE-FAULTS",
        "PAPI_TOT_CYC,perf::PAGE-FAULTS",
    ),
    ("PAPI_MULTIPLEXING", "false", ""),
    ("PERFETTO_ANNOTATIONS", "true", ""),
    ("PERFETTO_BACKEND", "inprocess", ""),
    ("PERFETTO_BUFFER_SIZE_KB", "1024000", ""),
    ("PERFETTO_COMBINE_TRACES", "false", ""),
    (
        "PERFETTO_FILE",
        "perfetto-trace.proto",
        "perfetto-trace.proto",
    ),
    ("PERFETTO_FILL_POLICY", "discard", ""),
    ("PERFETTO_SHMEM_SIZE_HINT_KB", "4096", ""),
    ("PROCESS_SAMPLING_DURATION", "-1", "-1"),
    ("PROCESS_SAMPLING_FREQ", "0", "0"),
    ("ROCM_EVENTS", "", ""),
    (
        "ROCM_SMI_METRICS",
        "busy,temp,power,mem_usage",
        "busy,temp,power,mem_usage",
    ),
    ("ROCTRACER_HIP_API", "true", ""),
    ("SAMPLING_ALLOCATOR_SIZE", "8", ""),
    ("SAMPLING_CPUS", "", ""),
    ("SAMPLING_CPUTIME", "true", ""),
    ("SAMPLING_CPUTIME_DELAY", "-1", "-1"),
    ("SAMPLING_CPUTIME_FREQ", "-1", "-1"),
    ("SAMPLING_CPUTIME_SIGNAL", "27", ""),
    ("SAMPLING_CPUTIME_TIDS", "0-3", "0-3"),
    ("SAMPLING_DELAY", "0.5", "0.5"),
    ("SAMPLING_DURATION", "0", "0"),
    ("SAMPLING_FREQ", "300", "300"),
    ("SAMPLING_GPUS", "all", "all"),
    ("SAMPLING_INCLUDE_INLINES", "false", "false"),
    ("SAMPLING_KEEP_INTERNAL", "true", ""),
    ("SAMPLING_OVERFLOW", "false", "false"),
    (
        "SAMPLING_OVERFLOW_EVENT",
        "perf::PERF_COUNT_HW_CACHE_REFERENCES",
        "perf::PERF_COUNT_HW_CACHE_REFERENCES",
    ),
    ("SAMPLING_OVERFLOW_FREQ", "-1", "-1"),
    ("SAMPLING_OVERFLOW_SIGNAL", "35", ""),
    ("SAMPLING_REALTIME", "true", "true"),
    ("SAMPLING_REALTIME_DELAY", "-1", "-1"),
    ("SAMPLING_REALTIME_FREQ", "50", "50"),
    ("SAMPLING_REALTIME_TIDS", "", ""),
    ("STRICT_CONFIG", "true", ""),
    ("SUPPRESS_CONFIG", "false", ""),
    ("TEXT_OUTPUT", "true", "true"),
    ("THREAD_POOL_SIZE", "4", ""),
    ("TIME_FORMAT", "%F_%H.%M", "%F_%H.%M"),
    ("TIME_OUTPUT", "false", "false"),
    ("TIMEMORY_COMPONENTS", "wall_clock", ""),
    ("TIMING_PRECISION", "6", ""),
    ("TMPDIR", "/tmp", ""),
    ("TRACE_DELAY", "1.5", "1.5"),
    ("TRACE_DURATION", "0", "0"),
    ("TRACE_PERIODS", "0.1:0.2:3", "0.1:0.2:3"),
    ("TRACE_PERIOD_CLOCK_ID", "CLOCK_REALTIME", "realtime"),
    ("TRACE_THREAD_BARRIERS", "true", ""),
    ("TRACE_THREAD_LOCKS", "false", "false"),
    ("VERBOSE", "1", "1"),
];

/// What 1.0 to 1.2 (ROCm 6.4 to 7.1) have otherwise.
const SECOND: &[Row] = &[
    ("TRACE", "true", "true"),
    ("PROFILE", "true", "true"),
    ("USE_ROCM", "true", "true"),
    ("USE_AMD_SMI", "true", "true"),
    (
        "AMD_SMI_METRICS",
        "busy, temp, power, mem_usage",
        "busy, temp, power, mem_usage",
    ),
    ("CPU_FREQ_ENABLED", "false", "false"),
    ("USE_ROCPD", "false", ""),
    (
        "ROCM_DOMAINS",
        "hip_runtime_api,marker_api,kernel_dispatch,memory_copy,scratch_memory",
        "hip_runtime_api,marker_api,kernel_dispatch,memory_copy,scratch_memory",
    ),
    ("ROCM_HIP_RUNTIME_API_OPERATIONS", "", ""),
    (
        "ROCM_HIP_RUNTIME_API_OPERATIONS_EXCLUDE",
        "hipGetLastError",
        "",
    ),
    ("ROCM_GROUP_BY_QUEUE", "false", ""),
    ("SAMPLING_CPUS", "none", "none"),
    ("SAMPLING_FREQ", "50", "50"),
    ("OUTPUT_PATH", "$env:HOME/traces", "/h/traces"),
];

/// What 1.5 and later (ROCm 7.12 on) have otherwise.
const THIRD: &[Row] = &[
    ("TRACE", "false", "false"),
    ("PROFILE", "false", "false"),
    ("TRACE_LEGACY", "false", ""),
    ("USE_ROCPD", "true", ""),
    ("LOG_LEVEL", "info", ""),
    ("LOG_FILE", "", ""),
    ("PRESET_DIR", "", ""),
    ("PERFETTO_FLUSH_PERIOD_MS", "10000", ""),
    ("MERGE_PERFETTO_FILES", "false", ""),
    ("SELECTED_REGIONS", "", ""),
    ("RANK_FILTER_ID", "", ""),
    ("CPU_METRICS", "", ""),
    ("GPU_PERF_COUNTERS", "", ""),
    ("USE_AINIC", "false", ""),
    ("USE_UCX", "false", ""),
    ("USE_UNIFIED_MEMORY_PROFILING", "false", ""),
    ("KILL_DELAY", "0", ""),
    (
        "PERFETTO_FILE",
        "perfetto-trace.pftrace",
        "perfetto-trace.pftrace",
    ),
    ("SAMPLING_FREQ", "100", "100"),
];

/// What omnitrace 1.0 to 1.7 had otherwise, with what its tests put into the same files.
const EARLY: &[Row] = &[
    ("USE_PERFETTO", "true", "true"),
    ("USE_TIMEMORY", "true", "true"),
    ("USE_THREAD_SAMPLING", "true", "true"),
    ("CRITICAL_TRACE", "false", ""),
    ("CRITICAL_TRACE_BUFFER_COUNT", "2000", ""),
    ("CRITICAL_TRACE_SERIALIZE_NAMES", "false", ""),
    ("INSTRUMENTATION_INTERVAL", "1", ""),
    ("KOKKOS_KERNEL_LOGGER", "false", ""),
    ("NUM_THREADS", "8", ""),
    ("DEBUG_SETTINGS", "true", "true"),
    ("DEBUG_INIT", "false", ""),
    ("DL_DEBUG", "false", ""),
    ("CI_SKIP_PUSH_POP_CHECK", "true", ""),
    ("REGEX_INCLUDE", "^main$", ""),
    ("DEFAULT_MIN_INSTRUCTIONS", "64", ""),
    ("ROCM_SMI_FREQ", "5", "5"),
    ("ROCM_SMI_DEVICES", "0-1", "0-1"),
    ("PERFETTO_COMBINE_TRACES", "true", ""),
    ("SAMPLING_CPUS", "all", "all"),
    ("SAMPLING_FREQ", "10", "10"),
    ("SETTINGS_DESC_MARKDOWN", "false", ""),
];

/// Deprecated names of later versions.
const RENAMED: &[Row] = &[
    ("AMD_SMI_FREQ", "5", "5"),
    ("AMD_SMI_DEVICES", "0,2", "0,2"),
    ("USE_TRACE", "true", "true"),
    ("USE_MPI", "true", ""),
    ("CPU_FREQ", "10", ""),
    ("SAMPLING_TIMER", "cputime", ""),
];

/// A generation's name, the prefix of its settings, the root of its documents, its settings.
const FILES: [(&str, &str, &str, &[Row]); 6] = [
    ("omnitrace 1.2", "OMNITRACE_", "omnitrace", EARLY),
    ("renamed", "ROCPROFSYS_", "rocprofiler-systems", RENAMED),
    ("omnitrace", "OMNITRACE_", "omnitrace", FIRST),
    ("0.1", "ROCPROFSYS_", "rocprofiler-systems", FIRST),
    ("1.1", "ROCPROFSYS_", "rocprofiler-systems", SECOND),
    ("1.7", "ROCPROFSYS_", "rocprofiler-systems", THIRD),
];

/// The text form; with comments as `-d` writes them.
fn text(prefix: &str, rows: &[Row], described: bool) -> String {
    let mut text =
        "# auto-generated by rocprof-sys-avail (version 0.1.0) on 2024-10-01 @ 12:30\n\n"
            .to_owned();
    for (name, value, _) in rows {
        if described {
            text.push_str(&format!(
                "# name:\n#    {name}\n#\n# description:\n#    What it = does, 'in' \"words\" # and signs.\n#\n# categories:\n#    io, native\n#\n"
            ));
        }
        text.push_str(&format!("{:<55} = {value}\n", format!("{prefix}{name}")));
        if described {
            text.push('\n');
        }
    }
    text
}

fn json(prefix: &str, root: &str, rows: &[Row]) -> String {
    let entries: Vec<String> = rows
        .iter()
        .map(|(name, value, _)| {
            // Numbers and truths are no texts there.
            let is_bare = value.parse::<f64>().is_ok() || matches!(*value, "true" | "false");
            let value = if is_bare { (*value).to_owned() } else { format!("\"{value}\"") };
            let lower = name.to_lowercase();
            format!(
                "\"{prefix}{name}\": {{\"name\": \"{lower}\", \"environ\": \"{prefix}{name}\", \"description\": \"x\", \
                 \"categories\": [\"io\"], \"value\": {value}}}"
            )
        })
        .collect();
    format!(
        "{{\"{root}\": {{\"version\": \"0.1.0\", \"date\": \"2024-10-01 @ 12:30\", \"settings\": {{{}}}}}}}",
        entries.join(",\n")
    )
}

fn xml(prefix: &str, root: &str, rows: &[Row]) -> String {
    let entries: Vec<String> = rows
        .iter()
        .map(|(name, value, _)| {
            format!(
                "<{prefix}{name}><name>{}</name><value>{value}</value></{prefix}{name}>",
                name.to_lowercase()
            )
        })
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<timemory_xml><{root}><version>0.1.0</version><settings>\n{}\n</settings></{root}></timemory_xml>",
        entries.join("\n")
    )
}

#[test]
fn files_of_all_generations_are_read_as_they_are() {
    let environment = Environment::from_pairs([("HOME", "/h")]);
    for (generation, prefix, root, rows) in FILES {
        let forms = [
            ("a.cfg", text(prefix, rows, false)),
            ("a.cfg", text(prefix, rows, true)),
            ("a.json", json(prefix, root, rows)),
            ("a.xml", xml(prefix, root, rows)),
        ];
        for (name, text) in forms {
            let mut settings = Settings::defaults();
            settings
                .read_text(name.as_ref(), &text, &environment)
                .unwrap_or_else(|error| panic!("{generation} {name}: {error}"));
            for (setting, _, expected) in rows {
                let value = settings.get(setting).map(ToString::to_string);
                let has_effect = table::find(setting).is_some()
                    && !matches!(*setting, "CONFIG_FILE" | "SUPPRESS_CONFIG");
                let found = value.filter(|_| has_effect).unwrap_or_default();
                assert_eq!(found, *expected, "{generation} {name}: {setting}");
                if !has_effect && !matches!(*setting, "CONFIG_FILE" | "SUPPRESS_CONFIG") {
                    let noted = settings
                        .notes()
                        .iter()
                        .any(|note| note.text.starts_with(&format!("{setting} has no effect")));
                    assert!(noted, "{generation} {name}: nothing is said of {setting}");
                }
            }
            assert!(
                settings.notes().iter().all(|note| !note.important),
                "{generation}: {:?}",
                settings.notes()
            );
            // It runs: nothing in it is contradictory.
            drop(settings.resolve());
        }
    }
}
