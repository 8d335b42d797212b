//! What the graphics driver says of one process's use of the GPUs: /proc/PID/fdinfo of its render nodes.
//!
//! Keys are those of the kernel's `Documentation/gpu/drm-usage-stats.rst` (amdgpu has them since 5.19): a client is told by each of its descriptors.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;

use crate::counters::{Gauge, Rate, Reading, Unit};

/// A process with more descriptors is looked at no further.
const FILES_MAX: usize = 4096;
/// How often descriptors are looked for, in nanoseconds: there may be many.
const PERIOD_NS: u64 = 1_000_000_000;

/// A GPU: its number, and its PCI address as the driver writes it.
pub type Address = (usize, String);

/// One process's use of the GPUs' engines.
#[derive(Debug)]
pub struct Engines {
    folder: PathBuf,
    gpus: Vec<Address>,
    next_ns: u64,
    engines: BTreeMap<(usize, String), (Rate, Gauge)>,
    memory: BTreeMap<(usize, String), Gauge>,
}

/// What was read at one time: by GPU and name, nanoseconds of engines and bytes of memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    engines_ns: BTreeMap<(usize, String), u64>,
    memory_bytes: BTreeMap<(usize, String), u64>,
}

impl Engines {
    /// Of the process whose folder in /proc this is.
    #[must_use]
    pub fn new(process: &std::path::Path, gpus: &[Address]) -> Self {
        Self {
            folder: process.join("fdinfo"),
            gpus: gpus.to_vec(),
            next_ns: 0,
            engines: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
    }

    /// Reads what there is, once a second.
    pub fn read(&mut self, time_ns: u64, out: &mut Vec<Reading>) {
        if self.gpus.is_empty() || time_ns < self.next_ns {
            return;
        }
        self.next_ns = time_ns.saturating_add(PERIOD_NS);
        let mut sums = Sums::default();
        let mut clients = HashSet::new();
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for file in files.take(FILES_MAX) {
            if let Ok(text) = fs::read_to_string(file.path()) {
                sums.add(&text, &self.gpus, &mut clients);
            }
        }
        for (key, ns) in sums.engines_ns {
            let (rate, gauge) = self.engines.entry(key.clone()).or_insert_with(|| {
                let name = format!("GPU Engine {} of Process [{}] (S)", key.1, key.0);
                let text = "Share of time in which this engine of the GPU worked for the process";
                let gauge = Gauge::new(name, Unit::Named("%"), None, text);
                (Rate::default(), gauge)
            });
            if let Some(ns_per_s) = rate.per_second(time_ns, ns) {
                gauge.set(time_ns, (ns_per_s / 1e4).round() / 1e3, out);
            }
        }
        for (key, bytes) in sums.memory_bytes {
            let gauge = self.memory.entry(key.clone()).or_insert_with(|| {
                let name = format!("GPU Driver Memory {} of Process [{}] (S)", key.1, key.0);
                let text = "Memory that the graphics driver keeps for the process";
                Gauge::new(name, Unit::Bytes, None, text)
            });
            gauge.set(time_ns, bytes as f64, out);
        }
    }
}

impl Sums {
    /// Adds what one descriptor says, unless another one of the same client has said it.
    fn add(&mut self, text: &str, gpus: &[Address], clients: &mut HashSet<(usize, String)>) {
        let pairs = || {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.map(|(key, value)| (key, value.trim()))
        };
        let find = |wanted: &str| pairs().find(|(key, _)| *key == wanted).map(|pair| pair.1);
        if find("drm-driver") != Some("amdgpu") {
            return;
        }
        let (Some(address), Some(client)) = (find("drm-pdev"), find("drm-client-id")) else {
            return;
        };
        let Some((gpu, _)) = gpus.iter().find(|(_, known)| known == address) else {
            return;
        };
        if !clients.insert((*gpu, client.to_owned())) {
            return;
        }
        for (key, value) in pairs() {
            let mut words = value.split(' ');
            let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                continue;
            };
            let unit = words.next();
            // How many engines of a kind there are is not a time.
            if let Some(engine) = key.strip_prefix("drm-engine-")
                && unit == Some("ns")
            {
                let sum = self.engines_ns.entry((*gpu, engine.to_owned()));
                *sum.or_default() += number;
            } else if let Some(memory) = key.strip_prefix("drm-memory-") {
                let scale = match unit {
                    Some("KiB") => 1 << 10,
                    Some("MiB") => 1 << 20,
                    _ => 1,
                };
                let sum = self.memory_bytes.entry((*gpu, memory.to_owned()));
                *sum.or_default() += number.saturating_mul(scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: u32, address: &str, gfx_ns: u64) -> String {
        format!(
            "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t{id}\ndrm-pdev:\t{address}\npasid:\t32770\n\
             drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t16 KiB\ndrm-engine-gfx:\t{gfx_ns} ns\ndrm-engine-capacity-gfx:\t1\n"
        )
    }

    #[test]
    fn a_process_with_two_clients_and_a_copy_of_one() {
        let root = std::env::temp_dir().join(format!("rsys-fdinfo-{}", std::process::id()));
        let folder = root.join("fdinfo");
        fs::create_dir_all(&folder).unwrap();
        let put = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        put("0", "pos:\t0\nflags:\t02\nmnt_id:\t25\n");
        put("3", &client(7, "0000:c1:00.0", 1_000));
        put("4", &client(7, "0000:c1:00.0", 1_000));
        put("5", &client(8, "0000:c1:00.0", 500));
        put("6", &client(9, "0000:ff:00.0", 9));
        let gpus = [(2, "0000:c1:00.0".to_owned())];
        let mut engines = Engines::new(&root, &gpus);
        let mut out = Vec::new();
        engines.read(5, &mut out);
        put("3", &client(7, "0000:c1:00.0", 500_001_000));
        put("4", &client(7, "0000:c1:00.0", 500_001_000));
        // Too early.
        engines.read(6, &mut out);
        engines.read(2_000_000_005, &mut out);
        let found: Vec<_> = out
            .iter()
            .map(|one| (one.counter.name.as_str(), one.value))
            .collect();
        assert_eq!(
            found,
            [
                ("GPU Driver Memory gtt of Process [2] (S)", 32_768.0),
                ("GPU Driver Memory vram of Process [2] (S)", 4_194_304.0),
                ("GPU Engine gfx of Process [2] (S)", 25.0),
            ]
        );
        fs::remove_dir_all(root).unwrap();
    }
}
