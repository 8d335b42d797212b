use super::*;
use crate::{ConfigError, Environment, Sources};
use crate::{Follow, SamplingClock, SymbolCache, Unwinder};
use std::time::Duration;

fn option(name: &str) -> Origin {
    Origin::CommandLine(name.to_owned())
}

fn load(pairs: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let environment = Environment::from_pairs(pairs.iter().copied());
    Settings::load(&Sources::without_files(environment))
}

#[test]
fn defaults_are_those_that_are_promised() {
    let resolved = Settings::defaults().resolve();
    assert!(resolved.enabled && resolved.time_output && resolved.use_pid);
    assert!(resolved.compress_trace && resolved.sampling_include_inlines);
    assert_eq!(resolved.sampling_freq_hz, 300.0);
    assert_eq!(resolved.output_path, "rsys-%tag%-output");
    assert_eq!(resolved.output_prefix, "");
    assert_eq!(resolved.time_format, "%F_%H.%M.%S");
    assert_eq!(resolved.perfetto_file, "perfetto-trace.proto");
    assert_eq!(resolved.sampling_clock, SamplingClock::Auto);
    assert_eq!(resolved.unwinder, Unwinder::Cfi);
    assert_eq!(resolved.follow, Follow::All);
    assert_eq!(resolved.linger, Duration::from_secs(3));
    assert_eq!(resolved.sampling_max_depth, 512);
    assert_eq!(resolved.ring_bytes, 256 * 1024);
    assert_eq!(resolved.symbol_cache, SymbolCache::DefaultFolder);
    for window in [
        &resolved.sampling_window,
        &resolved.realtime_window,
        &resolved.trace_window,
        &resolved.process_window,
    ] {
        assert!(window.is_always());
    }
    assert!(resolved.sampling_tids.is_all() && resolved.realtime_tids.is_all());
    assert_eq!(resolved.profile, None);
    assert_eq!(resolved.verbose, 0);
    assert!(!resolved.monochrome);
    assert_eq!(Settings::defaults().non_defaults().count(), 0);
}

#[test]
fn table_rows_are_complete_and_unique() {
    let mut names = std::collections::BTreeSet::new();
    let mut words = std::collections::BTreeSet::new();
    for setting in table::all() {
        for name in std::iter::once(&setting.name).chain(setting.aliases) {
            assert!(names.insert(*name), "{name} twice");
            assert_eq!(*name, table::bare_name(name));
        }
        assert!(
            !setting.summary.is_empty() && !setting.summary.ends_with('.'),
            "{}",
            setting.name
        );
        assert!(
            setting.details.is_empty() || setting.details.ends_with('.'),
            "{}",
            setting.name
        );
        if let Some(option) = &setting.option {
            for word in std::iter::once(&option.long).chain(option.aliases) {
                assert!(words.insert((*word).to_owned()), "--{word} twice");
            }
            if let Some(short) = option.short {
                assert!(words.insert(short.to_string()), "-{short} twice");
            }
        }
    }
}

#[test]
fn values_are_read_and_written() {
    // name, text, how the value prints
    let good = [
        ("SAMPLING_FREQ", " 1000 ", "1000"),
        ("SAMPLING_FREQ", "99.5", "99.5"),
        ("LINGER", "250ms", "0.25"),
        ("LINGER", "2 min", "120"),
        ("LINGER", "1h", "3600"),
        ("LINGER", "1.5s", "1.5"),
        ("TIME_OUTPUT", "OFF", "false"),
        ("TIME_OUTPUT", "y", "true"),
        ("UNWINDER", "FP", "fp"),
        ("OUTPUT_FILE", "x.pftrace", "x.pftrace"),
        ("OUTPUT_PREFIX", "", ""),
        ("SYMBOL_CACHE", "", ""),
        (
            "INCLUDE_BACKENDS",
            "roctracer, ROCTX;rocm_smi",
            "roctracer roctx rocm-smi",
        ),
        ("INCLUDE_BACKENDS", "", ""),
        ("verbose", "7", "7"),
        ("rocprofsys_flat-profile", "on", "true"),
        ("PROCESS_SAMPLING_DELAY", "-0.5", "-1"),
        ("PROCESS_SAMPLING_DELAY", "2s", "2"),
        ("TRACE_PERIODS", "1:2 3:4:0", "1:2,3:4:0"),
        ("SAMPLING_TIDS", "0-3 7", "0-3,7"),
        ("TRACE_PERIOD_CLOCK_ID", "CLOCK_MONOTONIC", "realtime"),
        ("TRACE_PERIOD_CLOCK_ID", "2.0", "cputime"),
        ("rocprofsys_timeline-profile", "on", ""),
    ];
    for (name, text, printed) in good {
        let mut settings = Settings::defaults();
        let result = settings.set(name, text, option("-x"));
        assert_eq!(result, Ok(()), "{name} = {text}");
        if let Some(value) = settings.get(name) {
            assert_eq!(value.to_string(), printed, "{name} = {text}");
        }
    }
    let bad = [
        (
            "SAMPLING_FREQ",
            "0",
            "option -x: bad value '0' for SAMPLING_FREQ: expected a number from 1 to 20000 (Hz)",
        ),
        (
            "SAMPLING_FREQ",
            "20001",
            "option -x: bad value '20001' for SAMPLING_FREQ: expected a number from 1 to 20000 (Hz)",
        ),
        (
            "SAMPLING_FREQ",
            "NaN",
            "option -x: bad value 'NaN' for SAMPLING_FREQ: expected a number from 1 to 20000 (Hz)",
        ),
        (
            "LINGER",
            "-1",
            "option -x: bad value '-1' for LINGER: expected seconds, or a number with ms, s, min or h",
        ),
        (
            "LINGER",
            "inf",
            "option -x: bad value 'inf' for LINGER: expected seconds, or a number with ms, s, min or h",
        ),
        (
            "FOLLOW",
            "exce",
            "option -x: bad value 'exce' for FOLLOW: expected one of all, exec, none; did you mean 'exec'?",
        ),
        (
            "TIME_OUTPUT",
            "maybe",
            "option -x: bad value 'maybe' for TIME_OUTPUT: expected true or false (also on/off, yes/no, 1/0)",
        ),
        (
            "OUTPUT_PATH",
            "",
            "option -x: bad value '' for OUTPUT_PATH: expected a path",
        ),
        (
            "RING_SIZE_KB",
            "1e3",
            "option -x: bad value '1e3' for RING_SIZE_KB: expected a whole number from 16 to 65536 (KiB)",
        ),
        (
            "INCLUDE_BACKENDS",
            "roctracr",
            "option -x: unknown backend 'roctracr'; did you mean 'roctracer'?",
        ),
        (
            "SAMPLNG_FREQ",
            "1",
            "option -x: unknown setting 'SAMPLNG_FREQ'; did you mean 'SAMPLING_FREQ'?",
        ),
        ("XYZZY", "1", "option -x: unknown setting 'XYZZY'"),
    ];
    for (name, text, message) in bad {
        let problem = Settings::defaults()
            .set(name, text, option("-x"))
            .expect_err(name);
        assert_eq!(problem.to_string(), message);
    }
}

#[test]
fn resolved_meanings() {
    let mut settings = Settings::defaults();
    let pairs = [
        ("SYMBOL_CACHE", "none"),
        ("SAMPLING_DURATION", "2"),
        ("VERBOSE", "10"),
        ("RING_SIZE_KB", "64"),
    ];
    for (name, text) in pairs {
        settings.set(name, text, option("-x")).expect("good value");
    }
    let resolved = settings.resolve();
    assert_eq!(resolved.symbol_cache, SymbolCache::Off);
    assert_eq!(
        resolved.sampling_window.duration,
        Some(Duration::from_secs(2))
    );
    assert_eq!(resolved.process_window, resolved.sampling_window);
    assert!(resolved.trace_window.is_always());
    assert_eq!(resolved.verbose, 3);
    assert_eq!(resolved.ring_bytes, 65_536);
    settings
        .set("SYMBOL_CACHE", "/c", option("-x"))
        .expect("a path");
    assert_eq!(
        settings.resolve().symbol_cache,
        SymbolCache::Folder("/c".into())
    );
    let debug = load(&[("RSYS_DEBUG", "1")]).expect("good");
    assert_eq!(debug.resolve().verbose, 3);
}

#[test]
fn every_word_of_a_choice_has_a_meaning() {
    for setting in table::all() {
        if let Kind::Choice(choices) = setting.kind {
            for choice in choices {
                let mut settings = Settings::defaults();
                settings
                    .set(setting.name, choice.name, option("-x"))
                    .expect("allowed");
                let resolved = settings.resolve();
                let words = [
                    resolved.follow.as_str(),
                    resolved.unwinder.as_str(),
                    resolved.sampling_clock.as_str(),
                    resolved.python.as_str(),
                    if resolved.windows_by_cpu_time {
                        "cputime"
                    } else {
                        "realtime"
                    },
                    resolved.context_switches.as_str(),
                    resolved.gpu_source.as_str(),
                    resolved.gpu_level.as_str(),
                    resolved.category_names.as_str(),
                    resolved.flows.as_str(),
                    resolved.closing.as_str(),
                ];
                assert!(words.contains(&choice.name), "{}", choice.name);
            }
        }
    }
}

#[test]
fn prefixes_of_the_environment_in_order() {
    let all = [
        ("OMNITRACE_SAMPLING_FREQ", "10"),
        ("ROCPROFSYS_SAMPLING_FREQ", "20"),
        ("RSYS_SAMPLING_FREQ", "30"),
    ];
    for count in 1..=3 {
        let settings = load(&all[..count]).expect("good");
        let (variable, value) = all[count - 1];
        assert_eq!(
            settings.get("SAMPLING_FREQ").expect("set").to_string(),
            value
        );
        assert_eq!(
            settings.origin("SAMPLING_FREQ"),
            Some(&Origin::Environment(variable.to_owned()))
        );
    }
    let by_alias = load(&[("ROCPROFSYS_OUTPUT_FILE", "a.proto")]).expect("good");
    assert_eq!(by_alias.resolve().perfetto_file, "a.proto");
    assert!(
        load(&[("MONOCHROME", "1")])
            .expect("good")
            .resolve()
            .monochrome
    );
    // What a variable without value means is the default, where a value is needed.
    assert_eq!(
        load(&[("RSYS_SAMPLING_FREQ", "")])
            .expect("good")
            .resolve()
            .sampling_freq_hz,
        300.0
    );
}

#[test]
fn bad_environment_is_told_at_once_and_by_name() {
    let error = load(&[
        ("RSYS_SAMPLING_FREQ", "fast"),
        ("ROCPROFSYS_VERBOSE", "much"),
    ])
    .expect_err("bad");
    assert_eq!(
        error.to_string(),
        "environment variable RSYS_SAMPLING_FREQ: bad value 'fast' for SAMPLING_FREQ: expected a number from 1 to 20000 (Hz)\n\
         environment variable ROCPROFSYS_VERBOSE: bad value 'much' for VERBOSE: expected a whole number from -1 to 100"
    );
}

#[test]
fn other_variables_are_let_alone() {
    let settings = load(&[
        ("RSYS_SAMPLNG_FREQ", "5"),
        ("ROCPROFSYS_USE_UCX", "ON"),
        ("RSYS_BLESS", "1"),
        ("PATH", "/bin"),
    ])
    .expect("good");
    let notes: Vec<_> = settings
        .notes()
        .iter()
        .map(|note| (note.to_string(), note.important))
        .collect();
    assert_eq!(
        notes,
        [
            (
                "environment variable ROCPROFSYS_USE_UCX: USE_UCX has no effect: this backend is not part of this build"
                    .to_owned(),
                false
            ),
            (
                "environment variable RSYS_SAMPLNG_FREQ: no such setting; did you mean RSYS_SAMPLING_FREQ?".to_owned(),
                true
            ),
        ]
    );
}

#[test]
fn the_rate_of_the_wall_clock_follows_the_other_within_limits() {
    for (frequency, own, expected) in [
        ("100", "0", 100.0),
        ("100", "-1", 100.0),
        ("5000", "0", 1000.0),
        ("100", "700", 700.0),
    ] {
        let settings = load(&[
            ("RSYS_SAMPLING_FREQ", frequency),
            ("ROCPROFSYS_SAMPLING_REALTIME_FREQ", own),
        ]);
        let resolved = settings.expect("good").resolve();
        assert_eq!(resolved.sampling_realtime_freq_hz, expected);
    }
}

#[test]
fn changed_values_tell_their_origin() {
    let mut settings = load(&[("RSYS_UNWINDER", "fp"), ("RSYS_FOLLOW", "all")]).expect("good");
    settings
        .set("SAMPLING_FREQ", "1000", option("-f"))
        .expect("good");
    assert_eq!(
        settings.report(),
        [
            "SAMPLING_FREQ = 1000 (option -f)",
            "UNWINDER = fp (environment variable RSYS_UNWINDER)",
        ]
    );
}

#[test]
fn settings_of_the_original_are_all_accepted() {
    // Every setting of the original's reference, old and new.
    let names = "
        MODE CI MONOCHROME DL_VERBOSE NUM_THREADS_HINT TRACE USE_PERFETTO PROFILE USE_TIMEMORY USE_CAUSAL USE_ROCTRACER
        USE_ROCPROFILER USE_ROCM_SMI USE_ROCTX USE_SAMPLING USE_THREAD_SAMPLING USE_PROCESS_SAMPLING USE_PID USE_KOKKOSP USE_MPIP
        USE_RCCLP KOKKOSP_KERNEL_LOGGER KOKKOSP_NAME_LENGTH_MAX KOKKOSP_PREFIX KOKKOSP_DEEP_COPY USE_OMPT USE_CODE_COVERAGE
        TRACE_DELAY TRACE_DURATION TRACE_PERIODS TRACE_PERIOD_CLOCK_ID SAMPLING_FREQ SAMPLING_CPUTIME_FREQ SAMPLING_REALTIME_FREQ
        SAMPLING_OVERFLOW_FREQ SAMPLING_DELAY SAMPLING_CPUTIME_DELAY SAMPLING_REALTIME_DELAY SAMPLING_DURATION
        PROCESS_SAMPLING_FREQ PROCESS_SAMPLING_DURATION SAMPLING_CPUS ROCM_SMI_DEVICES SAMPLING_GPUS SAMPLING_TIDS
        SAMPLING_CPUTIME_TIDS SAMPLING_REALTIME_TIDS SAMPLING_OVERFLOW_TIDS PERFETTO_BACKEND TRACE_THREAD_LOCKS
        TRACE_THREAD_RW_LOCKS TRACE_THREAD_SPIN_LOCKS TRACE_THREAD_BARRIERS TRACE_THREAD_JOIN SAMPLING_KEEP_INTERNAL
        SAMPLING_INCLUDE_INLINES SAMPLING_ALLOCATOR_SIZE SAMPLING_OVERFLOW SAMPLING_REALTIME SAMPLING_CPUTIME
        SAMPLING_CPUTIME_SIGNAL SAMPLING_REALTIME_SIGNAL SAMPLING_OVERFLOW_SIGNAL SAMPLING_OVERFLOW_EVENT ROCTRACER_HIP_API
        ROCTRACER_HIP_ACTIVITY ROCTRACER_HIP_API_BACKTRACE ROCTRACER_HSA_API ROCTRACER_HSA_ACTIVITY ROCTRACER_HSA_API_TYPES
        ROCTRACER_DISCARD_BARRIERS ROCM_EVENTS ROCM_SMI_METRICS PERFETTO_SHMEM_SIZE_HINT_KB PERFETTO_BUFFER_SIZE_KB
        PERFETTO_FILL_POLICY PERFETTO_COMBINE_TRACES PERFETTO_ROCTRACER_PER_STREAM PERFETTO_ANNOTATIONS
        PERFETTO_COMPACT_ROCTRACER_ANNOTATIONS PERFETTO_FILE OUTPUT_FILE ENABLE_CATEGORIES DISABLE_CATEGORIES THREAD_POOL_SIZE
        TIMEMORY_COMPONENTS USE_TEMPORARY_FILES TMPDIR CAUSAL_BACKEND CAUSAL_MODE CAUSAL_RANDOM_SEED CAUSAL_BINARY_SCOPE
        CONFIG_FILE SUPPRESS_CONFIG SUPPRESS_PARSING STRICT_CONFIG ENABLED VERBOSE DEBUG FLAT_PROFILE TIMELINE_PROFILE MAX_DEPTH
        COUT_OUTPUT FILE_OUTPUT TEXT_OUTPUT JSON_OUTPUT TREE_OUTPUT DIFF_OUTPUT INPUT_PATH INPUT_PREFIX INPUT_EXTENSIONS
        TIME_OUTPUT TIME_FORMAT OUTPUT_PATH OUTPUT_PREFIX PRECISION WIDTH SCIENTIFIC TIMING_PRECISION TIMING_WIDTH TIMING_UNITS
        TIMING_SCIENTIFIC MEMORY_PRECISION MEMORY_WIDTH MEMORY_UNITS MEMORY_SCIENTIFIC MAX_WIDTH COLLAPSE_THREADS
        COLLAPSE_PROCESSES CPU_AFFINITY NODE_COUNT NETWORK_INTERFACE PAPI_EVENTS PAPI_THREADING PAPI_MULTIPLEXING
        PAPI_FAIL_ON_ERROR PAPI_QUIET PAPI_OVERFLOW ENABLE_SIGNAL_HANDLER CRAYPAT BANNER DESTRUCTOR_REPORT COMPONENTS
        GLOBAL_COMPONENTS PYTHON_EXE PAPI_ATTACH PLOT_OUTPUT SEPARATOR_FREQ STACK_CLEARING TARGET_PID THROTTLE_COUNT AUTO_OUTPUT
        FLAMEGRAPH_OUTPUT ENABLE_ALL_SIGNALS DISABLE_ALL_SIGNALS ALLOW_SIGNAL_HANDLER INSTRUCTION_ROOFLINE ADD_SECONDARY
        MAX_THREAD_BOOKMARKS USE_ROCM USE_AMD_SMI AMD_SMI_METRICS CPU_FREQ_ENABLED USE_ROCPD ROCM_DOMAINS
        ROCM_HIP_RUNTIME_API_OPERATIONS ROCM_GROUP_BY_QUEUE LOG_LEVEL LOG_FILE LOG_COUNT TRACE_LEGACY PRESET_DIR
        PERFETTO_FLUSH_PERIOD_MS MERGE_PERFETTO_FILES SELECTED_REGIONS RANK_FILTER_ID RANK_FILTER_OUTPUT RANK_FILTER_LOGS
        CPU_METRICS GPU_PERF_COUNTERS USE_AINIC SAMPLING_AINICS USE_UCX USE_SHMEM SHMEM_PERMIT_LIST USE_UNIFIED_MEMORY_PROFILING
        USE_HIPFILE KILL_DELAY REATTACH_ADD_SESSION_ID SHMEM_REJECT_LIST CTEST_NOTES THREAD_COMPONENTS THROTTLE_VALUE ERT_NUM_THREADS
        DART_TYPE MPI_INIT UPCXX_INIT ROOFLINE_MODE CUDA_EVENT_BATCH_SIZE NVTX_MARKER_DEVICE_SYNC CUPTI_EVENTS CAUSAL_DELAY
        CAUSAL_DURATION CAUSAL_END_TO_END CAUSAL_FILE CAUSAL_FILE_RESET CAUSAL_FIXED_SPEEDUP CAUSAL_SOURCE_SCOPE
        CAUSAL_FUNCTION_SCOPE CAUSAL_BINARY_EXCLUDE CAUSAL_SOURCE_EXCLUDE CAUSAL_FUNCTION_EXCLUDE
        CAUSAL_FUNCTION_EXCLUDE_DEFAULTS ROCM_MARKER_API_OPERATIONS_EXCLUDE ROCM_KERNEL_DISPATCH_OPERATIONS_ANNOTATE_BACKTRACE
        PRELOAD ROOT_PROCESS INIT_ENABLED INIT_TOOLING PRINT_ENV SETTINGS_DESC RECYCLE_TIDS MPI_MAX_COMM_UPDATES
        SAMPLING_KEEP_DYNINST_SUFFIX USE_ROCTRACER_CLOCK_SKEW ROCTRACER_DISCARD_INVALID IGNORE_DYNINST_TRAMPOLINE CI_TIMEOUT
        COMMAND_LINE MPIP_PERMIT_LIST MPIP_REJECT_LIST LIBRARY DL_LIBRARY USER_LIBRARY ROOT SCRIPT_PATH";
    for name in names.split_whitespace() {
        let known = table::find(name).is_some() || ignored::find(name).is_some();
        assert!(known, "{name}");
    }
}

#[test]
fn a_variable_that_is_no_text_is_an_error_if_it_is_a_setting() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = || std::ffi::OsString::from_vec(b"a\xff".to_vec());
    let load = |name: &str| {
        Settings::load(&Sources::without_files(Environment::from_pairs([(
            name,
            bytes(),
        )])))
    };
    for name in [
        "RSYS_OUTPUT_PATH",
        "OMNITRACE_OUTPUT_PATH",
        "ROCPROFSYS_PERFETTO_FILE",
    ] {
        let text = load(name).expect_err(name).to_string();
        assert_eq!(
            text,
            format!("environment variable {name}: the value is not UTF-8 text")
        );
    }
    for name in ["OUTPUT_PATH", "PATH", "RSYS_OTHER", "ROCPROFSYS_TMPDIR"] {
        assert!(load(name).is_ok(), "{name}");
    }
}

#[test]
fn unknown_path_keys_are_errors() {
    let mut settings = Settings::defaults();
    for name in ["OUTPUT_PATH", "OUTPUT_PREFIX", "PERFETTO_FILE"] {
        let origin = Origin::CommandLine("-o".to_owned());
        let error = settings.set(name, "a/%rnak%-", origin).expect_err(name);
        assert_eq!(
            error.to_string(),
            "option -o: unknown key '%rnak%'; did you mean '%rank%'? ('%%' is a percent sign)"
        );
    }
    // What is no path may hold any sign.
    let origin = Origin::CommandLine("-o".to_owned());
    assert!(settings.set("TIME_FORMAT", "%F_%H%M%", origin).is_ok());
}

#[test]
fn a_trace_is_left_out_only_for_a_summary() {
    for (trace, profile, written) in [
        ("true", "false", true),
        ("true", "true", true),
        ("false", "true", false),
        ("false", "false", true),
    ] {
        let mut settings = Settings::defaults();
        settings
            .set("USE_PERFETTO", trace, option("-x"))
            .expect("the original's name");
        settings
            .set("PROFILE", profile, option("-x"))
            .expect("good value");
        assert_eq!(settings.resolve().trace, written, "{trace} {profile}");
    }
}

#[test]
fn the_original_s_overflow_has_its_period() {
    let mut settings = Settings::defaults();
    settings
        .set("SAMPLING_OVERFLOW_FREQ", "1000", option("-x"))
        .expect("good value");
    assert_eq!(settings.resolve().overflow, None);
    settings
        .set("SAMPLING_OVERFLOW", "on", option("-x"))
        .expect("good value");
    settings
        .set("SAMPLING_OVERFLOW_EVENT", "perf::CYCLES", option("-x"))
        .expect("good value");
    let overflow = |settings: &Settings| settings.resolve().overflow;
    assert_eq!(
        overflow(&settings),
        Some(("perf::CYCLES".to_owned(), Some(1000)))
    );
    settings
        .set("SAMPLING_OVERFLOW_FREQ", "-1", option("-x"))
        .expect("good value");
    assert_eq!(overflow(&settings), Some(("perf::CYCLES".to_owned(), None)));
    settings
        .set("OVERFLOW", "faults:7", option("-x"))
        .expect("good value");
    assert_eq!(overflow(&settings), Some(("faults".to_owned(), Some(7))));
}
