//! The texts of `-h` and `--help`, and which options each of them lists.

use clap::builder::{StyledStr, Styles};
use rsys_config::keys;

/// The heading of the options that most people use; `-h` lists these alone.
pub(super) const USUAL_HEADING: &str = "Used most";
/// The heading of the options that are there for old command lines; `--help=original` lists them.
pub(super) const ORIGINAL_HEADING: &str = "For command lines of the original";

/// The ids of the options that most people use, in the order in which they are listed.
pub(super) const USUAL: [&str; 20] = [
    "SAMPLING_FREQ",
    "INCLUDE_BACKENDS",
    "SAMPLING_REALTIME",
    "OFF_CPU",
    "OUTPUT_PATH",
    "PROFILE",
    "wait",
    "duration",
    "pid",
    "dump",
    "CPU_EVENTS",
    "FOLLOW",
    "RANKS",
    "CONFIG_FILE",
    "preset",
    "dry-run",
    "doctor",
    "demo",
    "VERBOSE",
    "quiet",
];

/// What `-h` says in front of the options.
pub(super) fn short_introduction() -> StyledStr {
    let heading = *Styles::styled().get_header();
    format!("{SUMMARY}.\n\n{heading}Examples:{heading:#}\n{EXAMPLES}").into()
}

/// What the program does, in a line.
pub(super) const SUMMARY: &str = "Runs a program and writes where its time goes as Perfetto traces";

/// What `--help` says in front of the options.
pub(super) fn introduction() -> StyledStr {
    let heading = *Styles::styled().get_header();
    format!(
        "{SUMMARY}: one per process of its tree.\n\n\
         The program is not changed and needs no recompilation; it prints, returns and receives signals as without rsys-sample. \
         Open the traces in https://ui.perfetto.dev.\n\n\
         {heading}Examples:{heading:#}\n{EXAMPLES}"
    )
    .into()
}

const EXAMPLES: &str = "  \
  rsys-sample -- python3 train.py            a program and all that it starts
  rsys-sample -I rocm -- python3 train.py    with HIP, kernels, roctx and RCCL
  rsys-sample -f 1000 -o out -- ./solver     1000 Hz; traces go to ./out
  rsys-sample -o run.proto -- ./solver       the trace is the file run.proto
  rsys-sample --realtime -- ./server         what threads wait for, too
  rsys-sample -w 30 -d 10 -- ./solver        ten seconds, from second 30 on
  rsys-sample -p 4711 -d 10                  ten seconds of a process that runs
  rsys-sample --dump 4711                    its stacks now: why does it hang?
  srun -n 4 rsys-sample -- ./mpi_program     each rank writes its own trace";

/// What `--help=TOPIC` knows: a word of each group's title.
pub(super) const TOPICS: [&str; 11] = [
    "general",
    "output",
    "sampling",
    "windows",
    "summaries",
    "processes",
    "counters",
    "backends",
    "diagnostics",
    "help",
    "original",
];

/// What follows the options in the short help.
pub(super) const MORE: &str = "\
'--help' lists all options, '--help=TOPIC' those about general, output, sampling,
windows, summaries, processes, counters, backends, diagnostics or help, and
'--help=original' what old command lines may hold.";

/// What follows the options in the long help; no line is longer than 80 characters.
pub(super) fn epilogue() -> StyledStr {
    let heading = *Styles::styled().get_header();
    let key_rows = key_rows();
    let sections = [
        ("Where the command begins", BEGINNING),
        (
            "Keys in --output, --output-prefix and --trace-file",
            key_rows.trim_end(),
        ),
        ("Exit status", EXIT_STATUS),
        ("Environment", ENVIRONMENT),
        ("Files", FILES),
        ("Old command lines", OLD),
    ];
    let sections: Vec<String> = sections
        .iter()
        .map(|(title, body)| format!("{heading}{title}:{heading:#}\n{body}"))
        .collect();
    sections.join("\n\n").into()
}

/// The keys for output paths, one per line.
pub(super) fn key_rows() -> String {
    keys::KEYS
        .iter()
        .map(|(key, meaning)| format!("  {key:<26}{meaning}\n"))
        .collect()
}

const BEGINNING: &str = "  \
  Options end at '--' or at the first word that is not an option. From there,
  every word belongs to the command. Names of backends after -I and -E may stand
  one after another; such a list ends at the first word that names no backend.
  So may files after -c: 'none', or names that end in .cfg, .conf, .toml, .json
  or .xml.";

const EXIT_STATUS: &str = "  \
  The command's own. If a signal ended it, rsys-sample ends by the same signal.
  2    an option or a setting is wrong; the command was not run
  125  rsys-sample itself failed
  126  the command was found but cannot be executed
  127  the command was not found
  With --dump: 125 if one of the processes could not be read, else 0.
  With --doctor: 1 if something is missing that the options ask for, else 0.";

const ENVIRONMENT: &str = "  \
  RSYS_<SETTING>   sets any setting, for example RSYS_SAMPLING_FREQ=100; without
                   it, ROCPROFSYS_<SETTING> and OMNITRACE_<SETTING> count
  NO_COLOR, CLICOLOR=0
                   switch colours off, like --monochrome
  Options win over the environment, and the environment wins over files.";

const FILES: &str = "  \
  ~/.rsys.cfg, ~/.rocprof-sys.cfg, ~/.rocprofiler-systems.cfg
                   read where they exist, unless -c or RSYS_CONFIG_FILE names
                   others; the first of them wins. They hold lines KEY = value,
                   TOML, JSON or XML; rsys-avail -G writes one. -c none reads
                   no file; -v says what was read.";

const OLD: &str = "  \
  Command lines of rocprof-sys-sample and omnitrace-sample run as they are, with
  their options in all spellings: '--help=original' lists those that are there
  for them alone.";
