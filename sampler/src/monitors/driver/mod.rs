//! Events that the compute driver tells of GPUs and of processes on them: faults, migrations, evictions, throttling, resets.

mod client;
mod message;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use self::client::{Client, Heard};
use self::message::{GpuEvent, Message, ProcessEvent};
use super::kfd::GpuId;
use crate::counters::{Gauge, Group, Reading, Unit};

/// Page faults under way that are remembered; beyond it, their times are not known.
const FAULTS_MAX: usize = 1 << 16;

/// The events of some GPUs.
#[derive(Debug)]
pub struct Events {
    client: Client,
    gpus: Vec<Gpu>,
    processes: HashMap<(u32, usize), Process>,
    /// When page faults began, by process, GPU and page.
    faults: HashMap<(u32, usize, u64), u64>,
    /// What was read of processes, and not taken.
    readings: HashMap<u32, Vec<Reading>>,
}

#[derive(Debug)]
struct Gpu {
    id: GpuId,
    memory_faults: Total,
    throttled: Total,
    resets: Total,
}

/// One process on one GPU.
#[derive(Debug)]
struct Process {
    faults: Total,
    fault_ns: Total,
    moved_in: Total,
    moved_out: Total,
    evicted: Gauge,
}

/// A counter that only grows.
#[derive(Debug)]
struct Total {
    gauge: Gauge,
    sum: u64,
    time_ns: u64,
}

impl Total {
    fn new(name: String, unit: Unit, group: Option<&Arc<Group>>, text: &str) -> Self {
        Self {
            gauge: Gauge::new(name, unit, group, text),
            sum: 0,
            time_ns: 0,
        }
    }

    fn add(&mut self, time_ns: u64, more: u64, out: &mut Vec<Reading>) {
        self.sum = self.sum.saturating_add(more);
        // The driver's threads tell what they have seen a moment later, and in any order.
        self.time_ns = self.time_ns.max(time_ns);
        let value = match self.gauge.unit() {
            // Kept in nanoseconds.
            Unit::Named(_) => self.sum as f64 / 1e9,
            _ => self.sum as f64,
        };
        self.gauge.set(self.time_ns, value, out);
    }
}

impl Process {
    fn new(index: usize) -> Self {
        let name = |what: &str| format!("{what} of Process [{index}] (S)");
        let total = |what: &str, unit, text| Total::new(name(what), unit, None, text);
        Self {
            faults: total(
                "GPU Page Faults",
                Unit::Count,
                "Pages that kernels of this process had to wait for",
            ),
            fault_ns: total(
                "GPU Page Fault Time",
                Unit::Named("sec"),
                "Sum of the times until such a page was there",
            ),
            moved_in: total(
                "GPU Memory Migrated In",
                Unit::Bytes,
                "Memory of this process that moved to the GPU",
            ),
            moved_out: total(
                "GPU Memory Migrated Out",
                Unit::Bytes,
                "Memory of this process that moved from the GPU",
            ),
            evicted: Gauge::new(
                name("GPU Queues Evicted"),
                Unit::Count,
                None,
                "1 while the driver keeps the queues of this process from running",
            ),
        }
    }
}

impl Events {
    /// Hears the driver, whose device this is.
    ///
    /// # Errors
    /// Why there is nothing to be heard, in words.
    pub fn start(device: &Path, gpus: Vec<(GpuId, Arc<Group>)>) -> Result<Self, String> {
        let ids: Vec<u64> = gpus.iter().map(|(id, _)| id.gpu_id).collect();
        let client = Client::start(device, &ids)?;
        let gpus = gpus.into_iter().map(|(id, group)| {
            let total = |what: &str, text| {
                let name = format!("{what} [{}] (S)", id.index);
                Total::new(name, Unit::Count, Some(&group), text)
            };
            Gpu {
                memory_faults: total(
                    "GPU Memory Faults",
                    "Accesses to memory that is not there, of any process",
                ),
                throttled: total("GPU Throttled", "How often it was slowed down for its heat"),
                resets: total("GPU Resets", "How often the driver reset it"),
                id,
            }
        });
        Ok(Self {
            client,
            gpus: gpus.collect(),
            processes: HashMap::new(),
            faults: HashMap::new(),
            readings: HashMap::new(),
        })
    }

    /// Reads what happened; `out` is for what happened to whole GPUs.
    pub fn read(&mut self, out: &mut Vec<Reading>) {
        // Of processes that nobody asked for.
        self.readings.clear();
        let mut heard = self.client.take();
        heard.sort_by_key(Heard::happened_ns);
        for heard in heard {
            self.take_in(&heard, out);
        }
    }

    /// What happened to a process by the last [`read`](Self::read).
    pub fn of_process(&mut self, pid: u32) -> Vec<Reading> {
        self.readings.remove(&pid).unwrap_or_default()
    }

    fn take_in(&mut self, heard: &Heard, out: &mut Vec<Reading>) {
        let place = heard.gpu;
        let Some(gpu) = self.gpus.get_mut(place) else {
            return;
        };
        let (time_ns, pid, what) = match heard.message {
            Message::Gpu(what) => {
                let total = match what {
                    GpuEvent::MemoryFault => &mut gpu.memory_faults,
                    GpuEvent::Throttle => &mut gpu.throttled,
                    GpuEvent::Reset => &mut gpu.resets,
                };
                total.add(heard.time_ns, 1, out);
                return;
            }
            Message::Process { time_ns, pid, what } => (time_ns, pid, what),
        };
        let own = gpu.id.gpu_id;
        let index = gpu.id.index;
        let process = self
            .processes
            .entry((pid, place))
            .or_insert_with(|| Process::new(index));
        let out = self.readings.entry(pid).or_default();
        match what {
            ProcessEvent::PageFaultBegins(page) => {
                process.faults.add(time_ns, 1, out);
                if self.faults.len() < FAULTS_MAX {
                    self.faults.insert((pid, place, page), time_ns);
                }
            }
            ProcessEvent::PageFaultEnds(page) => {
                if let Some(began_ns) = self.faults.remove(&(pid, place, page)) {
                    let took_ns = time_ns.saturating_sub(began_ns);
                    process.fault_ns.add(time_ns, took_ns, out);
                }
            }
            ProcessEvent::Migration { bytes, from, to } => {
                if to == own {
                    process.moved_in.add(time_ns, bytes, out);
                }
                if from == own {
                    process.moved_out.add(time_ns, bytes, out);
                }
            }
            ProcessEvent::Eviction => process.evicted.set(time_ns, 1.0, out),
            ProcessEvent::Restore => process.evicted.set(time_ns, 0.0, out),
        }
    }
}
