//! A job of some ranks with the real RCCL, one on each simulated GPU.

use std::path::PathBuf;

use anyhow::Result;

use super::machine::Machine;
use super::programs::code_object;
use super::stack::Stack;
use crate::paths::{Scratch, workspace_dir};
use crate::trace::Trace;

/// Times of kernels, of which a test may make others by rules in front.
const MACHINE: &str = "
[[kernel]]
name = \"short_kernel\"
microseconds = 500

[[kernel]]
name = \"long_kernel\"
microseconds = 100000

[[kernel]]
name = \"ncclKernel\"
microseconds = 300
together = 4
";

/// A Python program of `tests/workloads/gpu` on all ranks, which share the communicator's id by a file.
#[derive(Debug)]
pub struct RanksOnGpus {
    machine: Machine,
    scratch: Scratch,
    program: String,
    arguments: String,
}

impl RanksOnGpus {
    /// How many ranks there are.
    pub const RANKS: usize = 4;
    /// How many steps the programs make.
    pub const STEPS: usize = 20;
    /// With these runtimes.
    pub const STACK: Stack = Stack::Debian13;

    /// Rank 1 is on a GPU to which the link of the host is slow: a batch takes 100 ms.
    pub const SLOW_LINK: &str = "
[[copies.link]]
to = 1
gb_per_s = 0.02
";
    /// Rank 1 is on a GPU at half the clock of the others.
    pub const LOW_CLOCK: &str = "
[[gpu]]
index = 1
clock_mhz = 850

[[kernel]]
name = \"long_kernel\"
microseconds = 60000
";

    /// How often the sensors in these traces have found GPU 1 at that clock, which it has while it computes: a machine without a processor for them reads
    /// seldom.
    ///
    /// # Errors
    /// When a trace cannot be read.
    pub fn readings_of_low_clock(traces: &[PathBuf]) -> Result<i64> {
        let readings = traces.iter().map(|path| {
            Trace::load(path, None)?.number(
                "select count(*) from counter c join counter_track t on c.track_id = t.id
                 where t.name like 'GPU Clock [1]%' and abs(c.value - 850) < 10",
            )
        });
        readings.sum()
    }

    /// The program gets these arguments behind its own; `config` tells what is special of the machine.
    ///
    /// # Errors
    /// When there is no code for the GPUs, or no room for files.
    pub fn new(program: &str, arguments: &str, config: &str) -> Result<Self> {
        let machine = Machine::new(Self::STACK)?.gpus(Self::RANKS);
        Ok(Self {
            machine: machine.config(&format!("{config}{MACHINE}"))?,
            scratch: Scratch::new("ranks-on-gpus")?,
            program: program.to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    /// The machine on which it has to run.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The line of a shell for a rank, which is a number or a variable of the shell.
    ///
    /// # Errors
    /// When there is no code for the GPUs.
    pub fn of_rank(&self, rank: &str) -> Result<String> {
        Ok(format!(
            "/usr/bin/python3 {program} libamdhip64.so.5 librccl.so.1 {code} {rank} {ranks} {id} {steps} {arguments}",
            program = workspace_dir()
                .join("tests/workloads/gpu")
                .join(&self.program)
                .display(),
            code = code_object("gfx90a")?.display(),
            ranks = Self::RANKS,
            id = self.scratch.path().join("id").display(),
            steps = Self::STEPS,
            arguments = self.arguments,
        ))
    }

    /// The line of a shell that runs all ranks.
    ///
    /// # Errors
    /// When there is no code for the GPUs.
    pub fn of_all(&self) -> Result<String> {
        Ok(format!(
            "for rank in $(seq 0 {last}); do RANK=$rank WORLD_SIZE={ranks} {line} & all=\"$all $!\"; done; \
             for one in $all; do wait $one || exit 1; done",
            last = Self::RANKS - 1,
            ranks = Self::RANKS,
            line = self.of_rank("$rank")?,
        ))
    }
}
