//! How samples are shared out over functions.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, ensure};

use crate::samples::{Sample, Samples, bare_name};
use crate::trace::Trace;

/// How much of the time functions took, by themselves and with what they call.
#[derive(Debug, Default)]
pub struct Shares {
    /// Samples looked at.
    pub samples: usize,
    /// The sum of their weights.
    pub weight: f64,
    squares: f64,
    own: HashMap<String, f64>,
    total: HashMap<String, f64>,
}

impl Shares {
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.weight += sample.weight;
        self.squares += sample.weight * sample.weight;
        if let Some(leaf) = sample.stack.last() {
            *self
                .own
                .entry(bare_name(&leaf.function).to_owned())
                .or_default() += sample.weight;
        }
        let names: HashSet<&str> = sample
            .stack
            .iter()
            .map(|frame| bare_name(&frame.function))
            .collect();
        for name in names {
            *self.total.entry(name.to_owned()).or_default() += sample.weight;
        }
    }

    /// How many samples of equal weight would tell as much: the number to put into a statistical bound.
    #[must_use]
    pub fn draws(&self) -> f64 {
        self.weight * self.weight / self.squares.max(1.0)
    }

    /// The share of time in a function itself, between 0 and 1.
    #[must_use]
    pub fn self_share(&self, function: &str) -> f64 {
        self.own.get(function).copied().unwrap_or(0.0) / self.weight.max(1.0)
    }

    /// The share of time in a function and all that it calls, between 0 and 1.
    #[must_use]
    pub fn total_share(&self, function: &str) -> f64 {
        self.total.get(function).copied().unwrap_or(0.0) / self.weight.max(1.0)
    }

    /// The functions with the greatest total shares, for a message.
    #[must_use]
    pub fn top(&self, count: usize) -> Vec<(String, f64)> {
        let mut all: Vec<(String, f64)> = self
            .total
            .iter()
            .map(|(name, weight)| (name.clone(), weight / self.weight))
            .collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        all.truncate(count);
        all
    }
}

impl Samples {
    /// Shares of functions in the samples that are chosen.
    ///
    /// # Errors
    /// When none is chosen.
    pub fn shares(&self, chosen: impl Fn(&Sample) -> bool) -> Result<Shares> {
        let mut shares = Shares::default();
        for sample in self.samples.iter().filter(|sample| chosen(sample)) {
            shares.add(sample);
        }
        ensure!(
            shares.samples > 0,
            "no such samples; there are threads {:?}",
            self.thread_weights()
        );
        Ok(shares)
    }
}

impl Trace {
    /// Shares of functions over all threads.
    ///
    /// # Errors
    /// When there is no sample.
    pub fn shares(&self) -> Result<Shares> {
        self.samples()?.shares(|_| true)
    }

    /// Shares of functions in the threads of one name.
    ///
    /// # Errors
    /// When there is no sample in such a thread.
    pub fn shares_of(&self, thread: &str) -> Result<Shares> {
        self.samples()?.shares(|sample| sample.thread == thread)
    }
}
