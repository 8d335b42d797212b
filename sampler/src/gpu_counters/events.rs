//! What the user asks for: names of counters become expressions over events of the hardware, for each GPU by its architecture.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rsys_config::nearest::nearest;
use rsys_machine::gpu::Gpu;
use rsys_machine::gpu::definitions::{self, Definition, Formula};
use rsys_machine::gpu::expression::Expression;
use rsys_machine::roots::Roots;

use crate::counters::{Gauge, Group, Unit};
use crate::kernel_counters::PROPERTIES;
use crate::smi::Wanted;

/// A counter that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    name: String,
    /// Of which GPU alone.
    device: Option<usize>,
}

/// The words of a list, as the original has them: `SQ_WAVES,GRBM_COUNT:device=0`. One that is not understood is said in `complaints`.
fn asked(list: &str, complaints: &mut Vec<String>) -> Vec<Asked> {
    let words = list.split(|next: char| next == ',' || next.is_whitespace());
    let words = words.filter(|word| !word.is_empty());
    let mut all = Vec::new();
    for word in words {
        let (name, device) = match word.split_once(":device=") {
            Some((name, device)) => (name, Some(device.parse())),
            None => (word, None),
        };
        match (name, device.transpose()) {
            ("", _) => complaints.push(format!("'{word}' does not name a counter")),
            (name, Ok(device)) => all.push(Asked {
                name: name.to_owned(),
                device,
            }),
            (name, Err(_)) => complaints.push(format!(
                "no {name}: '{word}' does not end with the number of a GPU; for example: {name}:device=0"
            )),
        }
    }
    all
}

/// The definitions of counters: of this file, or those that are installed. `None` where the file cannot be read, which is said in `complaints`.
pub fn definitions(
    roots: &Roots,
    file: Option<&PathBuf>,
    complaints: &mut Vec<String>,
) -> Option<Vec<Definition>> {
    let Some(file) = file else {
        return Some(definitions::installed(roots, complaints));
    };
    match definitions::read_all(std::slice::from_ref(file)) {
        Ok(all) => Some(all),
        Err(error) => {
            complaints.push(format!("no hardware counters of GPUs: {error:#}"));
            None
        }
    }
}

/// What is to be read of these GPUs. What cannot be is said in `complaints`, a line each.
pub fn wanted(
    list: &str,
    gpus: &[&Gpu],
    definitions: &[Definition],
    complaints: &mut Vec<String>,
) -> Vec<Wanted> {
    let mut all = Vec::new();
    for (gpu, address, counters) in meant(list, gpus, definitions, complaints) {
        let group = Arc::new(Group {
            name: format!("Hardware counters of {}", gpu.title()),
            identity: address.clone(),
        });
        all.extend(counters.into_iter().map(|counter| {
            let name = format!("{} [{}] (C)", counter.name, gpu.index);
            Wanted {
                address: address.clone(),
                sensors: vec![counter.expression.to_string()],
                gauge: Gauge::new(name, Unit::Count, Some(&group), &counter.description),
                gpu: gpu.title(),
                metric: counter.name,
                reason: "a hardware counter".to_owned(),
                named: true,
            }
        }));
    }
    all
}

/// A counter that is asked for, and that a GPU has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meant {
    /// As the user calls it.
    pub(super) name: String,
    /// Over events and [`PROPERTIES`].
    pub(super) expression: Expression,
    description: String,
}

/// What a list means on each of these GPUs, with its address. What is not there is said in `complaints`.
pub(super) fn meant<'g>(
    list: &str,
    gpus: &[&'g Gpu],
    definitions: &[Definition],
    complaints: &mut Vec<String>,
) -> Vec<(&'g Gpu, String, Vec<Meant>)> {
    let list = asked(list, complaints);
    let mut all = Vec::new();
    // What is wrong on several GPUs is said once.
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for gpu in gpus {
        let Some(address) = gpu.pci_address() else {
            complaints.push(format!(
                "{}: no hardware counters: its address is not known",
                gpu.title()
            ));
            continue;
        };
        let mut counters = Vec::new();
        let own: Vec<&Definition> = definitions
            .iter()
            .filter(|definition| definition.fits(&gpu.architecture))
            .collect();
        for one in &list {
            if one.device.is_some_and(|device| device != gpu.index) {
                continue;
            }
            match expression(&one.name, &own) {
                Ok(expression) => {
                    let known = own.iter().find(|definition| definition.name == one.name);
                    let description = known.map_or_else(String::new, |known| known.summary());
                    counters.push(Meant {
                        name: one.name.clone(),
                        expression,
                        description,
                    });
                }
                Err(reason) => {
                    let what = format!("no {}: {reason}", one.name);
                    refused.entry(what).or_default().push(gpu.title());
                }
            }
        }
        all.push((*gpu, address, counters));
    }
    for (what, gpus) in refused {
        complaints.push(format!("{}: {what}", gpus.join(", ")));
    }
    for one in list {
        let is_there = |device: usize| gpus.iter().any(|gpu| gpu.index == device);
        if let Some(device) = one.device.filter(|device| !is_there(*device)) {
            complaints.push(format!("no {}: there is no GPU {device}", one.name));
        }
    }
    all
}

/// Block and number of `SQ:4`.
pub(super) fn event(name: &str) -> Option<(String, u32)> {
    let (block, number) = name.split_once(':')?;
    Some((block.to_owned(), number.parse().ok()?))
}

/// What a name means, over events alone.
fn expression(name: &str, definitions: &[&Definition]) -> Result<Expression, String> {
    let find = |name: &str| definitions.iter().find(|one| one.name == name);
    let meaning = |name: &str| match &find(name)?.formula {
        Formula::Event { block, event } => Some(Ok(Expression::Name(format!("{block}:{event}")))),
        Formula::Computed(text) => Some(Expression::parse(text)),
        Formula::Unknown => Some(Err("its definition does not say what it counts".to_owned())),
    };
    let whole = Expression::Name(name.to_owned()).expand(&meaning)?;
    let is_event = |name: &str| {
        let number = name
            .split_once(':')
            .map(|(_, number)| number.parse::<u32>());
        matches!(number, Some(Ok(_)))
    };
    let unknown = whole
        .names()
        .into_iter()
        .find(|name| !is_event(name) && !PROPERTIES.contains(name));
    let Some(unknown) = unknown else {
        return Ok(whole);
    };
    let names = definitions.iter().map(|one| one.name.as_str());
    Err(match (nearest(unknown, names), definitions.is_empty()) {
        (Some(near), _) if unknown == name => format!("there is no such counter; did you mean {near}?"),
        (_, true) => "no definitions of counters are installed (they come with ROCm; --counter-definitions FILE \
                      reads another file); without them, name events as BLOCK:NUMBER"
            .to_owned(),
        _ if unknown == name => "there is no such counter; rsys-avail -H lists them".to_owned(),
        _ => format!("it needs {unknown}, which is not known here"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, formula: Formula) -> Definition {
        Definition {
            name: name.to_owned(),
            description: String::new(),
            architectures: Vec::new(),
            formula,
        }
    }

    fn event(block: &str, event: u32) -> Formula {
        Formula::Event {
            block: block.to_owned(),
            event,
        }
    }

    #[test]
    fn lists_are_read_as_the_original_writes_them() {
        let mut complaints = Vec::new();
        let found = asked("GPUBusy, SQ_WAVES:device=1,SQ:4:device=0", &mut complaints);
        let found: Vec<_> = found.iter().map(|one| (&*one.name, one.device)).collect();
        let expected = [("GPUBusy", None), ("SQ_WAVES", Some(1)), ("SQ:4", Some(0))];
        assert_eq!(found, expected);
        assert!(asked(" , ", &mut complaints).is_empty() && complaints.is_empty());
        // Never on all GPUs what was meant for one.
        assert!(asked("SQ_WAVES:device=a,:device=0", &mut complaints).is_empty());
        assert!(
            complaints[0].contains("SQ_WAVES:device=0"),
            "{complaints:?}"
        );
        assert!(complaints[1].contains("does not name"), "{complaints:?}");
    }

    #[test]
    fn names_become_expressions_over_events() {
        let busy = "100*reduce(GRBM_GUI_ACTIVE,max)/reduce(GRBM_COUNT,max)";
        let all = [
            definition("GRBM_COUNT", event("GRBM", 0)),
            definition("GRBM_GUI_ACTIVE", event("GRBM", 2)),
            definition("GPUBusy", Formula::Computed(busy.to_owned())),
            definition("Odd", Formula::Computed("reduce(NOT_HERE,sum)".to_owned())),
            definition(
                "Late",
                Formula::Computed("accumulate(GRBM_COUNT,X)".to_owned()),
            ),
            definition("Empty", Formula::Unknown),
        ];
        let all: Vec<&Definition> = all.iter().collect();
        let told = |name: &str| match expression(name, &all) {
            Ok(expression) => expression.to_string(),
            Err(reason) => reason,
        };
        assert_eq!(told("GRBM_COUNT"), "GRBM:0");
        assert_eq!(told("SQ:4"), "SQ:4");
        let expected = "100*reduce(GRBM:2,max)/reduce(GRBM:0,max)";
        assert_eq!(told("GPUBusy"), expected);
        for (name, reason) in [
            ("GRBM_COUNTS", "did you mean GRBM_COUNT?"),
            ("Zebra", "rsys-avail -H lists them"),
            ("Odd", "it needs NOT_HERE"),
            ("Late", "accumulate"),
            ("Empty", "does not say"),
        ] {
            assert!(told(name).contains(reason), "{name}: {}", told(name));
        }
        let none = expression("SQ_WAVES", &[]).unwrap_err();
        assert!(none.contains("--counter-definitions"), "{none}");
    }
}
