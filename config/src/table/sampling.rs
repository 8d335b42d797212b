//! How call stacks are sampled and resolved.

use super::{Category, Kind, Setting};
use crate::choices::{Python, SamplingClock, Unwinder};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Sampling,
        "SAMPLING_FREQ",
        Kind::Float {
            min: 1.0,
            max: 20_000.0,
            unit: "Hz",
        },
        "300",
        "Samples per second of CPU time, for each thread",
    )
    .details(
        "With names it sets the rate of each clock: `-f cpu=300,real=100` for samples of CPU time and for samples of blocked threads.",
    )
    .option(Some('f'), "freq", "HZ")
    .option_aliases(&["sampling-freq"]),
    Setting::new(
        Category::Sampling,
        "SAMPLING_CPUTIME_FREQ",
        Kind::Float {
            min: -1.0,
            max: 20_000.0,
            unit: "Hz",
        },
        "0",
        "The same for the CPU-time clock alone; 0 means as SAMPLING_FREQ",
    )
    .option(None, "cputime-freq", "HZ")
    .advanced(),
    Setting::new(
        Category::Sampling,
        "SAMPLING_CLOCK",
        Kind::Choice(SamplingClock::CHOICES),
        SamplingClock::Auto.as_str(),
        "Which clock takes the samples",
    )
    .option(None, "clock", "CLOCK"),
    Setting::new(
        Category::Sampling,
        "SAMPLING_REALTIME",
        Kind::Bool,
        "false",
        "Also show what threads wait for, by the wall clock",
    )
    .details(
        "Blocked threads are sampled from outside: nothing interrupts them. \
         Running ones are sampled by their CPU time as always.",
    )
    .option(None, "realtime", "")
    .option_aliases(&["sample-realtime"]),
    Setting::new(
        Category::Sampling,
        "SAMPLING_REALTIME_FREQ",
        Kind::Float {
            min: -1.0,
            max: 1000.0,
            unit: "Hz",
        },
        "0",
        "How often per second blocked threads are sampled; 0 means as often as SAMPLING_FREQ, but at most 1000 times",
    )
    .option(None, "realtime-freq", "HZ"),
    Setting::new(
        Category::Sampling,
        "UNWINDER",
        Kind::Choice(Unwinder::CHOICES),
        Unwinder::Cfi.as_str(),
        "How stacks are walked",
    )
    .option(None, "unwinder", "ENGINE"),
    Setting::new(
        Category::Sampling,
        "SAMPLING_MAX_DEPTH",
        Kind::Int {
            min: 1,
            max: 2048,
            unit: "frames",
        },
        "512",
        "Deepest stack that is recorded; deeper ones are cut and marked",
    )
    .option(None, "max-depth", "FRAMES")
    .advanced(),
    Setting::new(
        Category::Sampling,
        "SAMPLING_INCLUDE_INLINES",
        Kind::Bool,
        "true",
        "Show functions that the compiler inlined as frames of their own",
    )
    .option(Some('i'), "inlines", ""),
    Setting::new(
        Category::Sampling,
        "PYTHON",
        Kind::Choice(Python::CHOICES),
        Python::On.as_str(),
        "Which frames of Python programs are shown (CPython 3.8 to 3.15)",
    )
    .option(None, "python", "FRAMES"),
    Setting::new(
        Category::Sampling,
        "PYTHON_NATIVE",
        Kind::Bool,
        "false",
        "Show the functions of the Python interpreter itself between the Python frames",
    )
    .option(None, "python-native", ""),
    Setting::new(
        Category::Sampling,
        "RING_SIZE_KB",
        Kind::Int {
            min: 16,
            max: 65_536,
            unit: "KiB",
        },
        "256",
        "Size of each thread's buffer between target and sampler",
    )
    .details("Raise it when the run reports records that were dropped because a ring was full.")
    .option(None, "ring-size", "KIB")
    .advanced(),
    Setting::new(
        Category::Sampling,
        "SYMBOL_CACHE",
        Kind::Path {
            empty_means: Some("the user's cache folder"),
        },
        "",
        "Folder in which resolved symbols are kept for the next run",
    )
    .details("`none` keeps none. Debug information that is compressed is kept there unpacked.")
    .option(None, "symbol-cache", "DIR")
    .advanced(),
];
