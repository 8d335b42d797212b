//! What the trace of a process is made with.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::output::sink::Sinks;
use crate::resolve::Resolver;
use crate::run::RunContext;

/// What the trace of a process is made with.
#[derive(Debug)]
pub struct Tools<'a> {
    /// What all traces have in common.
    pub run: &'a RunContext,
    /// Finds names.
    pub resolver: &'a Resolver,
    /// Opens traces.
    pub sinks: &'a mut dyn Sinks,
    /// Counts up while work is done.
    pub heartbeat: &'a AtomicU64,
    /// Whether new names must not be looked for any more.
    pub hurry: &'a AtomicBool,
}

impl Tools<'_> {
    /// What finds new names, as long as there is time for it.
    #[must_use]
    pub fn patient_resolver(&self) -> Option<&Resolver> {
        (!self.hurry.load(Ordering::Relaxed)).then_some(self.resolver)
    }

    /// Shows that work is done.
    pub fn beat(&self) {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
    }
}
