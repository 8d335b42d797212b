//! The stacks of all threads of processes that run, printed once: `rsys-sample --dump PID`.
//!
//! Nothing enters a process. Threads that are blocked are read from `/proc` and the memory of the process, as [`waits`](crate::waits) does again and
//! again; those that run are stopped by ptrace for as long as their stack is copied ([`stopping`], [`thread`]). [`process`] looks at all threads of a process,
//! [`owner`] says who holds what they wait for, [`named`] makes frames of addresses, [`text`] and [`json`] write what was found.

mod json;
mod named;
mod owner;
mod process;
mod stopping;
mod text;
mod thread;

use std::io::{IsTerminal, Write};

use nix::sys::signal::{SigSet, Signal};

use crate::attach::Refusal;
use crate::attach::judge;
use crate::launch::ending::{self, Ending};
use crate::os;
use crate::python::PythonView;
use crate::resolve::{Resolver, ResolverOptions};
use crate::terminal::{self, say};

/// How stacks are read and printed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether JSON is written in place of text.
    pub json: bool,
    /// Most frames of a stack.
    pub depth_max: usize,
    /// Whether Python frames are read.
    pub python: bool,
    /// What is shown of Python.
    pub view: PythonView,
    /// How names are found.
    pub resolver: ResolverOptions,
    /// Whether it is said for how long threads stood.
    pub verbose: bool,
}

/// Prints the stacks of these processes, and says how to end.
#[must_use]
pub fn dump(pids: &[u32], options: &Options) -> Ending {
    // The kernel tells of stopped threads by this signal, and is not to tell another thread of ours: before any is made.
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().ok();
    let resolver = Resolver::new(options.resolver.clone());
    let mut documents = Vec::new();
    let mut all_read = true;
    for (number, &pid) in pids.iter().enumerate() {
        let read = judge::readable(pid, "--dump").and_then(|status| {
            let seen = process::look(pid, &status, options)?;
            Ok(named::name(seen, &resolver, options.view))
        });
        match read {
            Ok(process) if options.json => documents.push(json::process(&process)),
            Ok(process) => {
                let style =
                    text::Style::new(terminal::are_coloured(std::io::stdout().is_terminal()));
                let gap = if number > 0 { "\n" } else { "" };
                print(&format!("{gap}{}", text::process(&process, style)));
                if options.verbose {
                    say(&format!(
                        "pid {pid}: a thread stood for {:.2} ms at most",
                        process.stood.as_secs_f64() * 1e3
                    ));
                }
            }
            Err(refusal) => {
                all_read = false;
                complain(pid, &refusal);
                documents.push(json::refusal(pid, &refusal));
            }
        }
    }
    if options.json {
        let time = os::local_time("%FT%T%z").unwrap_or_default();
        print(&json::document(&time, documents));
    }
    resolver.flush();
    match all_read {
        true => Ending::Code(0),
        false => Ending::Code(ending::FAILED),
    }
}

fn complain(pid: u32, refusal: &Refusal) {
    say(&format!("error: pid {pid}: {refusal}"));
}

/// Writes to standard output. Nobody is left to be told when that is closed.
fn print(text: &str) {
    std::io::stdout().lock().write_all(text.as_bytes()).ok();
}
