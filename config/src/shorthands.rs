//! Options that set several settings, or other ones than their own.
//!
//! A setting that a row names and that is not in the table of settings yet is accepted with the note of
//! [`crate::IGNORED_SETTINGS`]. Once a setting has an option of its own with the same word, that one counts
//! and the row here is without effect ([`all`] leaves it out).

use crate::backends;
use crate::origin::Origin;
use crate::original::options;
use crate::problem::{Problem, ProblemKind};
use crate::setting::Category;
use crate::settings::{Note, Settings};
use crate::shorthand::{Effect, row};
pub use crate::shorthand::{Shorthand, Takes};
use crate::table;
use crate::text::{parse_bool, words};

use Category::{Backends, Diagnostics, Output, Profile, Sampling, Windows};
use Takes::{Bool, List, Maybe, One};

#[rustfmt::skip]
const ROWS: &[Shorthand] = &[
    // Time windows.
    row(Some('w'), "wait", One("TIME"), Windows, Effect::Same(&["TRACE_DELAY", "SAMPLING_DELAY"]),
        "Keep nothing before this time after the start of the run"),
    row(Some('d'), "duration", One("TIME"), Windows, Effect::Same(&["TRACE_DURATION", "SAMPLING_DURATION"]),
        "Keep what happens for this long only, counted from the end of --wait"),
    row(None, "periods", List("PERIODS"), Windows, Effect::Same(&["TRACE_PERIODS", "SAMPLING_PERIODS"]),
        "Keep what happens in these windows only: WAIT:RECORD[:TIMES], again and again when TIMES is 0"),
    // Summaries.
    row(Some('F'), "flat-profile", Bool, Profile, Effect::Same(&["PROFILE", "FLAT_PROFILE"]),
        "The same as --profile, without the tree of calls"),
    row(None, "profile-format", List("FORMAT"), Profile,
        Effect::Formats(&[("text", "TEXT_OUTPUT"), ("json", "JSON_OUTPUT"), ("console", "COUT_OUTPUT")]),
        "In which forms the summary is written: text, json, console"),
    // Backends by what they are about.
    row(None, "gpu", Maybe("SENSORS"), Backends, Effect::Sensors("rocm-smi", "AMD_SMI_METRICS"),
        "GPU sensors, all or those named: temp,power,busy,mem_usage"),
    row(None, "rocm", Maybe("PARTS"), Backends,
        Effect::BackendWords(&["rocm"], &[
            ("hip", "hip"), ("kernel", "hip"), ("memory", "hip"), ("hsa", "hsa"), ("marker", "roctx"), ("roctx", "roctx"), ("rccl", "rcclp"),
        ]),
        "ROCm activity, all or some: hip,kernel,memory,hsa,marker,rccl"),
    row(None, "parallel", Maybe("APIS"), Backends,
        Effect::BackendWords(&["mpip", "ompt", "kokkosp", "rcclp"], &[
            ("mpi", "mpip"), ("openmp", "ompt"), ("kokkos", "kokkosp"), ("rccl", "rcclp"),
        ]),
        "Interfaces of parallel programs, all or some: mpi,openmp,kokkos,rccl"),
    row(Some('H'), "host", Bool, Backends, Effect::Same(&["USE_PROCESS_SAMPLING", "CPU_FREQ_ENABLED"]),
        "Counters of the machine and of the processes"),
    row(None, "cpu", Maybe("HZ"), Backends, Effect::Rate("USE_PROCESS_SAMPLING", "PROCESS_SAMPLING_FREQ"),
        "The same as --host, this often per second"),
    row(None, "process-freq", One("HZ"), Backends, Effect::Same(&["PROCESS_SAMPLING_FREQ"]),
        "How often per second counters of machine, processes and GPUs are read"),
    row(Some('C'), "cpu-events", List("EVENT"), Backends, Effect::Same(&["PAPI_EVENTS"]),
        "Hardware counters for each thread"),
    row(Some('G'), "gpu-events", List("COUNTER"), Backends, Effect::Same(&["GPU_EVENTS"]),
        "Hardware counters of GPUs, over time; each may end with :device=N"),
    row(None, "sample-overflow", List("EVENT"), Sampling, Effect::Overflow,
        "Samples by the occurrence of an event; may be followed by how often it occurs, and threads"),
    row(None, "cpus", List("CPUS"), Backends, Effect::Same(&["SAMPLING_CPUS"]), "The processors whose counters are read"),
    row(None, "gpus", List("GPUS"), Backends, Effect::Same(&["SAMPLING_GPUS"]), "The GPUs whose sensors are read"),
    // How much is said.
    row(None, "log-level", One("LEVEL"), Diagnostics, Effect::LogLevel,
        "How much is said, in words: trace, debug, info, warn, error, critical, off"),
    row(Some('T'), "trace", Maybe("BOOL"), Output, Effect::Trace,
        "Write a trace (-T off: only the summary that -P asks for); -T flat and -T tree ask for a summary of that form too"),
];

/// All rows in use, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Shorthand> {
    ROWS.iter().chain(options::ROWS).filter(|row| {
        !table::all()
            .filter_map(|setting| setting.option.as_ref())
            .any(|option| {
                option.long == row.long
                    || option.aliases.contains(&row.long)
                    || (row.short.is_some() && option.short == row.short)
            })
    })
}

impl Settings {
    /// Does what a shorthand says, over what is there. An option without a value comes with none.
    ///
    /// # Errors
    /// Every value that does not fit.
    pub fn apply(
        &mut self,
        shorthand: &Shorthand,
        values: &[String],
        origin: &Origin,
    ) -> Result<(), Vec<Problem>> {
        let mut call = Call {
            settings: self,
            shorthand,
            origin,
            problems: Vec::new(),
        };
        call.run(values);
        if call.problems.is_empty() {
            Ok(())
        } else {
            Err(call.problems)
        }
    }

    /// Adds names to `INCLUDE_BACKENDS` or `EXCLUDE_BACKENDS`.
    fn add_backends(
        &mut self,
        setting: &str,
        names: &[&str],
        origin: &Origin,
    ) -> Result<(), Problem> {
        let before = self.get(setting).map(ToString::to_string);
        let text = format!("{} {}", before.unwrap_or_default(), names.join(" "));
        self.set(setting, &text, origin.clone())
    }
}

struct Call<'a> {
    settings: &'a mut Settings,
    shorthand: &'a Shorthand,
    origin: &'a Origin,
    problems: Vec<Problem>,
}

impl Call<'_> {
    fn run(&mut self, values: &[String]) {
        let text = values.join(",");
        match self.shorthand.effect {
            Effect::Same(names) => {
                let text = if values.is_empty() { "true" } else { &text };
                // What is wrong for one of them is wrong for all, and is said once.
                for name in names {
                    let result = self.settings.set(name, text, self.origin.clone());
                    if let Err(problem) = result {
                        self.problems.push(problem);
                        break;
                    }
                }
            }
            Effect::BackendWords(all, words) => self.backend_words(all, words, &text),
            Effect::Sensors(backend, setting) => match parse_bool(&text) {
                Some(false) => self.add("EXCLUDE_BACKENDS", &[backend]),
                _ => {
                    self.add("INCLUDE_BACKENDS", &[backend]);
                    if !text.is_empty() && parse_bool(&text).is_none() {
                        self.set(setting, &text);
                    }
                }
            },
            Effect::Rate(switch, rate) => {
                let is_off = matches!(text.to_ascii_lowercase().as_str(), "off" | "false" | "no");
                self.set(switch, if is_off { "false" } else { "true" });
                if text.parse::<f64>().is_ok() {
                    self.set(rate, &text);
                } else if !text.is_empty() && parse_bool(&text).is_none() {
                    self.bad(&text, "a number of times per second, or nothing", None);
                }
            }
            Effect::Formats(formats) => self.formats(formats, &text),
            Effect::LogLevel => self.log_level(&text),
            Effect::Trace => self.trace(&text),
            Effect::Variable(name) => self.settings.exports.push((name.to_owned(), text)),
            Effect::Overflow => {
                self.set("SAMPLING_OVERFLOW", "true");
                let names = ["SAMPLING_OVERFLOW_EVENT", "SAMPLING_OVERFLOW_FREQ"];
                for (name, word) in names.iter().zip(words(&text)) {
                    self.set(name, word);
                }
                let threads: Vec<&str> = words(&text).skip(names.len()).collect();
                if !threads.is_empty() {
                    self.set("SAMPLING_OVERFLOW_TIDS", &threads.join(","));
                }
            }
            Effect::Clocks => self.clocks(&text),
            Effect::TraceFormats => {
                let others: Vec<&str> = words(&text).filter(|word| *word != "perfetto").collect();
                if !others.is_empty() {
                    let text = format!(
                        "no {} output: the trace is a Perfetto trace",
                        others.join(", ")
                    );
                    self.note(text);
                }
            }
        }
    }

    fn set(&mut self, name: &str, text: &str) {
        let result = self.settings.set(name, text, self.origin.clone());
        self.problems.extend(result.err());
    }

    fn add(&mut self, setting: &str, names: &[&str]) {
        let result = self.settings.add_backends(setting, names, self.origin);
        self.problems.extend(result.err());
    }

    fn bad(&mut self, value: &str, allowed: &str, nearest: Option<&'static str>) {
        self.problems.push(Problem {
            kind: Box::new(ProblemKind::BadValue {
                setting: self.shorthand.long,
                value: value.to_owned(),
                allowed: allowed.to_owned(),
                nearest,
            }),
            origin: self.origin.clone(),
            line_text: None,
            width: 0,
        });
    }

    fn note(&mut self, text: String) {
        self.settings.notes.push(Note {
            origin: self.origin.clone(),
            text,
            important: true,
        });
    }

    fn backend_words(
        &mut self,
        all: &[&str],
        known: &'static [(&'static str, &'static str)],
        text: &str,
    ) {
        match parse_bool(text) {
            Some(false) => return self.add("EXCLUDE_BACKENDS", all),
            Some(true) => return self.add("INCLUDE_BACKENDS", all),
            None if text.is_empty() => return self.add("INCLUDE_BACKENDS", all),
            None => {}
        }
        for word in words(text) {
            let found = known.iter().find(|(name, _)| *name == word);
            let backend = found.map(|(_, backend)| *backend);
            match backend.or_else(|| backends::find(word).map(|backend| backend.name)) {
                Some(backend) => self.add("INCLUDE_BACKENDS", &[backend]),
                None => self.unknown_word(word, known),
            }
        }
    }

    fn clocks(&mut self, text: &str) {
        const CLOCKS: &[(&str, &str)] = &[
            ("cputime", "SAMPLING_CPUTIME"),
            ("realtime", "SAMPLING_REALTIME"),
            ("overflow", "SAMPLING_OVERFLOW"),
        ];
        for word in words(text) {
            match CLOCKS.iter().find(|(clock, _)| *clock == word) {
                Some((_, setting)) => self.set(setting, "true"),
                None if parse_bool(word).is_some() => self.set("USE_SAMPLING", word),
                None => self.unknown_word(word, CLOCKS),
            }
        }
    }

    fn formats(&mut self, formats: &'static [(&'static str, &'static str)], text: &str) {
        let mut chosen = Vec::new();
        for word in words(text) {
            match formats.iter().find(|(name, _)| *name == word) {
                Some((_, setting)) => chosen.push(*setting),
                None => self.unknown_word(word, formats),
            }
        }
        for (_, setting) in formats {
            let is_chosen = chosen.contains(setting);
            self.set(setting, if is_chosen { "true" } else { "false" });
        }
        self.set("PROFILE", "true");
    }

    fn unknown_word(&mut self, word: &str, known: &'static [(&'static str, &'static str)]) {
        let names = known.iter().map(|(name, _)| *name);
        let allowed = format!("some of {}", names.clone().collect::<Vec<_>>().join(", "));
        self.bad(word, &allowed, crate::nearest::nearest(word, names));
    }

    fn log_level(&mut self, text: &str) {
        const LEVELS: [(&str, &str); 7] = [
            ("trace", "3"),
            ("debug", "2"),
            ("info", "1"),
            ("warn", "0"),
            ("error", "-1"),
            ("critical", "-1"),
            ("off", "-1"),
        ];
        match LEVELS
            .iter()
            .find(|(name, _)| text.eq_ignore_ascii_case(name))
        {
            Some((_, verbose)) => self.set("VERBOSE", verbose),
            None => {
                let names = LEVELS.map(|(name, _)| name);
                let nearest = crate::nearest::nearest(text, names.into_iter());
                self.bad(text, &format!("one of {}", names.join(", ")), nearest);
            }
        }
    }

    fn trace(&mut self, text: &str) {
        let flat = match text.to_ascii_lowercase().as_str() {
            "flat" => "true",
            "tree" => "false",
            other => {
                match parse_bool(other) {
                    _ if other.is_empty() => self.set("TRACE", "true"),
                    Some(_) => self.set("TRACE", other),
                    None => self.bad(
                        text,
                        "true or false, or flat or tree for a summary of that form",
                        None,
                    ),
                }
                return;
            }
        };
        self.set("PROFILE", "true");
        self.set("FLAT_PROFILE", flat);
    }
}
