//! A gzipped profile for pprof: call stacks with CPU time, waiting time and the time of the kernels that they launched.

mod message;

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::run::Run;
use crate::stacks::{Frame, Stacks, times};
use crate::{Failure, Time};
use message::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// The kinds of values: what, its unit, and the time that it counts or adds up.
const KINDS: [(&str, &str, Time); 6] = [
    ("samples", "count", Time::Cpu),
    ("cpu", "nanoseconds", Time::Cpu),
    ("waits", "count", Time::Wait),
    ("wait", "nanoseconds", Time::Wait),
    ("kernels", "count", Time::Gpu),
    ("gpu", "nanoseconds", Time::Gpu),
];

/// Writes all times; which one is shown first is `first`.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, first: Time, out: &mut dyn Write) -> Result<(), Failure> {
    let stacks = Stacks::read(run.view)?;
    let mut tables = Tables::default();
    tables.text("");
    for (kind, unit, time) in KINDS {
        let (kind, unit) = (tables.text(kind), tables.text(unit));
        let kind = ValueType { kind, unit };
        tables.profile.sample_type.push(kind);
        if time == first {
            tables.profile.default_sample_type = kind.kind;
        }
    }
    let mut samples: HashMap<(Vec<u64>, Vec<Label>), usize> = HashMap::new();
    for time in [Time::Cpu, Time::Wait, Time::Gpu] {
        let mut kernels = Vec::new();
        for (key, sum) in times(run, time, &stacks, &mut kernels)? {
            let Some(process) = run.process(key.process as u64) else {
                continue;
            };
            let frames = key.frames.iter().rev();
            let location_id: Vec<u64> = frames.map(|frame| tables.location(*frame)).collect();
            let mut label = Vec::new();
            // pprof takes a number that is 0 for none, so ranks are texts.
            let rank = process.rank.map(|rank| rank.to_string());
            let texts = [
                ("thread", Some(&key.thread_name)),
                ("process", Some(&process.name)),
                ("rank", rank.as_ref()),
            ];
            for (name, text) in texts {
                let Some(text) = text else { continue };
                label.push(Label {
                    key: tables.text(name),
                    text: tables.text(text),
                    number: 0,
                });
            }
            for (name, number) in [("tid", key.thread), ("pid", process.pid)] {
                label.push(Label {
                    key: tables.text(name),
                    text: 0,
                    number: number.cast_signed(),
                });
            }
            let of_profile = &mut tables.profile.sample;
            let place = *samples
                .entry((location_id.clone(), label.clone()))
                .or_insert(of_profile.len());
            if place == of_profile.len() {
                of_profile.push(Sample {
                    location_id,
                    value: vec![0; KINDS.len()],
                    label,
                });
            }
            let values = of_profile[place].value.iter_mut();
            for (value, (_, unit, of)) in values.zip(KINDS) {
                if of == time {
                    let more = if unit == "count" {
                        sum.count
                    } else {
                        sum.weight
                    };
                    *value += more.cast_signed();
                }
            }
        }
    }
    let starts = run.processes().map(|(_, process)| process.start_ns);
    let start_ns = starts.filter(|&start_ns| start_ns > 0).min().unwrap_or(0);
    let end_ns = run.processes().map(|(_, process)| process.end_ns).max();
    let duration_ns = end_ns.unwrap_or(0).saturating_sub(start_ns);
    tables.profile.duration_nanos = duration_ns.cast_signed();
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&tables.profile.encode_to_vec())?;
    packed.finish()?;
    Ok(())
}

/// The profile, and what is in it already.
#[derive(Debug, Default)]
struct Tables {
    profile: Profile,
    texts: HashMap<String, i64>,
    /// By the number of the file's name.
    mappings: HashMap<i64, u64>,
    /// By the numbers of name and source.
    functions: HashMap<(i64, i64), u64>,
    /// By mapping, function and line.
    locations: HashMap<(u64, u64, u64), u64>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn mapping(&mut self, module: &str) -> u64 {
        if module.is_empty() {
            return 0;
        }
        let filename = self.text(module);
        let mappings = &mut self.profile.mapping;
        let next = mappings.len() as u64 + 1;
        let id = *self.mappings.entry(filename).or_insert(next);
        if id == next {
            mappings.push(Mapping {
                id,
                filename,
                has_functions: true,
            });
        }
        id
    }

    fn function(&mut self, name: &str, source: &str) -> u64 {
        let (name, filename) = (self.text(name), self.text(source));
        let functions = &mut self.profile.function;
        let next = functions.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            functions.push(Function {
                id,
                name,
                system_name: name,
                filename,
            });
        }
        id
    }

    fn location(&mut self, frame: Frame<'_>) -> u64 {
        let mapping_id = self.mapping(frame.module);
        let function_id = self.function(frame.function, frame.source);
        let locations = &mut self.profile.location;
        let next = locations.len() as u64 + 1;
        let key = (mapping_id, function_id, frame.line);
        let id = *self.locations.entry(key).or_insert(next);
        if id == next {
            locations.push(Location {
                id,
                mapping_id,
                line: vec![Line {
                    function_id,
                    line: frame.line.cast_signed(),
                }],
            });
        }
        id
    }
}
