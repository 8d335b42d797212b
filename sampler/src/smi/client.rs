//! The one who asks a [`super::reader`], and never waits for it.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::counters::{Gauge, Reading};

/// A reader that does not answer for this time is given up: loading a library for eight GPUs takes
/// some 25 ms, one reading 1 ms.
const SILENCE: Duration = Duration::from_secs(10);

/// A counter is given up after this many failures in a row.
const PATIENCE: u32 = 5;

/// A process that reads for us: what it is called, and what stands for its library until that has said its name.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// The name by which this program knows what it is to be.
    pub name: &'static str,
    /// For messages.
    pub library: &'static str,
}

/// A counter that is wanted of the library.
#[derive(Debug)]
pub struct Wanted {
    /// The GPU's address on PCI: `0000:c1:00.0`.
    pub address: String,
    /// Sensors of which the first that the library knows counts.
    pub sensors: Vec<String>,
    /// Where its values go.
    pub gauge: Gauge,
    /// The GPU.
    pub gpu: String,
    /// What the user calls it.
    pub metric: String,
    /// Why the kernel's files do not give it.
    pub reason: String,
    /// Whether the user named it, and wants to hear when there is none.
    pub named: bool,
}

/// A reader at work.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    process: Child,
    questions: ChildStdin,
    answers: ChildStdout,
    /// What was not read to the end of its line.
    rest: Vec<u8>,
    asked: Option<Instant>,
    library: Option<String>,
    wanted: Vec<State>,
}

#[derive(Debug)]
struct State {
    wanted: Wanted,
    has_value: bool,
    failures: u32,
    /// Why it will not come.
    given_up: Option<String>,
    reported: bool,
}

/// What came of asking.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// There may be more.
    Going,
    /// Nothing will come any more.
    Over,
}

impl Client {
    /// Starts a reader with a library (`auto`, or a path).
    ///
    /// # Errors
    /// When no process can be made.
    pub fn start(reader: Reader, library: &str, wanted: Vec<Wanted>) -> io::Result<Self> {
        // The reader ends with the thread that starts it: the main one.
        let words = wanted
            .iter()
            .map(|one| format!("{}={}", one.address, one.sensors.join("+")));
        let mut process = Command::new("/proc/self/exe")
            .arg0(reader.name)
            .arg(library)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        fcntl(answers.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        fcntl(questions.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let state = |wanted| State {
            wanted,
            has_value: false,
            failures: 0,
            given_up: None,
            reported: false,
        };
        Ok(Self {
            reader,
            process,
            questions,
            answers,
            rest: Vec::new(),
            asked: None,
            library: None,
            wanted: wanted.into_iter().map(state).collect(),
        })
    }

    /// Takes what was answered, and asks again. Each line of `words` is for the user; `set` takes a
    /// value of a gauge.
    pub fn read(
        &mut self,
        out: &mut Vec<Reading>,
        words: &mut Vec<String>,
        set: fn(&mut Gauge, u64, f64, &mut Vec<Reading>),
    ) -> Standing {
        let is_open = self.take(out, words, set);
        if !is_open {
            // It may have closed its output alone.
            if matches!(self.process.try_wait(), Ok(None)) {
                self.process.kill().ok();
            }
            let end = match self.process.wait() {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let library = self.library();
            self.give_up(&format!("{library} ended its process: {end}"));
            self.report(words);
            return Standing::Over;
        }
        match self.asked {
            Some(asked) if asked.elapsed() > SILENCE => {
                let library = self.library();
                self.give_up(&format!("{library} does not answer"));
                self.report(words);
                return Standing::Over;
            }
            Some(_) => {}
            None if self.questions.write(b"?").is_ok() => self.asked = Some(Instant::now()),
            // It is gone: what it said before is read next time.
            None => {}
        }
        if self.wanted.iter().all(|one| one.given_up.is_some()) {
            return Standing::Over;
        }
        Standing::Going
    }

    fn library(&self) -> String {
        let known = self.library.as_deref();
        known.unwrap_or(self.reader.library).to_owned()
    }

    /// Takes all whole lines. Says whether more may come.
    fn take(
        &mut self,
        out: &mut Vec<Reading>,
        words: &mut Vec<String>,
        set: fn(&mut Gauge, u64, f64, &mut Vec<Reading>),
    ) -> bool {
        let mut chunk = [0; 4096];
        let is_open = loop {
            match self.answers.read(&mut chunk) {
                Ok(0) => break false,
                Ok(length) => self.rest.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let end = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |place| place + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            self.line(line, out, words, set);
        }
        is_open
    }

    fn line(
        &mut self,
        line: &str,
        out: &mut Vec<Reading>,
        words: &mut Vec<String>,
        set: fn(&mut Gauge, u64, f64, &mut Vec<Reading>),
    ) {
        let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
        let (number, text_of_number) = text.split_once(' ').unwrap_or((text, ""));
        let number = number.parse::<usize>().ok();
        match kind {
            "L" => self.library = Some(text.rsplit('/').next().unwrap_or(text).to_owned()),
            "N" => self.give_up(text),
            "T" => self.asked = None,
            "V" => {
                let value = text_of_number.split_once(' ').and_then(|(time, value)| {
                    Some((time.parse::<u64>().ok()?, value.parse::<f64>().ok()?))
                });
                if let Some(one) = number.and_then(|number| self.wanted.get_mut(number))
                    && let Some((time_ns, value)) = value
                {
                    one.has_value = true;
                    one.failures = 0;
                    set(&mut one.wanted.gauge, time_ns, value, out);
                }
            }
            "E" => {
                let library = self.library.as_deref().unwrap_or_default();
                if let Some(one) = number.and_then(|number| self.wanted.get_mut(number)) {
                    one.failures += 1;
                    if !one.has_value || one.failures >= PATIENCE {
                        one.given_up
                            .get_or_insert_with(|| format!("{library}: {text_of_number}"));
                    }
                }
            }
            _ => {}
        }
        if matches!(kind, "T" | "N") {
            self.report(words);
        }
    }

    fn give_up(&mut self, reason: &str) {
        for one in &mut self.wanted {
            one.given_up.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Says once of each counter that was given up, and of which the user wants to hear: one line
    /// for each GPU and reason.
    fn report(&mut self, words: &mut Vec<String>) {
        let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
        for one in &mut self.wanted {
            let Some(reason) = one.given_up.as_ref().filter(|_| !one.reported) else {
                continue;
            };
            one.reported = true;
            let Wanted {
                gpu, metric, named, ..
            } = &one.wanted;
            let (begin, what) = match (one.has_value, named) {
                (true, _) => (format!("{gpu}: not recorded any more"), metric.clone()),
                (false, true) => (
                    format!("{gpu}: no"),
                    format!("{metric} ({})", one.wanted.reason),
                ),
                // Of `all`, a GPU has what it has.
                (false, false) => continue,
            };
            match lines
                .iter_mut()
                .find(|(known, _, why)| *known == begin && why == reason)
            {
                Some((_, list, _)) => list.push(what),
                None => lines.push((begin, vec![what], reason.clone())),
            }
        }
        words.extend(
            lines
                .into_iter()
                .map(|(begin, list, reason)| format!("{begin} {}; {reason}", list.join(", "))),
        );
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may hang in its library. What it read is read.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
