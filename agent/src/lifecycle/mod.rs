//! The agent's life in a process: start, threads, fork, exec, exit, and what a program forbids itself.

pub mod announcement;
pub mod attach;
pub mod bpf;
pub mod children;
pub mod deferred_start;
pub mod dormancy;
pub mod exec;
pub mod exit;
pub mod own_runtime;
pub mod process;
pub mod restrictions;
pub mod sanitizer;
pub mod seccomp;
pub mod threads;
