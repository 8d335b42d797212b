//! Where the traces go and how they are named.

use super::{Category, Kind, Setting};
use crate::choices::{CategoryNames, Flows};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Output,
        "OUTPUT_PATH",
        Kind::Path { empty_means: None },
        "rsys-%tag%-output",
        "Folder for the traces, which is created; after -o also the trace itself: run.proto",
    )
    .details(
        "A name that ends in .proto, .pftrace or .perfetto-trace is the trace of the command, without a folder of the run; other processes \
         have a number behind that name, ranks of a job their rank. May hold path keys: %tag% (name of the command), %pid%, %rank%, %job%, %host%, %launch_time%, %env{NAME}% and others; \
         `rsys-sample --help` lists all.",
    )
    .option(Some('o'), "output", "DIR|FILE"),
    Setting::new(
        Category::Output,
        "OUTPUT_PREFIX",
        Kind::Text,
        "",
        "Text put in front of every file name, as it is; may hold path keys",
    )
    .details("Add your own `-` or `/` at its end.")
    .option(None, "output-prefix", "TEXT"),
    Setting::new(
        Category::Output,
        "TIME_OUTPUT",
        Kind::Bool,
        "true",
        "Put each run into a sub-folder named by the time of its start",
    )
    .option(None, "time-output", ""),
    Setting::new(
        Category::Output,
        "TIME_FORMAT",
        Kind::Text,
        "%F_%H.%M.%S",
        "How that sub-folder is named, in the notation of strftime(3)",
    ),
    Setting::new(
        Category::Output,
        "TRACE",
        Kind::Bool,
        "true",
        "Write a trace for each process; without it, only what PROFILE asks for",
    )
    .aliases(&["USE_PERFETTO", "USE_TRACE"])
    .details("`false` has no effect while PROFILE is off too: nothing else would be written. The option is `-T`."),
    Setting::new(
        Category::Output,
        "PERFETTO_FILE",
        Kind::Path { empty_means: None },
        "perfetto-trace.proto",
        "Name of the trace; the rank or process id is put in front of its extension",
    )
    .aliases(&["OUTPUT_FILE"])
    .details("May hold path keys.")
    .option(None, "trace-file", "NAME"),
    Setting::new(
        Category::Output,
        "USE_PID",
        Kind::Bool,
        "true",
        "Put the rank or the process id into file names",
    )
    .details(
        "Without it the command has the plain names. Every other process has a number in all of its names, and so has the command where \
         files of that name exist already: nothing is ever overwritten.",
    ),
    Setting::new(
        Category::Output,
        "MERGE",
        Kind::Bool,
        "false",
        "At the end of the run, also put the traces of all its processes into one",
    )
    .details(
        "It is called merged.pftrace and stands beside the traces, which stay; where they share their folder with those of other runs, its \
         name begins like that of the command's trace. `rsys-report merge` makes it. Of a task of a parallel job nothing is merged: \
         `rsys-report merge DIR -o FILE` does it when all tasks have ended.",
    )
    .option(None, "merge", ""),
    Setting::new(
        Category::Output,
        "SPLIT_TRACE",
        Kind::Limits,
        "",
        "Go on in another file when a trace has this size (500MB), or tells of this time (10min), or either (500MB 10min)",
    )
    .details(
        "For long runs: viewers hold a whole file in memory. The second file of a process ends with .part2.proto, and so on; each opens alone, with \
         what was open where it begins. `rsys-report` takes the files of a process as one trace. Beside several files stands a small one, \
         *.overview.proto, with the whole run in spans of time: it opens in seconds, and `rsys-report view` shows it. Nothing: one file, however \
         long.",
    )
    .option(None, "split", "LIMIT"),
    Setting::new(
        Category::Output,
        "CATEGORY_NAMES",
        Kind::Choice(CategoryNames::CHOICES),
        CategoryNames::Rsys.as_str(),
        "How the categories of slices in the trace are called",
    )
    .details("For scripts that were made for rocprof-sys and look for slices by their category.")
    .option(None, "category-names", "NAMES"),
    Setting::new(
        Category::Output,
        "FLOWS",
        Kind::Choice(Flows::CHOICES),
        Flows::Arrows.as_str(),
        "How the calls of a GPU runtime and what they caused refer to each other in the trace",
    )
    .details(
        "An arrow has the number in its id, so the answers of `rsys-report` are the same with each; docs/gpu.md has figures of what viewers pay. Operations and groups of RCCL have their numbers in any case.",
    )
    .option(None, "flows", "HOW"),
    Setting::new(
        Category::Output,
        "COMPRESS_TRACE",
        Kind::Bool,
        "true",
        "Compress the packets of the trace",
    )
    .details("Perfetto reads both forms.")
    .advanced()
    .option(None, "compress", ""),
];
