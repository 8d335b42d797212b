//! How far reading has come, in one line on a terminal, from a second on.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rsys_traces::read::BytesRead;

/// Nothing is shown of what takes less.
const FIRST: Duration = Duration::from_secs(1);
/// Between two lines.
const EVERY: Duration = Duration::from_millis(200);
/// Back to the begin of the line, which is emptied.
const ERASE: &str = "\r\x1b[K";

/// Shows a line as long as it lives.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Closed when there is nothing more to show.
    end: Option<Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows on standard error how much of `total` bytes was read, if that is a terminal.
    pub(crate) fn on_terminal(read: BytesRead, total: u64) -> Self {
        let stream = std::io::stderr();
        let can_erase = std::env::var_os("TERM").is_some_and(|kind| kind != "dumb");
        if can_erase && stream.is_terminal() {
            Self::show(stream, read, total, FIRST)
        } else {
            Self {
                end: None,
                shown: None,
            }
        }
    }

    /// Shows it on any stream, from `first` on.
    fn show(
        mut stream: impl Write + Send + 'static,
        read: BytesRead,
        total: u64,
        first: Duration,
    ) -> Self {
        let (end, ended) = channel::<()>();
        let started = Instant::now();
        let shown = thread::spawn(move || {
            let mut pause = first;
            let mut is_shown = false;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let text = line(read.get(), total, started.elapsed());
                // A terminal that is gone needs no progress.
                write!(stream, "{ERASE}{text}")
                    .and_then(|()| stream.flush())
                    .ok();
                is_shown = true;
                pause = EVERY;
            }
            if is_shown {
                write!(stream, "{ERASE}").and_then(|()| stream.flush()).ok();
            }
        });
        Self {
            end: Some(end),
            shown: Some(shown),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end = None;
        if let Some(shown) = self.shown.take() {
            // The line is gone before anything else is printed. What became of the thread does not matter.
            shown.join().ok();
        }
    }
}

/// The line: how much was read, how fast, and how long the rest will take.
fn line(read: u64, total: u64, elapsed: Duration) -> String {
    let megabytes = |bytes: u64| bytes / 1_000_000;
    if read >= total {
        return format!("rsys-report: {} MB read, answering", megabytes(read));
    }
    let per_s = (read as f64 / elapsed.as_secs_f64()).max(1.0);
    let left_s = ((total - read) as f64 / per_s).ceil();
    format!(
        "rsys-report: {} of {} MB, {} MB/s, {left_s} s left",
        megabytes(read),
        megabytes(total),
        megabytes(per_s as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that tells what is written.
    struct Told(Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_says_how_long_the_rest_takes() {
        let second = Duration::from_secs(1);
        let at = |read, seconds| line(read, 1_000_000_000, seconds * second);
        assert_eq!(
            at(250_000_000, 2),
            "rsys-report: 250 of 1000 MB, 125 MB/s, 6 s left"
        );
        assert_eq!(at(1_000_000_000, 9), "rsys-report: 1000 MB read, answering");
        assert_eq!(
            line(5, 5, Duration::ZERO),
            "rsys-report: 0 MB read, answering"
        );
    }

    #[test]
    fn the_line_is_erased_at_the_end() {
        let (told, lines) = channel();
        let progress = Progress::show(Told(told), BytesRead::default(), 7, Duration::ZERO);
        let mut text = String::new();
        while !text.contains("MB/s") {
            text += &lines.recv().expect("a line");
        }
        drop(progress);
        text.extend(lines);
        assert!(text.ends_with(ERASE) && text.starts_with(ERASE), "{text:?}");
    }

    #[test]
    fn what_is_quick_shows_nothing() {
        let (told, lines) = channel();
        drop(Progress::show(
            Told(told),
            BytesRead::default(),
            7,
            Duration::MAX,
        ));
        assert_eq!(lines.iter().count(), 0);
    }
}
