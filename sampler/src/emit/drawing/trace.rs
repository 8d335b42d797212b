//! The trace of a process, before it is opened, while it is open, and after it could not be written
//! further.

use std::path::{Path, PathBuf};

use crate::emit::output::Output;
use crate::emit::output::sink::Opened;
use crate::emit::tools::Tools;
use crate::identity::Identity;
use crate::run::layout::FileId;
use crate::terminal::say;

/// Records of the threads of a process come together, but for this time at most: nothing that is still to come is older, except operations
/// of GPUs, which are drawn as a whole.
const LATE_NS: u64 = 500_000_000;

/// The trace of a process, if there is one.
#[derive(Debug)]
pub struct Trace {
    /// What is open.
    pub output: Option<Output>,
    /// Why there is no file, or no more.
    pub trouble: Option<String>,
    /// The file that stays.
    pub path: Option<PathBuf>,
    /// Those in which it went on.
    pub parts: Vec<PathBuf>,
    /// The small one of the whole run.
    pub overview: Option<PathBuf>,
    /// The file of all short processes, if it is in that.
    pub shared: Option<PathBuf>,
    /// What distinguishes the files of the process.
    pub id: FileId,
    /// Whether there could not be another file once.
    is_split_refused: bool,
    /// Whether it may be opened.
    is_wanted: bool,
    /// Whether it goes into the file of all short processes.
    is_short: bool,
}

impl Trace {
    /// A trace that is not opened yet, and never is unless `is_wanted`.
    #[must_use]
    pub fn new(is_wanted: bool) -> Self {
        Self {
            output: None,
            trouble: None,
            path: None,
            parts: Vec::new(),
            overview: None,
            shared: None,
            id: FileId::default(),
            is_split_refused: false,
            is_wanted,
            is_short: false,
        }
    }

    /// If it is opened, it goes into the file of all short processes.
    pub fn share(&mut self) {
        self.is_short = true;
    }

    /// Whether it was opened, or could not be.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.output.is_some() || self.trouble.is_some()
    }

    /// Opens it if that is still to be done.
    pub fn open(&mut self, identity: &Identity, tools: &mut Tools<'_>) {
        if self.is_settled() || !self.is_wanted {
            return;
        }
        if self.is_short {
            return self.open_shared(identity, tools);
        }
        match tools.sinks.open(identity, tools.run) {
            Ok(Opened { sink, path, id }) => {
                (self.id, self.path) = (id, path);
                self.output = Some(Output::begin(sink, identity, tools.run));
            }
            Err(error) => {
                let id = FileId::new(&identity.pid.to_string(), 0);
                let path = tools.run.layout_of(identity).path(&id);
                let text = format!(
                    "{}: the trace of pid {} cannot be created: {error}",
                    path.display(),
                    identity.pid
                );
                say(&format!("error: {text}"));
                self.trouble = Some(text);
            }
        }
    }

    fn open_shared(&mut self, identity: &Identity, tools: &mut Tools<'_>) {
        match tools.sinks.open_shared(identity, tools.run) {
            Ok(Some(Opened { sink, path, .. })) => {
                self.shared = path;
                self.output = Some(Output::begin(sink, identity, tools.run));
            }
            Ok(None) => self.is_wanted = false,
            Err(error) => {
                self.is_wanted = false;
                say(&format!(
                    "warning: the trace of short processes cannot be created: {error}"
                ));
            }
        }
    }

    /// Goes on in another file if that is what the run wants, and the present one is full. Events up to `last_time_ns` were drawn.
    pub fn split(&mut self, identity: &Identity, last_time_ns: u64, tools: &mut Tools<'_>) {
        let limits = tools.run.split;
        let Some(output) = &mut self.output else {
            return;
        };
        if self.is_short || limits.is_none() || !output.is_full(limits, last_time_ns) {
            return;
        }
        match tools
            .sinks
            .open_further(self.id.next_part(), identity, tools.run)
        {
            Ok(Opened { sink, path, id }) => {
                self.id = id;
                self.parts.extend(path);
                let begin_ns = last_time_ns.saturating_sub(LATE_NS);
                output.next_part(sink, (begin_ns, last_time_ns), identity, tools.run);
            }
            Err(error) if !self.is_split_refused => {
                self.is_split_refused = true;
                say(&format!(
                    "warning: the trace of pid {} goes on in its file, for there cannot be another: {error}",
                    identity.pid
                ));
            }
            Err(_) => {}
        }
    }

    /// Brings what is pending to the sink, if it is time to, or at once. Returns whether the trace
    /// ended with an error.
    pub fn flush(&mut self, now: bool) -> bool {
        let Some(output) = &mut self.output else {
            return false;
        };
        output.flush(now);
        let Some(error) = output.take_error() else {
            return false;
        };
        let path = self.path.as_deref().or(self.shared.as_deref());
        let path = path.unwrap_or("trace".as_ref());
        let text = format!("{}: cannot be written further: {error}", path.display());
        say(&format!(
            "error: {text}; the trace holds what was written, the program runs on"
        ));
        self.trouble = Some(text);
        self.output = None;
        true
    }

    /// Ends the file: nothing more is drawn.
    pub fn close(&mut self) {
        let Some(Err(error)) = self.output.take().map(Output::close) else {
            return;
        };
        let path = self.path.as_deref().or(self.shared.as_deref());
        let path = path.unwrap_or("trace".as_ref());
        let text = format!(
            "{}: not all of it could be written: {error}",
            path.display()
        );
        say(&format!("error: {text}"));
        self.trouble = Some(text);
    }

    /// Notices when somebody removed the file.
    pub fn look_for_file(&mut self) {
        if let Some(path) = self.path.take_if(|path| is_gone(path)) {
            let text = removed(&path);
            say(&format!("error: {text}"));
            self.trouble = Some(text);
        }
    }
}

/// Whether a file is not there. One that cannot be asked for may be.
#[must_use]
pub fn is_gone(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// What is said of a trace that somebody removed.
#[must_use]
pub fn removed(path: &Path) -> String {
    format!(
        "{}: the trace was removed while it was written",
        path.display()
    )
}
