//! What the kernel's compute driver says of one process: /sys/class/kfd/kfd/proc/PID.

use std::io::Read;
use std::path::PathBuf;

use rsys_machine::roots::{Roots, names};

use super::numbers::numbers;
use crate::counters::{Gauge, Reading, Unit};

/// The folder with one folder per process.
const PROCESSES: &str = "sys/class/kfd/kfd/proc";

/// A GPU as KFD counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuId {
    /// As ROCm counts it.
    pub index: usize,
    /// As KFD calls it.
    pub gpu_id: u64,
}

/// The GPUs of this machine with their ids, in ROCm's order.
#[must_use]
pub fn gpu_ids(roots: &Roots) -> Vec<GpuId> {
    let nodes = "sys/class/kfd/kfd/topology/nodes";
    let ids = names(&roots.path(nodes)).into_iter().filter_map(|node| {
        let id = roots
            .text(&format!("{nodes}/{node}/gpu_id"))?
            .parse()
            .ok()?;
        (id != 0).then_some(id)
    });
    let numbered = ids.enumerate();
    numbered
        .map(|(index, gpu_id)| GpuId { index, gpu_id })
        .collect()
}

/// One process's use of the GPUs.
#[derive(Debug)]
pub struct Usage {
    /// The process, as the driver calls it.
    pub pid: u32,
    folder: PathBuf,
    gpus: Vec<(GpuId, Option<Gauge>, Option<Gauge>)>,
    memory: bool,
    occupancy: bool,
}

impl Usage {
    /// Of the process with this id, as the driver calls it. What is asked for: memory, and the
    /// compute units in use.
    #[must_use]
    pub fn new(roots: &Roots, pid: u32, gpus: &[GpuId], memory: bool, occupancy: bool) -> Self {
        let gpus = gpus.iter().map(|gpu| (gpu.clone(), None, None));
        Self {
            pid,
            folder: roots.path(PROCESSES).join(pid.to_string()),
            gpus: gpus.collect(),
            memory,
            occupancy,
        }
    }

    /// Reads what there is: a process has a folder once it uses a GPU.
    pub fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        if self.gpus.is_empty() || !self.folder.exists() {
            return;
        }
        for (gpu, memory, occupancy) in &mut self.gpus {
            let GpuId { index, gpu_id } = gpu;
            let mut number = |name: String| {
                let mut file = std::fs::File::open(self.folder.join(name)).ok()?;
                let length = file.read(scratch).ok()?;
                numbers(&scratch[..length]).next()
            };
            if self.memory
                && let Some(bytes) = number(format!("vram_{gpu_id}"))
            {
                let gauge = memory.get_or_insert_with(|| {
                    let text = "Memory of the GPU that this process uses";
                    let name = format!("GPU Memory of Process [{index}] (S)");
                    Gauge::new(name, Unit::Bytes, None, text)
                });
                gauge.set(time_ns, bytes as f64, out);
            }
            if self.occupancy
                && let Some(units) = number(format!("stats_{gpu_id}/cu_occupancy"))
            {
                let gauge = occupancy.get_or_insert_with(|| {
                    let text = "Compute units of the GPU on which this process runs";
                    let name = format!("GPU Occupancy of Process [{index}] (S)");
                    Gauge::new(name, Unit::Named("CUs"), None, text)
                });
                gauge.set(time_ns, units as f64, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_process_on_two_gpus() {
        let root = std::env::temp_dir().join(format!("rsys-kfd-{}", std::process::id()));
        let put = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (node, id) in [(0, 0), (1, 31111), (2, 32222)] {
            let name = format!("sys/class/kfd/kfd/topology/nodes/{node}/gpu_id");
            put(&name, &format!("{id}\n"));
        }
        let roots = Roots::simulated(root.clone());
        let gpus = gpu_ids(&roots);
        assert_eq!(
            gpus.iter().map(|gpu| gpu.gpu_id).collect::<Vec<_>>(),
            [31111, 32222]
        );
        let mut usage = Usage::new(&roots, 77, &gpus, true, true);
        let (mut scratch, mut out) = ([0; 256], Vec::new());
        usage.read(1, &mut scratch, &mut out);
        assert!(out.is_empty(), "it uses no GPU yet");
        put("sys/class/kfd/kfd/proc/77/vram_31111", "4096\n");
        put("sys/class/kfd/kfd/proc/77/vram_32222", "0\n");
        put("sys/class/kfd/kfd/proc/77/stats_31111/cu_occupancy", "12\n");
        usage.read(2, &mut scratch, &mut out);
        let found: Vec<_> = out
            .iter()
            .map(|one| (one.counter.name.as_str(), one.value))
            .collect();
        assert_eq!(
            found,
            [
                ("GPU Memory of Process [0] (S)", 4096.0),
                ("GPU Occupancy of Process [0] (S)", 12.0),
                ("GPU Memory of Process [1] (S)", 0.0),
            ]
        );
        fs::remove_dir_all(root).unwrap();
    }
}
