//! `rsys-report`: merges traces, checks them, and finishes those that a killed profiler left.

fn main() {
    std::process::exit(rsys_report::run(std::env::args_os()));
}
