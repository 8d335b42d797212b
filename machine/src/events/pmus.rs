//! The counting units that the kernel describes below /sys/bus/event_source/devices.
//!
//! Each has a number (`type`), named events (`events/NAME`: `event=0x76,umask=0x01`), and fields (`format/FIELD`: `config:0-7,32-35`).
//! See Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format.

use std::collections::BTreeMap;
use std::path::Path;

use nix::errno::Errno;

use super::{Access, Counter};
use crate::perf::{Availability, Event, Machine, Reason, Scope};
use crate::roots::{Roots, names, text};

/// Endings of files beside the events that are no events themselves.
const COMPANIONS: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];

/// Units that the kernel's generic events stand for, or that need an address.
const ELSEWHERE: [&str; 3] = ["software", "tracepoint", "breakpoint"];

struct Unit {
    /// As perf takes it: `uncore_imc` for all of `uncore_imc_0`, `uncore_imc_1` and so on.
    name: String,
    /// How many there are.
    count: usize,
    number: u32,
    scope: Scope,
    fields: BTreeMap<String, Field>,
    /// Name, terms, unit of measurement.
    events: Vec<(String, String, String)>,
}

/// The bits of a field: word (`config`, `config1`, `config2`) and ranges of bits, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    word: usize,
    ranges: Vec<(u32, u32)>,
    written: String,
}

/// All units' events, and for each unit how to write an event by its fields.
pub(super) fn counters(roots: &Roots, machine: &Machine) -> Vec<Counter> {
    let mut counters = Vec::new();
    for unit in units(roots) {
        let mut last = None;
        for (event, terms, measured) in &unit.events {
            let access = match unit.encode(terms) {
                Ok(config) => Access::from(machine.probe(&unit.event(config))),
                Err(why) => Access::No(
                    why,
                    "Give it a value as perf does: PMU/EVENT,FIELD=VALUE/.".to_owned(),
                ),
            };
            last = Some(access.clone());
            let of_many = match unit.count {
                1 => String::new(),
                count => format!(" (on {count} units)"),
            };
            let measured = match measured.as_str() {
                "" => String::new(),
                measured => format!(", in {measured}"),
            };
            counters.push(Counter {
                name: format!("{}/{event}/", unit.name),
                also: Vec::new(),
                device: "CPU".to_owned(),
                kind: "PMU",
                summary: format!("{}{measured}{of_many}", event.replace(['_', '-'], " ")),
                details: format!("{}/{terms}/", unit.name),
                access,
            });
        }
        if !unit.fields.is_empty() {
            let fields: Vec<String> = unit
                .fields
                .iter()
                .map(|(name, field)| format!("{name} ({})", field.written))
                .collect();
            let access = last.unwrap_or_else(|| match machine.probe(&unit.event([0; 3])) {
                // The unit answers, and wants to know which event.
                Availability::No(Reason::Other(Errno::EINVAL)) => Access::Yes,
                answer => Access::from(answer),
            });
            counters.push(Counter {
                name: format!("{}/FIELD=VALUE,.../", unit.name),
                also: Vec::new(),
                device: "CPU".to_owned(),
                kind: "PMU",
                summary: format!(
                    "any event by its fields: {}",
                    unit.fields.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
                details: format!("Fields and their bits: {}.", fields.join("; ")),
                access,
            });
        }
    }
    counters
}

/// The event of `UNIT/EVENT/` or `UNIT/FIELD=VALUE,.../`.
pub(super) fn find(roots: &Roots, unit: &str, terms: &str) -> Result<Event, String> {
    let folder = roots.path("sys/bus/event_source/devices");
    let named = names(&folder)
        .into_iter()
        .filter(|name| !ELSEWHERE.contains(&name.as_str()))
        // All of several alike units are listed by the name without a number: the first stands for them.
        .find(|name| name == unit || without_number(name) == unit);
    let unit = named
        .and_then(|name| read(&folder.join(&name), &name))
        .ok_or_else(|| format!("no counting unit is called '{unit}'; rsys-avail -H lists them"))?;
    let listed = unit.events.iter().find(|(event, ..)| event == terms);
    let terms = match listed {
        Some((_, terms, _)) => terms,
        None if terms.contains('=') || unit.fields.contains_key(terms) => terms,
        None => return Err(format!("{} has no event '{terms}'", unit.name)),
    };
    unit.encode(terms).map(|config| unit.event(config))
}

/// The configuration words of `event=0x76,umask=0x01`, with fields as the files below `format/` have them: name and text.
///
/// # Errors
/// What is missing.
pub fn encode<'a>(
    formats: impl IntoIterator<Item = (&'a str, &'a str)>,
    terms: &str,
) -> Result<[u64; 3], String> {
    let fields = formats
        .into_iter()
        .filter_map(|(name, written)| Some((name.to_owned(), Field::parse(written.trim())?)))
        .collect();
    encode_in(&fields, terms)
}

/// All units; numbered ones with the same events are taken together.
fn units(roots: &Roots) -> Vec<Unit> {
    let folder = roots.path("sys/bus/event_source/devices");
    let mut units: Vec<Unit> = Vec::new();
    for name in names(&folder) {
        if ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        let Some(unit) = read(&folder.join(&name), &name) else {
            continue;
        };
        let base = without_number(&unit.name).to_owned();
        let alike = units
            .iter_mut()
            .find(|other| without_number(&other.name) == base && other.events == unit.events);
        match alike {
            Some(first) if base != unit.name => {
                first.name = base;
                first.count += 1;
            }
            _ => units.push(unit),
        }
    }
    units
}

/// `uncore_imc_3` without its number.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

fn read(folder: &Path, name: &str) -> Option<Unit> {
    let number = text(&folder.join("type"))?.parse().ok()?;
    // Units outside the cores say on which processor they are to be asked.
    let scope = match text(&folder.join("cpumask")) {
        Some(mask) => Scope::Processor(first_number(&mask)?),
        None => Scope::Thread,
    };
    let fields = names(&folder.join("format"))
        .into_iter()
        .filter_map(|field| {
            let written = text(&folder.join("format").join(&field))?;
            Some((field, Field::parse(&written)?))
        })
        .collect();
    let events_folder = folder.join("events");
    let events = names(&events_folder)
        .into_iter()
        .filter(|event| !COMPANIONS.iter().any(|ending| event.ends_with(ending)))
        .filter_map(|event| {
            let terms = text(&events_folder.join(&event))?;
            let measured = text(&events_folder.join(format!("{event}.unit"))).unwrap_or_default();
            Some((event, terms, measured))
        })
        .collect();
    Some(Unit {
        name: name.to_owned(),
        count: 1,
        number,
        scope,
        fields,
        events,
    })
}

fn first_number(list: &str) -> Option<u32> {
    list.split([',', '-']).next()?.trim().parse().ok()
}

impl Field {
    /// Reads `config1:0-7,21`.
    fn parse(written: &str) -> Option<Self> {
        let (word, ranges) = written.split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let ranges = ranges
            .split(',')
            .map(|range| {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
                (low <= high && high < 64).then_some((low, high))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            word,
            ranges,
            written: written.to_owned(),
        })
    }

    /// Puts a value into its bits.
    fn put(&self, mut value: u64, config: &mut [u64; 3]) {
        for (low, high) in &self.ranges {
            let width = high - low + 1;
            let mask = u64::MAX >> (64 - width);
            config[self.word] |= (value & mask) << low;
            value = value.checked_shr(width).unwrap_or(0);
        }
    }
}

impl Unit {
    fn event(&self, config: [u64; 3]) -> Event {
        Event {
            kind: self.number,
            config,
            user_only: false,
            scope: self.scope,
        }
    }

    fn encode(&self, terms: &str) -> Result<[u64; 3], String> {
        encode_in(&self.fields, terms)
    }
}

fn encode_in(fields: &BTreeMap<String, Field>, terms: &str) -> Result<[u64; 3], String> {
    let mut config = [0; 3];
    for term in terms
        .split(',')
        .map(str::trim)
        .filter(|term| !term.is_empty())
    {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        if value == "?" {
            return Err(format!("needs a value for '{name}'"));
        }
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let (Some(field), Ok(value)) = (fields.get(name), value) else {
            return Err(format!("unknown term '{term}'"));
        };
        field.put(value, &mut config);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_put_into_their_bits() {
        let cases = [
            ("config:0-7", 0x76, [0x76, 0, 0]),
            ("config:0-7,32-35", 0x1c0, [0x1_0000_00c0, 0, 0]),
            ("config:23", 1, [0x80_0000, 0, 0]),
            ("config1:0-63", u64::MAX, [0, u64::MAX, 0]),
            ("config2:8-15", 0x1ff, [0, 0, 0xff00]),
        ];
        for (written, value, expected) in cases {
            let mut config = [0; 3];
            Field::parse(written)
                .expect(written)
                .put(value, &mut config);
            assert_eq!(config, expected, "{written}");
        }
        for written in [
            "config",
            "config:8-1",
            "config:0-64",
            "config9:1",
            "config:x",
        ] {
            assert_eq!(Field::parse(written), None, "{written}");
        }
    }

    #[test]
    fn numbers_of_units() {
        assert_eq!(without_number("uncore_imc_3"), "uncore_imc");
        assert_eq!(without_number("amd_df"), "amd_df");
        assert_eq!(without_number("cpu"), "cpu");
    }
}
