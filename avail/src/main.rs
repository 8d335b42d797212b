//! `rsys-avail`: what can be set, what can be recorded here, and why not.

fn main() {
    std::process::exit(rsys_avail::run(std::env::args_os()));
}
