//! The counters of the host.

mod memory;
mod network;
mod processors;
mod spread;
mod temperature;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rsys_config::Numbers;
use rsys_machine::roots::Roots;

use self::memory::{Memory, Pressure};
use self::network::Network;
use self::processors::{Frequency, Load};
use self::spread::Chosen;
use self::temperature::Temperature;
use super::file::KeptFile;
use crate::counters::{Group, Reading};

/// Shortest time between two readings of what changes slowly, or costs much to read.
const SLOW_NS: u64 = 1_000_000_000;

/// The host's files, kept open, with their counters.
#[derive(Debug)]
pub struct Host {
    load: Option<Load>,
    frequency: Option<Frequency>,
    memory: Option<Memory>,
    pressure: Vec<Pressure>,
    network: Option<Network>,
    temperature: Option<Temperature>,
    next_slow_ns: u64,
}

impl Host {
    /// What this host offers. `processors` have tracks of their own; where nothing is said, none.
    #[must_use]
    pub fn new(roots: &Roots, processors: &Numbers) -> Self {
        let group = Arc::new(Group {
            name: "Host".to_owned(),
            identity: String::new(),
        });
        let open = |path: &str| KeptFile::open(&roots.path(path)).ok();
        let chosen = Chosen(processors.clone());
        let pressure = ["cpu", "memory", "io"].into_iter().filter_map(|resource| {
            let file = open(&format!("proc/pressure/{resource}"))?;
            // Kernels without pressure accounting show the files and refuse to fill them.
            file.read(&mut [0; 256]).ok()?;
            Some(Pressure::new(resource, file, &group))
        });
        Self {
            load: open("proc/stat").map(|file| Load::new(file, chosen.clone(), &group)),
            frequency: Frequency::new(roots, chosen, &group),
            memory: open("proc/meminfo").map(|file| Memory::new(file, &group)),
            pressure: pressure.collect(),
            network: open("proc/net/dev").map(|file| Network::new(file, &group)),
            temperature: Temperature::new(roots, &group),
            next_slow_ns: 0,
        }
    }

    /// Reads all counters.
    pub fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        if let Some(load) = &mut self.load {
            load.read(time_ns, scratch, out);
        }
        if let Some(memory) = &mut self.memory {
            memory.read(time_ns, scratch, out);
        }
        for pressure in &mut self.pressure {
            pressure.read(time_ns, scratch, out);
        }
        if let Some(network) = &mut self.network {
            network.read(time_ns, scratch, out);
        }
        if time_ns >= self.next_slow_ns {
            self.next_slow_ns = time_ns + SLOW_NS;
            if let Some(frequency) = &mut self.frequency {
                frequency.read(time_ns, scratch, out);
            }
            if let Some(temperature) = &mut self.temperature {
                temperature.read(time_ns, scratch, out);
            }
        }
    }
}
