//! Stacks as text, for a person who looks at a process that hangs: threads in the order in which they were made, those with the same stack together, innermost
//! frames first.

use std::fmt::Write;
use std::time::Duration;

use clap::builder::styling::{self, AnsiColor};

use super::named::{Frame, Holder, Process, Thread};
use super::owner::Kind;
use super::thread::Doing;
use crate::waits::record::Completeness;
use crate::words::counted;

/// Of a group, more threads than this are only counted.
const MEMBERS_MAX: usize = 16;
/// How wide lines with many threads get.
const WIDTH: usize = 100;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    is_coloured: bool,
}

impl Style {
    /// With colours or without.
    pub fn new(is_coloured: bool) -> Self {
        Self { is_coloured }
    }

    fn paint(self, text: &str, style: styling::Style) -> String {
        match self.is_coloured {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint(text, styling::Style::new().bold())
    }

    fn colour(self, text: &str, colour: AnsiColor) -> String {
        self.paint(text, styling::Style::new().fg_color(Some(colour.into())))
    }
}

/// A process.
pub(super) fn process(process: &Process, style: Style) -> String {
    let mut out = String::new();
    let command = match process.command.is_empty() {
        true => process.name.clone(),
        false => process.command.join(" "),
    };
    let head = format!("pid {}: {}", process.pid, one_line(&command));
    let cpu: Duration = process.threads.iter().map(|thread| thread.cpu).sum();
    let count = counted(process.threads.len() as u64, "thread");
    // Writing to a text cannot fail.
    _ = writeln!(out, "{}", style.bold(&head));
    _ = writeln!(
        out,
        "{}, {count}, CPU time {}, {}",
        process.time,
        seconds(cpu),
        process.executable
    );
    if process.own_pid != process.pid {
        _ = writeln!(out, "pid {} in its own pid namespace", process.own_pid);
    }
    if let Some((pid, name)) = &process.tracer {
        _ = writeln!(out, "traced by {name} (pid {pid})");
    }
    for note in &process.notes {
        _ = writeln!(out, "note: {note}");
    }
    for group in groups(&process.threads) {
        out.push('\n');
        head_of(&mut out, &group, style);
        frames_of(&mut out, group[0], style);
    }
    out
}

/// Threads that do the same at the same place, in the order of the first of each.
fn groups(threads: &[Thread]) -> Vec<Vec<&Thread>> {
    let mut groups: Vec<Vec<&Thread>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for thread in threads {
        let key = (
            thread.doing,
            &thread.waits_for,
            &thread.holder,
            thread.holds_interpreter,
            &thread.frames,
            &thread.trouble,
        );
        let number = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.push(thread),
            None => groups.push(vec![thread]),
        }
    }
    groups
}

fn head_of(out: &mut String, group: &[&Thread], style: Style) {
    let first = group[0];
    let cpu: Duration = group.iter().map(|thread| thread.cpu).sum();
    let who = match group {
        [one] => format!("thread {}", named(one.tid, &one.name)),
        all => counted(all.len() as u64, "thread"),
    };
    let together = if group.len() > 1 { " together" } else { "" };
    _ = writeln!(
        out,
        "{}: {}, CPU time {}{together}",
        style.bold(&who),
        doing(first, style),
        seconds(cpu)
    );
    if group.len() > 1 {
        members(out, group);
    }
}

/// The threads of a group, as many as a person reads.
fn members(out: &mut String, group: &[&Thread]) {
    let mut line = String::from("   ");
    let count = group.len();
    for (number, thread) in group.iter().take(MEMBERS_MAX).enumerate() {
        let comma = if number + 1 < count { "," } else { "" };
        let word = format!(" {}{comma}", named(thread.tid, &thread.name));
        if line.len() + word.len() > WIDTH {
            _ = writeln!(out, "{line}");
            line = String::from("   ");
        }
        line.push_str(&word);
    }
    if count > MEMBERS_MAX {
        _ = write!(line, " and {} more (--json has all)", count - MEMBERS_MAX);
    }
    _ = writeln!(out, "{line}");
}

fn doing(thread: &Thread, style: Style) -> String {
    let mut text = match thread.doing {
        Doing::Running => style.colour("running", AnsiColor::Green),
        Doing::Runnable => style.colour("waits for a processor", AnsiColor::Green),
        Doing::Asleep => "asleep".to_owned(),
        Doing::Uninterruptible => style.colour("asleep, uninterruptible (D)", AnsiColor::Red),
        Doing::Stopped => style.colour("stopped by a signal", AnsiColor::Red),
        Doing::Traced => style.colour("stopped by a debugger", AnsiColor::Red),
        Doing::Ended => "ended".to_owned(),
    };
    // What is in brackets says the same as the state does.
    if !thread.waits_for.is_empty() && !thread.waits_for.starts_with("[stopped") {
        let joint = match thread.waits_for.starts_with("the ") {
            true => ", waits for",
            false => " in",
        };
        let what = style.colour(&thread.waits_for, AnsiColor::Yellow);
        _ = write!(text, "{joint} {what}");
    }
    if let Some(holder) = &thread.holder {
        _ = write!(
            text,
            ", {}",
            style.colour(&held_by(holder), AnsiColor::Yellow)
        );
    }
    if thread.holds_interpreter {
        text.push_str(", holds the interpreter's lock (GIL)");
    }
    text
}

fn held_by(holder: &Holder) -> String {
    let who = named(holder.tid, &holder.name);
    match holder.owner.map(|owner| owner.kind) {
        None => format!("held by thread {who}"),
        Some(Kind::Mutex | Kind::Inheriting) => format!("a mutex held by thread {who}"),
        Some(Kind::End) => format!("until thread {who} ends"),
    }
}

fn frames_of(out: &mut String, thread: &Thread, style: Style) {
    if let Some(trouble) = &thread.trouble {
        _ = writeln!(out, "    no stack: {trouble}");
    }
    for frame in &thread.frames {
        let place = place(frame);
        let name = match frame.is_python {
            true => style.colour(&frame.function, AnsiColor::Cyan),
            false => frame.function.clone(),
        };
        _ = writeln!(out, "    {name}{place}");
    }
    let is_marked = |mark: &str| thread.frames.iter().any(|frame| frame.function == mark);
    let missing = match thread.completeness {
        Completeness::Truncated if !is_marked("[truncated]") => {
            "the rest is deeper than --max-depth"
        }
        Completeness::Broken if !is_marked("[broken]") => "the caller of that cannot be found",
        _ => return,
    };
    _ = writeln!(out, "    ({missing})");
}

/// Where a frame is: its line, else the library.
fn place(frame: &Frame) -> String {
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match &frame.source {
        Some(source) if frame.line > 0 => format!(" ({}:{})", last(source), frame.line),
        _ if frame.module.starts_with('[') => String::new(),
        _ => format!(" ({})", last(&frame.module)),
    }
}

fn named(tid: u32, name: &str) -> String {
    match name {
        "" => tid.to_string(),
        name => format!("{tid} \"{}\"", one_line(name)),
    }
}

/// Text of others, which must not move the cursor of a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, name: &str, waits_for: &str) -> Thread {
        let frame = |function: &str, line| Frame {
            function: function.to_owned(),
            source: (line > 0).then(|| "/src/pool.c".into()),
            line,
            module: "/usr/bin/server".to_owned(),
            is_python: false,
        };
        Thread {
            tid,
            own_tid: tid,
            name: name.to_owned(),
            doing: Doing::Asleep,
            cpu: Duration::from_millis(20),
            waits_for: waits_for.into(),
            holder: None,
            holds_interpreter: false,
            frames: vec![frame("pthread_cond_wait", 0), frame("work", 42)],
            completeness: Completeness::Complete,
            trouble: None,
        }
    }

    #[test]
    fn equal_stacks_are_together() {
        let mut threads: Vec<Thread> = (10..30).map(|tid| thread(tid, "pool", "futex")).collect();
        threads.insert(0, thread(7, "main\u{1b}[2J", "poll(socket)"));
        threads[0].holder = Some(Holder {
            tid: 12,
            name: "pool".to_owned(),
            owner: None,
        });
        let process = Process {
            pid: 7,
            own_pid: 7,
            name: "server".to_owned(),
            command: vec!["server".to_owned(), "--port".to_owned()],
            executable: "/usr/bin/server".to_owned(),
            tracer: None,
            time: "2026-11-28 13:40:02".to_owned(),
            threads,
            notes: Vec::new(),
            stood: Duration::ZERO,
        };
        let text = super::process(&process, Style::new(false));
        let expected = "\
pid 7: server --port
2026-11-28 13:40:02, 21 threads, CPU time 0.42 s, /usr/bin/server

thread 7 \"main [2J\": asleep in poll(socket), held by thread 12 \"pool\", CPU time 0.02 s
    pthread_cond_wait (server)
    work (pool.c:42)

20 threads: asleep in futex, CPU time 0.40 s together
    10 \"pool\", 11 \"pool\", 12 \"pool\", 13 \"pool\", 14 \"pool\", 15 \"pool\", 16 \"pool\", 17 \"pool\",
    18 \"pool\", 19 \"pool\", 20 \"pool\", 21 \"pool\", 22 \"pool\", 23 \"pool\", 24 \"pool\", 25 \"pool\", and 4 more (--json has all)
    pthread_cond_wait (server)
    work (pool.c:42)
";
        assert_eq!(text, expected);
        let coloured = super::process(&process, Style::new(true));
        assert!(coloured.contains("\u{1b}[") && !coloured.contains("\u{1b}[2J"));
    }
}
