//! One time axis for several hosts.

use std::fmt;

use anyhow::Result;

use crate::clocks::{Alignment, WallClock};
use crate::survey::{Depth, Survey};

/// The clock of a host in the merged trace.
#[derive(Debug, Clone)]
pub struct HostClock {
    /// Its name.
    pub name: String,
    /// What is added to its times.
    pub alignment: Alignment,
    /// How that was found.
    pub source: Source,
}

/// How the clock of a host was related to that of reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// It is the host of reference.
    Reference,
    /// By its wall clock: as good as the hosts' time synchronisation is.
    WallClock,
    /// It could not be related.
    Unknown,
}

impl fmt::Display for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Reference => write!(f, "the reference"),
            Source::WallClock => write!(
                f,
                "aligned by the wall clocks: as exact as the hosts' time synchronisation, which is not known"
            ),
            Source::Unknown => write!(
                f,
                "not aligned: its traces hold no snapshot of the wall clock"
            ),
        }
    }
}

/// Relates the clocks of all hosts to that of the first.
///
/// # Errors
/// When an input cannot be read.
pub fn align(surveys: &[Survey], of_inputs: &[usize], hosts: &[String]) -> Result<Vec<HostClock>> {
    let reference = HostClock {
        name: hosts.first().cloned().unwrap_or_default(),
        alignment: Alignment::default(),
        source: Source::Reference,
    };
    if hosts.len() == 1 {
        return Ok(vec![reference]);
    }
    let mut wall_clocks = vec![WallClock::default(); hosts.len()];
    for (survey, &host) in surveys.iter().zip(of_inputs) {
        let whole = Survey::read(&survey.path, Depth::Whole, |_| {})?;
        wall_clocks[host].add(&whole.wall_clock);
    }
    wall_clocks.iter_mut().for_each(WallClock::settle);
    let mut clocks = vec![reference];
    for (name, wall_clock) in hosts.iter().zip(&wall_clocks).skip(1) {
        let found = Alignment::by_wall_clocks(wall_clock, &wall_clocks[0]);
        clocks.push(HostClock {
            name: name.clone(),
            source: match found {
                Some(_) => Source::WallClock,
                None => Source::Unknown,
            },
            alignment: found.unwrap_or_default(),
        });
    }
    Ok(clocks)
}
