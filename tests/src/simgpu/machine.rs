//! A machine with simulated GPUs.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::stack::Stack;
use super::truth::Truth;
use crate::invocation::Invocation;
use crate::paths::{Scratch, target_dir};

/// A machine with simulated GPUs and one generation of runtimes.
#[derive(Debug)]
pub struct Machine {
    stack: Stack,
    gpus: usize,
    model: String,
    configured: bool,
    scratch: Scratch,
}

impl Machine {
    /// One gfx90a.
    ///
    /// # Errors
    /// When there is no room for its files.
    pub fn new(stack: Stack) -> Result<Self> {
        Self {
            stack,
            gpus: 1,
            model: "gfx90a".to_owned(),
            configured: false,
            scratch: Scratch::new("simgpu")?,
        }
        .config("")
    }

    /// The number of GPUs.
    #[must_use]
    pub fn gpus(mut self, gpus: usize) -> Self {
        self.gpus = gpus;
        self
    }

    /// GPUs of this model.
    #[must_use]
    pub fn model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    /// With this configuration file (TOML).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn config(mut self, text: &str) -> Result<Self> {
        // Each generation gets the driver of its days.
        let driver = match self.stack {
            Stack::Rocm7 => "kfd_minor = 17\n",
            _ => "",
        };
        let text = format!("{driver}{text}");
        self.configured = !text.is_empty();
        if self.configured {
            fs::write(self.config_path(), text)?;
        }
        Ok(self)
    }

    /// A program, run on this machine.
    #[must_use]
    pub fn run(&self, program: impl Into<Invocation>) -> Invocation {
        self.around()
            .program(self.stack.with_runtimes(program.into()))
    }

    /// The words in front of a program of our own system, such as a launcher of jobs, in whose processes the machine's GPUs are.
    #[must_use]
    pub fn around(&self) -> Invocation {
        let mut launcher = Invocation::new(target_dir().join("release/rsys-simgpu"))
            .args([
                "--gpus",
                &self.gpus.to_string(),
                "--model",
                &self.model,
                "--truth",
            ])
            .arg(self.truth_path())
            .arg("--log")
            .arg(self.scratch.path().join("log"));
        if self.configured {
            launcher = launcher.arg("--config").arg(self.config_path());
        }
        launcher.arg("--")
    }

    /// What the GPUs of the last run did.
    ///
    /// # Errors
    /// When nothing was run, or the file cannot be understood.
    pub fn truth(&self) -> Result<Truth> {
        Truth::read(&self.truth_path())
    }

    /// What the driver said of all runs.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    fn truth_path(&self) -> PathBuf {
        self.scratch.path().join("truth.jsonl")
    }

    fn config_path(&self) -> PathBuf {
        self.scratch.path().join("config.toml")
    }
}
