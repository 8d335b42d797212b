//! Call stacks as lines: what flame graphs are drawn from.

use std::collections::BTreeMap;
use std::io::Write;

use crate::run::Run;
use crate::stacks::{Stacks, times};
use crate::{Failure, Time};

/// Writes `process;thread;outermost;…;innermost nanoseconds`, each stack of each thread once.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, time: Time, out: &mut dyn Write) -> Result<(), Failure> {
    let (stacks, mut kernels) = (Stacks::read(run.view)?, Vec::new());
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, sum) in times(run, time, &stacks, &mut kernels)? {
        let Some(process) = run.process(key.process as u64) else {
            continue;
        };
        let mut line = word(&format!("{} {}", process.title(), process.pid));
        line.push(';');
        line.push_str(&word(
            format!("{} {}", key.thread_name, key.thread).trim_start(),
        ));
        for frame in &key.frames {
            line.push(';');
            line.push_str(&word(frame.function));
        }
        *lines.entry(line).or_default() += sum.weight;
    }
    for (line, weight) in lines {
        writeln!(out, "{line} {weight}")?;
    }
    Ok(())
}

/// A name without the letters that have a meaning in a line.
fn word(name: &str) -> String {
    name.replace([';', '\n', '\r'], ":")
}
