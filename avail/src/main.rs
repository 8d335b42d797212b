//! `rsys-avail`: what can be set, what can be recorded here, and why not.

use rsys_config::told_of;

fn main() {
    let name = std::env::args_os().next().unwrap_or_default();
    if let Some(line) = told_of("rsys-avail", env!("CARGO_PKG_VERSION"), &name) {
        eprintln!("rsys-avail: {line}");
    }
    std::process::exit(rsys_avail::run(std::env::args_os()));
}
