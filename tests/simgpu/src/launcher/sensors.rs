//! Sensors: files whose values follow the simulated load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::describe::{Plan, boottime_ns};
use super::metrics::Metrics;
use super::models::Model;
use super::tree::pci_folder;
use crate::board::{Board, GpuBoard};
use crate::settings::Machine;

/// Temperature without any load.
const COOL: f64 = 34.0;
/// By how many degrees full load heats.
const HEATING: f64 = 46.0;
/// Time after which a change of temperature is made for the most part.
const HEAT_CAPACITY_S: f64 = 6.0;
const IDLE_CLOCK_MHZ: u32 = 132;

/// The sensors of all GPUs.
#[derive(Debug)]
pub struct Sensors {
    gpus: Vec<Sensor>,
    board: &'static Board,
    last_update_ns: u64,
}

#[derive(Debug)]
struct Sensor {
    folder: PathBuf,
    model: &'static Model,
    vram_bytes: u64,
    load_clock_mhz: u32,
    busy_ns: u64,
    copied_bytes: u64,
    edge_degrees: f64,
    energy_j: f64,
    busy_seconds: f64,
    written: Vec<(String, Vec<u8>)>,
}

/// What the GPU did since the last update.
#[derive(Debug, Clone, Copy)]
struct Load {
    busy: f64,
    memory_busy: f64,
    seconds: f64,
    used_bytes: u64,
}

impl Sensors {
    /// Sensors of this machine; the first update writes them.
    pub fn new(root: &Path, plan: &Plan, machine: &Machine, board: &'static Board) -> Self {
        let gpus = machine.gpus.iter().enumerate();
        let gpus = gpus.map(|(index, gpu)| Sensor {
            folder: pci_folder(root, index),
            model: plan.model,
            vram_bytes: gpu.vram_bytes,
            load_clock_mhz: gpu.load_clock_mhz,
            busy_ns: 0,
            copied_bytes: 0,
            edge_degrees: COOL,
            energy_j: 0.0,
            busy_seconds: 0.0,
            written: Vec::new(),
        });
        let mut sensors = Self {
            gpus: gpus.collect(),
            board,
            last_update_ns: boottime_ns(),
        };
        sensors.update();
        sensors
    }

    /// Moves all sensors to now. Called about ten times per second.
    pub fn update(&mut self) {
        let now_ns = boottime_ns();
        let elapsed_ns = now_ns.saturating_sub(self.last_update_ns);
        self.last_update_ns = now_ns;
        for (sensor, board) in self.gpus.iter_mut().zip(&self.board.gpus) {
            let load = sensor.load(board, now_ns, elapsed_ns);
            sensor.update(load, now_ns);
        }
    }
}

impl Sensor {
    fn load(&mut self, board: &GpuBoard, now_ns: u64, elapsed_ns: u64) -> Load {
        // Work is accounted for when it starts: what is still to come does not count yet.
        let to_come = board
            .busy_until_ns
            .load(Ordering::Relaxed)
            .saturating_sub(now_ns);
        let busy_ns = board
            .busy_ns
            .load(Ordering::Relaxed)
            .saturating_sub(to_come);
        let copied_bytes = board.copied_bytes.load(Ordering::Relaxed);
        let elapsed = elapsed_ns.max(1) as f64;
        let hung = board.hung.load(Ordering::Relaxed) > 0;
        let busy = if hung {
            1.0
        } else {
            (busy_ns.saturating_sub(self.busy_ns) as f64 / elapsed).min(1.0)
        };
        let copied = copied_bytes.saturating_sub(self.copied_bytes) as f64;
        (self.busy_ns, self.copied_bytes) = (busy_ns.max(self.busy_ns), copied_bytes);
        Load {
            busy,
            // Kernels use some of the memory's bandwidth, copies what they need of 25 GB/s.
            memory_busy: (busy * 0.4 + copied / elapsed / 25.0).min(1.0),
            seconds: elapsed / 1e9,
            used_bytes: board.used_bytes.load(Ordering::Relaxed),
        }
    }

    fn update(&mut self, load: Load, now_ns: u64) {
        let model = self.model;
        let cap_w = f64::from(model.power_w);
        let power_w = cap_w * 0.17 + cap_w * 0.7 * load.busy;
        let target = COOL + HEATING * load.busy;
        self.edge_degrees +=
            (target - self.edge_degrees) * (1.0 - (-load.seconds / HEAT_CAPACITY_S).exp());
        self.energy_j += power_w * load.seconds;
        self.busy_seconds += load.busy * load.seconds;
        let clock_mhz = if load.busy > 0.0 {
            self.load_clock_mhz
        } else {
            IDLE_CLOCK_MHZ
        };
        // The middle level is the one that moves, as the driver shows it.
        let middle_mhz = match clock_mhz {
            IDLE_CLOCK_MHZ => model.clock_mhz / 2,
            _ if clock_mhz == model.clock_mhz => model.clock_mhz / 2,
            _ => clock_mhz,
        };
        let fan_percent = ((self.edge_degrees - COOL) / HEATING).mul_add(60.0, 20.0);
        let metrics = Metrics {
            edge_degrees: self.edge_degrees,
            busy_percent: percent(load.busy),
            memory_busy_percent: percent(load.memory_busy),
            power_w,
            energy_j: self.energy_j,
            now_ns,
            clock_mhz,
            memory_clock_mhz: model.memory_clock_mhz,
            fan_rpm: (fan_percent * 50.0) as u16,
            busy_seconds: self.busy_seconds,
        };
        let degrees = |over: f64| format!("{}000\n", (self.edge_degrees + over).round());
        let microwatts = |watts: f64| format!("{}000000\n", watts.round());
        let values = [
            ("gpu_busy_percent", format!("{}\n", percent(load.busy))),
            (
                "mem_busy_percent",
                format!("{}\n", percent(load.memory_busy)),
            ),
            ("mem_info_vram_total", format!("{}\n", self.vram_bytes)),
            ("mem_info_vram_used", format!("{}\n", load.used_bytes)),
            ("mem_info_vis_vram_total", format!("{}\n", self.vram_bytes)),
            ("mem_info_vis_vram_used", format!("{}\n", load.used_bytes)),
            ("mem_info_gtt_total", format!("{}\n", self.vram_bytes)),
            ("mem_info_gtt_used", "0\n".to_owned()),
            (
                "pp_dpm_sclk",
                levels(&[IDLE_CLOCK_MHZ, middle_mhz, model.clock_mhz], clock_mhz),
            ),
            (
                "pp_dpm_mclk",
                levels(
                    &[model.memory_clock_mhz / 4, model.memory_clock_mhz],
                    model.memory_clock_mhz,
                ),
            ),
            ("hwmon/hwmon0/name", "amdgpu\n".to_owned()),
            ("hwmon/hwmon0/power1_average", microwatts(power_w)),
            ("hwmon/hwmon0/power1_input", microwatts(power_w)),
            ("hwmon/hwmon0/power1_label", "PPT\n".to_owned()),
            ("hwmon/hwmon0/power1_cap", microwatts(cap_w)),
            ("hwmon/hwmon0/power1_cap_min", "0\n".to_owned()),
            ("hwmon/hwmon0/power1_cap_max", microwatts(cap_w)),
            ("hwmon/hwmon0/power1_cap_default", microwatts(cap_w)),
            (
                "hwmon/hwmon0/energy1_input",
                format!("{}\n", (self.energy_j * 1e6) as u64),
            ),
            ("hwmon/hwmon0/temp1_input", degrees(0.0)),
            ("hwmon/hwmon0/temp1_label", "edge\n".to_owned()),
            ("hwmon/hwmon0/temp1_crit", "100000\n".to_owned()),
            ("hwmon/hwmon0/temp1_emergency", "105000\n".to_owned()),
            ("hwmon/hwmon0/temp2_input", degrees(5.0)),
            ("hwmon/hwmon0/temp2_label", "junction\n".to_owned()),
            ("hwmon/hwmon0/temp2_crit", "110000\n".to_owned()),
            ("hwmon/hwmon0/temp2_emergency", "115000\n".to_owned()),
            ("hwmon/hwmon0/temp3_input", degrees(2.0)),
            ("hwmon/hwmon0/temp3_label", "mem\n".to_owned()),
            ("hwmon/hwmon0/temp3_crit", "94000\n".to_owned()),
            ("hwmon/hwmon0/temp3_emergency", "99000\n".to_owned()),
            ("hwmon/hwmon0/in0_input", "850\n".to_owned()),
            ("hwmon/hwmon0/in0_label", "vddgfx\n".to_owned()),
            (
                "hwmon/hwmon0/freq1_input",
                format!("{}\n", u64::from(clock_mhz) * 1_000_000),
            ),
            ("hwmon/hwmon0/freq1_label", "sclk\n".to_owned()),
            (
                "hwmon/hwmon0/freq2_input",
                format!("{}\n", u64::from(model.memory_clock_mhz) * 1_000_000),
            ),
            ("hwmon/hwmon0/freq2_label", "mclk\n".to_owned()),
            ("hwmon/hwmon0/fan1_input", format!("{}\n", metrics.fan_rpm)),
            ("hwmon/hwmon0/fan1_max", "5000\n".to_owned()),
            (
                "hwmon/hwmon0/pwm1",
                format!("{}\n", (fan_percent * 2.55) as u8),
            ),
            ("hwmon/hwmon0/pwm1_max", "255\n".to_owned()),
        ];
        for (name, value) in values {
            self.write(name, value.into_bytes());
        }
        self.write("gpu_metrics", metrics.to_bytes());
    }

    /// Replaces a file, whole: readers see the old value or the new one.
    fn write(&mut self, name: &str, value: Vec<u8>) {
        let known = self.written.iter().position(|(known, _)| known == name);
        match known {
            Some(index) if self.written[index].1 == value => return,
            Some(index) => self.written[index].1.clone_from(&value),
            None => self.written.push((name.to_owned(), value.clone())),
        }
        let path = self.folder.join(name);
        let draft = self.folder.join(".draft");
        if let Some(parent) = path.parent().filter(|_| known.is_none()) {
            // A failure shows in the next step.
            drop(fs::create_dir_all(parent));
        }
        let written = fs::write(&draft, value).and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            eprintln!("rsys-simgpu: cannot write {}: {error}", path.display());
        }
    }
}

fn percent(share: f64) -> u16 {
    (share * 100.0).round() as u16
}

/// A list of clocks as the driver shows it, with a star at the current one.
fn levels(clocks: &[u32], current: u32) -> String {
    let lines = clocks.iter().enumerate().map(|(level, clock)| {
        let star = if *clock == current { "*" } else { "" };
        format!("{level}: {clock}Mhz {star}\n")
    });
    lines.collect()
}
