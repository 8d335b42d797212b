//! Counters of single kernels: what the user asks for becomes events for the agent, and expressions for what it tells.

use rsys_config::Resolved;
use rsys_machine::gpu::definitions::Definition;
use rsys_machine::gpu::{self, Gpu};
use rsys_machine::roots::Roots;
use rsys_wire::kernel_counters::MOST_EVENTS;
use rsys_wire::name_list::{NAMES_BYTES, NameList};
use rsys_wire::pattern::Pattern;

use super::events::{Meant, definitions, event, meant};
use crate::kernel_counters::{CounterSet, KernelCounter, KernelCounters};

/// What is said where kernels are counted.
const IN_TURN: &str =
    "--gpu-counters has the kernels of a queue run one after the other: the run takes longer";

/// What is to be counted of kernels.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// For the agents: events and GPUs.
    pub sets: NameList,
    /// For the agents: which kernels.
    pub kernels: Pattern,
    /// For what agents tell.
    pub counters: KernelCounters,
}

/// A plan by the settings, for the GPUs of this machine. What cannot be counted is said in `complaints`, a line each.
#[must_use]
pub fn plan(resolved: &Resolved, roots: &Roots, complaints: &mut Vec<String>) -> Plan {
    if resolved.gpu_counters.is_empty() {
        return Plan::default();
    }
    let refused = match (resolved.gpu_source, resolved.gpu_level) {
        (rsys_config::GpuSource::Off, _) => {
            Some("kernels are not recorded with --gpu-source off".to_owned())
        }
        (rsys_config::GpuSource::Hip, _) => Some(
            "they are counted in the queues of the HSA runtime, which --gpu-source hip leaves alone; leave that option out, or say \
             --gpu-source hsa"
                .to_owned(),
        ),
        (_, rsys_config::GpuLevel::Lite) => Some(
            "--gpu-level lite leaves packets as they are; counters take commands among them"
                .to_owned(),
        ),
        _ => None,
    };
    let kernels = Pattern::new(&resolved.gpu_counters_kernels);
    let refused = refused.or_else(|| {
        let why = kernels.as_ref().err()?;
        Some(format!(
            "--gpu-counters-kernels '{}' is not understood: {why}",
            resolved.gpu_counters_kernels
        ))
    });
    if let Some(why) = refused {
        complaints.push(format!("no counters of kernels: {why}"));
        return Plan::default();
    }
    let gpus = gpu::find(roots);
    if gpus.is_empty() {
        let remedy = gpu::no_gpu_remedy(roots);
        complaints.push(format!("no counters of kernels: {}. {remedy}", gpu::NO_GPU));
        return Plan::default();
    }
    let file = resolved.counter_definitions.as_ref();
    let Some(definitions) = definitions(roots, file, complaints) else {
        return Plan::default();
    };
    let gpus: Vec<&Gpu> = gpus.iter().collect();
    let (words, sets) = sets(&resolved.gpu_counters, &gpus, &definitions, complaints);
    let text = words.join(",");
    if text.len() > NAMES_BYTES {
        complaints.push(
            "no counters of kernels: too many at a time for the GPUs of this machine; name fewer"
                .to_owned(),
        );
        return Plan::default();
    }
    if !sets.is_empty() {
        complaints.push(IN_TURN.to_owned());
    }
    Plan {
        sets: NameList::parse(&text),
        kernels: kernels.unwrap_or_default(),
        counters: KernelCounters::new(sets),
    }
}

/// GPUs on which the same is counted share a set. Each as agents get it, and as their answers are read.
fn sets(
    list: &str,
    gpus: &[&Gpu],
    definitions: &[Definition],
    complaints: &mut Vec<String>,
) -> (Vec<String>, Vec<CounterSet>) {
    let mut words: Vec<String> = Vec::new();
    let mut sets: Vec<CounterSet> = Vec::new();
    for (gpu, address, counters) in meant(list, gpus, definitions, complaints) {
        let set = set(&gpu.title(), counters, complaints);
        if set.events.is_empty() {
            continue;
        }
        match sets.iter().position(|other| *other == set) {
            Some(place) => words[place].push_str(&format!("+{address}")),
            None => {
                words.push(format!("{}@{address}", set.events.join("+")));
                sets.push(set);
            }
        }
    }
    (words, sets)
}

/// What is counted on a GPU.
fn set(gpu: &str, counters: Vec<Meant>, complaints: &mut Vec<String>) -> CounterSet {
    let mut set = CounterSet::default();
    for Meant {
        name, expression, ..
    } in counters
    {
        // Any numbers do: whether there is a value does not depend on them.
        let property = |name: &str| event(name).is_none().then_some(1.0);
        let can_be = expression.reduced(&|_, _| Some(1.0), &property).is_some();
        let names = expression.names().into_iter();
        let mut events: Vec<String> = names
            .filter(|name| event(name).is_some() && !set.events.iter().any(|known| known == name))
            .map(str::to_owned)
            .collect();
        events.sort();
        events.dedup();
        if !can_be {
            complaints.push(format!(
                "{gpu}: no {name} of kernels: it is made of the values of single instances, of which only sums, greatest and least ones are recorded"
            ));
        } else if set.events.len() + events.len() > MOST_EVENTS {
            complaints.push(format!(
                "{gpu}: no {name} of kernels: more than {MOST_EVENTS} events would be counted; name fewer"
            ));
        } else {
            set.events.extend(events);
            set.counters.push(KernelCounter::new(&name, expression));
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use rsys_machine::gpu::definitions::Formula;

    use super::*;

    fn definition(name: &str, formula: Formula) -> Definition {
        Definition {
            name: name.to_owned(),
            description: String::new(),
            architectures: Vec::new(),
            formula,
        }
    }

    #[test]
    fn events_are_counted_once_and_what_cannot_be_is_said() {
        let waves = Formula::Event {
            block: "SQ".to_owned(),
            event: 4,
        };
        let computed = |text: &str| Formula::Computed(text.to_owned());
        let all = [
            definition("SQ_WAVES", waves),
            definition("Waves", computed("reduce(SQ_WAVES,sum)/CU_NUM")),
            definition("Odd", computed("reduce(SQ_WAVES*SQ_WAVES,sum)")),
        ];
        let folder = std::env::temp_dir().join(format!("rsys-kernels-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let gpus: Vec<Gpu> = (0..3)
            .map(|index| {
                let device = folder.join(format!("card{index}"));
                std::os::unix::fs::symlink(format!("0000:0{index}:00.0"), &device).unwrap();
                Gpu {
                    index,
                    architecture: "gfx90a".to_owned(),
                    device: Some(device),
                }
            })
            .collect();
        let gpus: Vec<&Gpu> = gpus.iter().collect();
        let meant_sets = |complaints: &mut Vec<String>| {
            let list = "SQ_WAVES,Waves,Odd,TCC:17:device=1,SQ_WAVE";
            sets(list, &gpus, &all, complaints)
        };
        let mut complaints = Vec::new();
        let (words, sets) = meant_sets(&mut complaints);
        std::fs::remove_dir_all(&folder).unwrap();
        let expected = ["SQ:4@0000:00:00.0+0000:02:00.0", "SQ:4+TCC:17@0000:01:00.0"];
        assert_eq!(words, expected);
        let names = |set: &CounterSet| -> Vec<String> {
            let arguments = set.counters.iter().map(KernelCounter::argument);
            arguments.map(str::to_owned).collect()
        };
        assert_eq!(names(&sets[0]), ["counter_SQ_WAVES", "counter_Waves"]);
        assert_eq!(
            names(&sets[1]),
            ["counter_SQ_WAVES", "counter_Waves", "counter_TCC:17"]
        );
        assert_eq!(complaints.len(), 4, "{complaints:?}");
        assert!(
            complaints
                .iter()
                .any(|line| line.contains("did you mean SQ_WAVES?"))
        );
        assert!(
            complaints
                .iter()
                .any(|line| line.contains("no Odd of kernels"))
        );
    }
}
