//! `rsys-report`: merges traces, checks them, and finishes those that a killed profiler left.

fn main() {
    // A file that grows beyond `ulimit -f` is an error like a full disk: a message, and no file.
    // SAFETY: there is one thread, and ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    std::process::exit(rsys_report::run(std::env::args_os()));
}
