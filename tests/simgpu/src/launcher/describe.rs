//! The machine that is asked for, checked.

use anyhow::{Context, Result, bail};

use super::arguments::Arguments;
use super::file::File;
use super::folder::Folder;
use super::memory::Memory;
use super::models::Model;
use super::truth;
use crate::settings::{Gpu, MAX_GPUS, Machine, Queues};

/// What is asked for.
#[derive(Debug)]
pub struct Plan {
    /// Number of GPUs.
    pub gpus: usize,
    /// Their model.
    pub model: &'static Model,
    /// Everything else.
    pub file: File,
}

impl Plan {
    /// From the command line and the configuration file; the command line has the last word.
    ///
    /// # Errors
    /// When they are wrong.
    pub fn new(arguments: &Arguments) -> Result<Self> {
        let file = match &arguments.config {
            Some(path) => File::read(path)?,
            None => File::default(),
        };
        let gpus = arguments.gpus.or(file.gpus).unwrap_or(1);
        if !(1..=MAX_GPUS).contains(&gpus) {
            bail!("{gpus} GPUs cannot be simulated; 1 to {MAX_GPUS} can");
        }
        let name = arguments.model.as_ref().or(file.model.as_ref());
        let model = Model::find(name.map_or("gfx90a", String::as_str))?;
        Ok(Self { gpus, model, file })
    }

    /// The description for the driver.
    ///
    /// # Errors
    /// When settings are wrong.
    pub fn machine(
        &self,
        folder: &Folder,
        memory: &Memory,
        arguments: &Arguments,
    ) -> Result<Machine> {
        let file = &self.file;
        if file.vram_mib == Some(0) {
            bail!("vram_mib is 0; a GPU has memory");
        }
        if file.concurrent_kernels == Some(0) {
            bail!("concurrent_kernels is 0; 1 means one after the other");
        }
        file.check_gpus(self.gpus, self.model.clock_mhz)?;
        let truth = arguments
            .truth
            .as_ref()
            .map(|_| folder.path().join(truth::FOLDER));
        if let Some(folder) = &truth {
            std::fs::create_dir(folder).context("cannot make the folder for the truth")?;
        }
        let log = match &arguments.log {
            // Processes have working directories of their own.
            Some(path) => Some(std::path::absolute(path)?),
            None => None,
        };
        let gpus = (0..self.gpus).map(|index| self.gpu(index, memory));
        Ok(Machine {
            board: memory.board_path(),
            truth,
            log,
            gpus: gpus.collect(),
            interface_minor: file.kfd_minor.unwrap_or(14),
            clock: file.clock.settings(boottime_ns())?,
            queues: Queues {
                concurrent_kernels: file.concurrent_kernels.unwrap_or(8),
                strict_doorbell: file.strict_doorbell,
                strict_memory: file.strict_memory,
                scratch: file.scratch,
            },
            copies: file.copies.settings(self.gpus)?,
            kernels: file
                .kernel
                .iter()
                .map(super::file::Kernel::settings)
                .collect::<Result<_>>()?,
            faults: file.faults.settings(),
            events: file
                .event
                .iter()
                .map(|event| event.settings(self.gpus))
                .collect::<Result<_>>()?,
            counters: file.counter.clone(),
        })
    }

    fn gpu(&self, index: usize, memory: &Memory) -> Gpu {
        let model = self.model;
        Gpu {
            memory: memory.path(index),
            memory_identity: memory.identity(index),
            gpu_id: gpu_id(index),
            device_id: model.device_id,
            compute_units: model.compute_units,
            shader_engines: model.arrays,
            dies: model.dies,
            wave_size: model.wave_size,
            clock_mhz: model.clock_mhz,
            load_clock_mhz: self.file.load_clock_mhz(index, model.clock_mhz),
            memory_clock_mhz: model.memory_clock_mhz,
            vram_bytes: model.vram_bytes(&self.file),
            family: model.family,
        }
    }
}

/// The kernel driver's identifier of a GPU: any numbers that differ.
fn gpu_id(index: usize) -> u32 {
    30_000 + 1_111 * index as u32
}

/// CLOCK_BOOTTIME in nanoseconds.
pub fn boottime_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
