//! Every option of the original, in old and new spellings, does what it did there.
//!
//! What an option sets is written as in `-v`. A line of which the second column is `NOTED …` has
//! its setting accepted with a note: it belongs to something that is not part of this build. When
//! it becomes part, the line here must name the setting instead.

use super::tests::{changed, good};

/// What an option line sets; the command is `x`.
const OPTIONS: &[(&str, &str)] = &[
    // Debug.
    ("--monochrome --", "MONOCHROME=true"),
    ("--monochrome off --", ""),
    ("--debug true --", "DEBUG=true"),
    ("-v 2 --", "VERBOSE=2"),
    ("--verbose 1 --", "VERBOSE=1"),
    ("--verbose -1 --", "VERBOSE=-1"),
    ("--log-level debug --", "VERBOSE=2"),
    ("--log-level=off", "VERBOSE=-1"),
    // General.
    ("-c --", "CONFIG_FILE=none"),
    ("-c none --", "CONFIG_FILE=none"),
    ("--config none none --", "CONFIG_FILE=none none"),
    ("-o out --", "OUTPUT_PATH=out"),
    ("-o out pre- --", "OUTPUT_PATH=out OUTPUT_PREFIX=pre-"),
    (
        "--output out %rank%- -f 10 --",
        "OUTPUT_PATH=out OUTPUT_PREFIX=%rank%- SAMPLING_FREQ=10",
    ),
    ("-T --", ""),
    ("--trace true --", ""),
    ("-T off --", "TRACE=false"),
    ("-P --", "PROFILE=true"),
    ("--profile on --", "PROFILE=true"),
    ("-F --", "PROFILE=true FLAT_PROFILE=true"),
    ("--flat-profile=true", "PROFILE=true FLAT_PROFILE=true"),
    ("-T=flat", "PROFILE=true FLAT_PROFILE=true"),
    ("-H --", ""),
    ("-H off --", "HOST_SAMPLING=false"),
    ("--host yes --", ""),
    ("-D --", "INCLUDE_BACKENDS=rocm-smi | "),
    (
        "--device=off",
        "EXCLUDE_BACKENDS=rocm-smi | USE_ROCM_SMI=false",
    ),
    ("-w 1.5 --", "SAMPLING_DELAY=1.5 TRACE_DELAY=1.5"),
    ("--wait 2 --", "SAMPLING_DELAY=2 TRACE_DELAY=2"),
    ("-d 3 --", "SAMPLING_DURATION=3 TRACE_DURATION=3"),
    (
        "--duration=250ms",
        "SAMPLING_DURATION=0.25 TRACE_DURATION=0.25",
    ),
    ("-L --", ""),
    ("--trace-legacy=on", ""),
    // Tracing.
    ("--trace-file a.proto --", "PERFETTO_FILE=a.proto"),
    ("--trace-buffer-size 1024000 --", ""),
    ("--trace-fill-policy ring_buffer --", ""),
    ("--trace-fill-policy discard --", ""),
    ("--trace-wait 1 --", "TRACE_DELAY=1"),
    ("--trace-duration 1 --", "TRACE_DURATION=1"),
    (
        "--trace-periods 1:2 3:4:5:realtime --",
        "TRACE_PERIODS=1:2,3:4:5:realtime",
    ),
    (
        "--periods 0.5:0.25:0 --",
        "SAMPLING_PERIODS=0.5:0.25:0 TRACE_PERIODS=0.5:0.25:0",
    ),
    ("--trace-clock-id 1 --", ""),
    ("--trace-clock-id CLOCK_BOOTTIME --", ""),
    ("--trace-clock-id 2 --", "TRACE_PERIOD_CLOCK_ID=cputime"),
    // Profile.
    (
        "-P --profile-format text --",
        "PROFILE=true JSON_OUTPUT=false",
    ),
    (
        "-F --profile-format json console --",
        "PROFILE=true FLAT_PROFILE=true TEXT_OUTPUT=false COUT_OUTPUT=true",
    ),
    (
        "--profile-format=text,json,console",
        "PROFILE=true COUT_OUTPUT=true",
    ),
    (
        "-P --profile-diff old run1 --",
        "PROFILE=true NOTED INPUT_PATH",
    ),
    // Host and device.
    ("-H --process-freq 20 --", "PROCESS_SAMPLING_FREQ=20"),
    ("--process-freq 2.5 --", "PROCESS_SAMPLING_FREQ=2.5"),
    ("--process-wait 1 --", "PROCESS_SAMPLING_DELAY=1"),
    ("--process-duration 2 --", "PROCESS_SAMPLING_DURATION=2"),
    ("--cpus 0-3 8 --", "SAMPLING_CPUS=0-3,8"),
    ("--gpus 0,2 --", "SAMPLING_GPUS=0,2"),
    ("--gpus none", "SAMPLING_GPUS=none"),
    ("--ai-nics eth0 eth1 --", "NOTED SAMPLING_AINICS"),
    // Sampling.
    ("-f 100 --", "SAMPLING_FREQ=100"),
    ("--freq 100 --", "SAMPLING_FREQ=100"),
    ("--sampling-freq 100 --", "SAMPLING_FREQ=100"),
    (
        "-f cpu=500,real=50",
        "SAMPLING_CPUTIME_FREQ=500 SAMPLING_REALTIME_FREQ=50",
    ),
    ("--sampling-wait 1 --", "SAMPLING_DELAY=1"),
    ("--sampling-duration 2 --", "SAMPLING_DURATION=2"),
    ("-t 0 2-3 --", "SAMPLING_TIDS=0,2-3"),
    ("--tids 0-3", "SAMPLING_TIDS=0-3"),
    ("--cputime --", ""),
    (
        "--cputime 100 0.1 0-3 5 --",
        "SAMPLING_CPUTIME_FREQ=100 SAMPLING_CPUTIME_TIDS=0-3,5 SAMPLING_CPUTIME_DELAY=0.1",
    ),
    ("--sample-cputime 50 --", "SAMPLING_CPUTIME_FREQ=50"),
    ("--realtime --", "SAMPLING_REALTIME=true"),
    (
        "--realtime 20 1 0 --",
        "SAMPLING_REALTIME=true SAMPLING_REALTIME_FREQ=20 SAMPLING_REALTIME_TIDS=0 SAMPLING_REALTIME_DELAY=1",
    ),
    ("--sample-realtime --", "SAMPLING_REALTIME=true"),
    (
        "--sample-overflow perf::CYCLES 1000 0 --",
        "SAMPLING_OVERFLOW=true SAMPLING_OVERFLOW_EVENT=perf::CYCLES SAMPLING_OVERFLOW_FREQ=1000",
    ),
    // Backends.
    (
        "-I roctracer rocprofiler roctx rocm-smi --",
        "INCLUDE_BACKENDS=roctracer rocprofiler roctx rocm-smi",
    ),
    (
        "--include all kokkosp mpip ompt rcclp --",
        "INCLUDE_BACKENDS=all kokkosp mpip ompt rcclp",
    ),
    ("-I amd-smi rocm --", "INCLUDE_BACKENDS=amd-smi rocm"),
    (
        "-I mutex-locks spin-locks rw-locks --",
        "INCLUDE_BACKENDS=mutex-locks spin-locks rw-locks",
    ),
    ("-E all --", "EXCLUDE_BACKENDS=all"),
    ("--exclude rocm_smi --", "EXCLUDE_BACKENDS=rocm-smi"),
    ("--gpu", "INCLUDE_BACKENDS=rocm-smi"),
    (
        "--gpu=temp,power",
        "GPU_METRICS=temp,power INCLUDE_BACKENDS=rocm-smi",
    ),
    ("--rocm", "INCLUDE_BACKENDS=rocm"),
    ("--rocm=hip,marker,rccl", "INCLUDE_BACKENDS=hip roctx rcclp"),
    ("--parallel=mpi,openmp", "INCLUDE_BACKENDS=mpip ompt"),
    (
        "--parallel -I hip --",
        "INCLUDE_BACKENDS=hip mpip ompt kokkosp rcclp",
    ),
    ("--cpu", ""),
    ("--cpu=20", "PROCESS_SAMPLING_FREQ=20"),
    ("--cpu=off", "USE_PROCESS_SAMPLING=false"),
    // Counters and the rest.
    (
        "-C PAPI_TOT_CYC perf::INSTRUCTIONS --",
        "CPU_EVENTS=PAPI_TOT_CYC,perf::INSTRUCTIONS",
    ),
    (
        "--cpu-events PAPI_TOT_CYC,PAPI_TOT_INS",
        "CPU_EVENTS=PAPI_TOT_CYC,PAPI_TOT_INS",
    ),
    (
        "-G SQ_WAVES GRBM_COUNT:device=0 --",
        "GPU_EVENTS=SQ_WAVES,GRBM_COUNT:device=0",
    ),
    ("--gpu-events SQ_WAVES", "GPU_EVENTS=SQ_WAVES"),
    ("-i --", ""),
    ("--inlines off --", "SAMPLING_INCLUDE_INLINES=false"),
    ("--hsa-interrupt 0 --", ""),
    ("--selected-regions a b --", "NOTED SELECTED_REGIONS"),
    ("--rank-filter-id 0 1 --", "RANKS=0,1"),
    (
        "--rank-filter-output=off --rank-filter-logs=off",
        "NOTED RANK_FILTER_OUTPUT",
    ),
    ("--output-format perfetto", ""),
    ("--output-format rocpd perfetto --", "NOTED no rocpd output"),
    (
        "--preset=hpc",
        "SAMPLING_FREQ=100 INCLUDE_BACKENDS=rocm rocm-smi mpip ompt kokkosp rcclp",
    ),
    (
        "--preset trace-gpu -f 7 --",
        "SAMPLING_FREQ=7 INCLUDE_BACKENDS=roctracer roctx rocm-smi",
    ),
];

#[test]
fn every_option_of_the_original_is_accepted() {
    for (options, expected) in OPTIONS {
        let invocation = good(&format!("{options} x -y"));
        assert_eq!(invocation.command, ["x", "-y"], "{options}");
        let (sets, noted) = expected.split_once("NOTED ").unwrap_or((expected, ""));
        if noted.is_empty() {
            // What a monitor has an option of its own for may be another setting.
            let found = changed(&invocation);
            assert!(
                sets.split(" | ").any(|sets| sets.trim() == found),
                "{options}: {found}, not {sets}"
            );
            let warnings: Vec<_> = invocation
                .settings
                .notes()
                .iter()
                .filter(|note| note.important)
                .collect();
            assert!(warnings.is_empty(), "{options}: {warnings:?}");
        } else {
            let name = noted.split_whitespace().next().unwrap_or_default();
            assert!(
                rsys_config::table::find(name).is_none(),
                "{options}: {name} is a setting now"
            );
            assert_eq!(changed(&invocation), sets.trim(), "{options}");
            let notes: Vec<String> = invocation
                .settings
                .notes()
                .iter()
                .map(ToString::to_string)
                .collect();
            assert!(
                notes.iter().any(|note| note.contains(noted)),
                "{options}: {notes:?}"
            );
        }
    }
}

#[test]
fn the_original_s_help_and_version_end_well() {
    for line in [
        "-h",
        "-?",
        "--help",
        "--help=all",
        "--help=sampling",
        "--help=summaries",
        "--version",
        "--list-presets",
        "--explain=hpc",
    ] {
        let exit = super::tests::bad(line);
        assert_eq!((exit.code, exit.to_stdout), (0, true), "{line}: {exit}");
        assert!(exit.to_string().len() > 10, "{line}");
    }
    let about = super::tests::bad("-f 9 -o out --help=windows").to_string();
    assert!(
        about.contains("--periods") && !about.contains("--unwinder"),
        "{about}"
    );
    assert_eq!(super::tests::bad("--help=cookies").code, 2);
}
