//! What readers make of files, and what questions answer of records.

mod advice;
mod advice_of_hangs;
mod advice_of_jobs;
mod calls;
mod collectives;
mod common;
mod copies;
mod copies_of_jobs;
mod critical_path;
mod foreign_answers;
mod functions;
mod gaps;
mod iterations;
mod job_iterations;
mod kineto;
mod launch;
mod locks;
mod memory;
mod perfetto;
mod permuted;
mod plots;
mod proxies;
mod rocprofv3;
mod sensors;
mod stragglers;
mod timeline;
