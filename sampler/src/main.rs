//! `rsys-sample`: runs a program under the sampling profiler.

fn main() {}
