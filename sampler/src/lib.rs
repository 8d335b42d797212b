//! rsys-sample: runs a program, collects its samples, writes Perfetto traces.
