//! Summaries for the eye.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{Gathered, Share, View, ranked};
use crate::emit::learned::frames::FunctionId;
use crate::words::counted;

/// Functions of the process that are listed.
const FUNCTIONS: usize = 200;
/// Functions of each thread.
const THREAD_FUNCTIONS: usize = 10;
/// Threads with functions of their own.
const THREADS: usize = 64;
/// Functions on the terminal.
const CONSOLE_FUNCTIONS: usize = 15;
/// Branches of the tree with less of the whole than this are left out.
const LEAST_OF_TREE: f64 = 0.001;

/// Writes the whole summary.
pub(super) fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let about = view.about;
    write!(out, "{} (pid {}", about.name, about.pid)?;
    if let Some(rank) = about.rank {
        write!(out, ", rank {rank}")?;
    }
    writeln!(out, ") on {}", about.host)?;
    writeln!(out, "{}\n", about.command_line.join(" "))?;
    let profile = view.profile;
    writeln!(
        out,
        "Self is the time in a function itself, total with all that it calls.\n"
    )?;
    let title = format!("CPU time, {} Hz", about.frequency_hz);
    section(view, &profile.running, &title, out)?;
    if !profile.waiting.is_empty() {
        section(view, &profile.waiting, "Waiting, by the wall clock", out)?;
    }
    Ok(())
}

fn section(
    view: &View<'_>,
    gathered: &Gathered,
    title: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let threads = gathered.threads();
    writeln!(
        out,
        "== {title}: {} in {} of {}\n",
        seconds(gathered.cost.ns),
        counted(gathered.cost.samples, "sample"),
        counted(threads.len() as u64, "thread")
    )?;
    writeln!(out, "{HEADER}")?;
    functions(view, &gathered.functions, gathered.cost.ns, FUNCTIONS, out)?;
    if view.profile.forms.tree && !gathered.nodes.is_empty() {
        writeln!(out, "\n-- Tree of calls\n\n{TREE_HEADER}")?;
        tree(view, gathered, out)?;
    }
    for thread in threads.iter().take(THREADS) {
        if thread.number == u32::MAX {
            writeln!(out, "\n-- Other threads: {}\n", seconds(thread.cost.ns))?;
        } else {
            writeln!(
                out,
                "\n-- Thread {} {} (tid {}): {} in {}\n",
                thread.number,
                thread.name,
                thread.tid,
                seconds(thread.cost.ns),
                counted(thread.cost.samples, "sample")
            )?;
        }
        functions(
            view,
            &thread.functions,
            thread.cost.ns,
            THREAD_FUNCTIONS,
            out,
        )?;
    }
    if threads.len() > THREADS {
        writeln!(
            out,
            "\n-- {} more threads; the JSON file has all of them",
            threads.len() - THREADS
        )?;
    }
    writeln!(out)
}

const HEADER: &str = "        self                   total      samples  function  [file]";
const TREE_HEADER: &str = "       total                    self  function";

fn functions(
    view: &View<'_>,
    all: &HashMap<FunctionId, Share>,
    whole_ns: u64,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let ranked = ranked(all, view.frames);
    for (function, share) in ranked.iter().take(most) {
        writeln!(out, "{}", line(view, *function, *share, whole_ns))?;
    }
    if ranked.len() > most {
        let rest = ranked[most..].iter().map(|(_, share)| share.own.ns).sum();
        writeln!(
            out,
            "{:>10} {:>5.1} %  in {} more functions",
            seconds(rest),
            percent(rest, whole_ns),
            ranked.len() - most
        )?;
    }
    Ok(())
}

fn line(view: &View<'_>, id: FunctionId, share: Share, whole_ns: u64) -> String {
    let function = view.frames.function(id);
    let path = &view.frames.file(function.file).path;
    let file = path.rsplit('/').next().unwrap_or(path);
    format!(
        "{:>10} {:>5.1} % {:>12} {:>5.1} % {:>9}  {}  [{file}]",
        seconds(share.own.ns),
        percent(share.own.ns, whole_ns),
        seconds(share.total.ns),
        percent(share.total.ns, whole_ns),
        share.total.samples,
        function.name
    )
}

/// The tree, the heaviest branches first. Whatever its depth, no stack of ours grows with it.
fn tree(view: &View<'_>, gathered: &Gathered, out: &mut dyn Write) -> io::Result<()> {
    let totals = gathered.totals();
    let whole_ns = gathered.cost.ns;
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); gathered.nodes.len()];
    let mut roots = Vec::new();
    for (index, node) in gathered.nodes.iter().enumerate() {
        match node.parent as usize {
            parent if parent == index => roots.push(index as u32),
            parent => children[parent].push(index as u32),
        }
    }
    let sort = |nodes: &mut Vec<u32>| {
        // The heaviest is taken from the end first.
        nodes.sort_by_key(|&node| totals[node as usize].ns);
    };
    sort(&mut roots);
    let mut left_out = 0;
    let mut open: Vec<(u32, usize)> = roots.into_iter().map(|node| (node, 0)).collect();
    while let Some((index, depth)) = open.pop() {
        let total = totals[index as usize];
        if (total.ns as f64) < whole_ns as f64 * LEAST_OF_TREE {
            left_out += 1;
            continue;
        }
        let node = &gathered.nodes[index as usize];
        writeln!(
            out,
            "{:>10} {:>5.1} % {:>12} {:>5.1} %  {}{}",
            seconds(total.ns),
            percent(total.ns, whole_ns),
            seconds(node.own.ns),
            percent(node.own.ns, whole_ns),
            "  ".repeat(depth.min(100)),
            view.frames.function(node.function).name
        )?;
        let mut below = std::mem::take(&mut children[index as usize]);
        sort(&mut below);
        open.extend(below.into_iter().map(|node| (node, depth + 1)));
    }
    if left_out > 0 {
        writeln!(
            out,
            "\n{left_out} branches of less than {} % are left out",
            LEAST_OF_TREE * 100.0
        )?;
    }
    if gathered.cut > 0 {
        writeln!(
            out,
            "\nThe tree is too large: {} counted at a caller",
            counted(gathered.cut, "sample")
        )?;
    }
    Ok(())
}

/// What goes to the terminal.
pub(super) fn console(view: &View<'_>) -> Vec<String> {
    let gathered = &view.profile.running;
    let mut lines = vec![format!(
        "pid {} ({}): {} of CPU time in {}",
        view.about.pid,
        view.about.name,
        seconds(gathered.cost.ns),
        counted(gathered.cost.samples, "sample")
    )];
    lines.push(HEADER.to_owned());
    let ranked = ranked(&gathered.functions, view.frames);
    lines.extend(
        ranked
            .iter()
            .take(CONSOLE_FUNCTIONS)
            .map(|(function, share)| line(view, *function, *share, gathered.cost.ns)),
    );
    lines
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

fn percent(ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 {
        return 0.0;
    }
    100.0 * ns as f64 / whole_ns as f64
}
