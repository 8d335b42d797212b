//! The command line.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Result, bail};

const LIBRARY: &str = "librsys_simgpu.so";

/// Run a command on a machine with simulated AMD GPUs
///
/// The unmodified ROCm runtimes (ROCr, HIP, RCCL, the SMI libraries) see GPUs that are not there: a preloaded library
/// plays the kernel driver, and a thread in each process executes packets, copies and signals. Programs' kernels take
/// the time that the configuration says and have no effect on memory; copies and fills do. Neither a GPU nor root is
/// needed.
#[derive(Debug, clap::Parser)]
#[command(name = "rsys-simgpu", version, after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Number of GPUs, 1 to 16 [default: 1]
    #[arg(short, long, value_name = "N")]
    pub gpus: Option<usize>,

    /// gfx90a (MI250X), gfx942 (MI300X), gfx908 (MI100) or gfx1100 (RX 7900) [default: gfx90a]
    #[arg(short, long)]
    pub model: Option<String>,

    /// Configuration file (TOML): times of kernels and copies, clock, faults
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Write every dispatch, copy and barrier that was executed into this file, as lines of JSON
    #[arg(short, long, value_name = "FILE")]
    pub truth: Option<PathBuf>,

    /// Append the driver's own messages to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// The driver's library [default: beside this program, or in ../lib]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,

    /// The command to run, with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  rsys-simgpu -- rocminfo
  rsys-simgpu --gpus 8 --model gfx942 -- rocm-smi
  rsys-simgpu --truth truth.jsonl --config slow.toml -- ./my-hip-program

A configuration file (all of it optional; the README has every setting):
  gpus = 2
  [[kernel]]
  name = \"gemm\"                 # matches anywhere in the mangled name; * and ? as usual
  microseconds = 250
  [[kernel]]
  formula = \"2000 + grid / 8\"   # nanoseconds
  [faults]
  interrupt_every = 3           # every third driver call returns EINTR

Programs must have code for the model that is simulated: hipcc --offload-arch=gfx90a";

impl Arguments {
    /// The driver's library.
    ///
    /// # Errors
    /// When it is not found, or LD_PRELOAD cannot name it.
    pub fn find_library(&self) -> Result<PathBuf> {
        let candidates = match &self.library {
            Some(path) => vec![path.clone()],
            None => {
                let program = env::current_exe()?;
                let folder = program.parent().unwrap_or(&program);
                ["", "../lib", ".."]
                    .map(|place| folder.join(place).join(LIBRARY))
                    .to_vec()
            }
        };
        let found = candidates.iter().find(|path| path.is_file());
        let Some(found) = found.and_then(|path| path.canonicalize().ok()) else {
            let looked: Vec<_> = candidates
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "the driver's library is not at {}; say where it is with --library",
                looked.join(", ")
            );
        };
        if found
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| matches!(byte, b' ' | b':' | b'$'))
        {
            bail!(
                "{}: LD_PRELOAD cannot name a path with a blank, `:` or `$` in it; move the library",
                found.display()
            );
        }
        Ok(found)
    }
}
