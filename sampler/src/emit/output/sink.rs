//! Where the bytes of a trace go.
//!
//! A [`Sinks`] opens a [`Sink`] for each process that has something to show. The shipped ones are
//! files ([`TraceFiles`]); where only summaries are asked for, the bytes are dropped. A test, or a
//! view of a running program, takes them in memory.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::identity::Identity;
use crate::os;
use crate::run::RunContext;
use crate::run::file_names::FileNames;
use crate::run::layout::FileId;

/// Takes the bytes of one trace, in order.
pub trait Sink: Write + Debug + Send {
    /// Drops everything behind the first `bytes` bytes: the rest of a packet that could not be
    /// written as a whole.
    ///
    /// # Errors
    /// When what was written cannot be taken back.
    fn cut_to(&mut self, bytes: u64) -> io::Result<()>;

    /// Ends it.
    ///
    /// # Errors
    /// When something that was written is not kept: a file system of another machine may say so only now.
    fn close(self: Box<Self>) -> io::Result<()>;
}

impl Sink for File {
    fn cut_to(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(drop)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        os::close(*self)
    }
}

/// Drops all bytes.
impl Sink for io::Sink {
    fn cut_to(&mut self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// An open sink.
#[derive(Debug)]
pub struct Opened {
    /// Takes the trace.
    pub sink: Box<dyn Sink>,
    /// The file that it is, if it is one that stays.
    pub path: Option<PathBuf>,
    /// What distinguishes the other files of the process.
    pub id: FileId,
}

/// Opens the sinks of a run.
pub trait Sinks: Debug {
    /// Takes note of a process that announced itself. Called for each before it has anything to
    /// write.
    fn announce(&mut self, identity: &Identity, run: &RunContext);

    /// Opens the sink for the trace of a process.
    ///
    /// # Errors
    /// When there cannot be one.
    fn open(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Opened>;

    /// Opens a further sink for the trace of a process, which is called `id`.
    ///
    /// # Errors
    /// When there cannot be one.
    fn open_further(
        &mut self,
        id: FileId,
        identity: &Identity,
        run: &RunContext,
    ) -> io::Result<Opened>;

    /// Opens the sink that the traces of processes share which are too short for a file each. They are written one after the other. `None` if
    /// there is no such sink, or it has failed.
    ///
    /// # Errors
    /// When it cannot be made; the first time only.
    fn open_shared(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Option<Opened>>;
}

/// A file for each process, named as the run's layout says, and one for all short processes.
#[derive(Debug, Default)]
pub struct TraceFiles {
    names: FileNames,
    shared: Option<(File, PathBuf)>,
    has_shared_failed: Arc<AtomicBool>,
}

/// Appends the trace of a process to the file of several.
#[derive(Debug)]
struct Appended {
    file: File,
    /// Where the trace begins.
    begin: u64,
    has_failed: Arc<AtomicBool>,
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        let is_failure = |error: &io::Error| error.kind() != io::ErrorKind::Interrupted;
        if written.as_ref().is_err_and(is_failure) {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Appended {
    fn cut_to(&mut self, bytes: u64) -> io::Result<()> {
        self.file.cut_to(self.begin + bytes)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        os::close(self.file)
    }
}

impl Sinks for TraceFiles {
    fn announce(&mut self, identity: &Identity, run: &RunContext) {
        // For no other is a name kept.
        if identity.is_command {
            self.names
                .reserve(&run.files_of(identity), &run.claimant(identity));
        }
    }

    fn open(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Opened> {
        let (files, claimant) = (run.files_of(identity), run.claimant(identity));
        if !run.trace {
            return Ok(Opened {
                sink: Box::new(io::sink()),
                path: None,
                id: self.names.choose(&files, &claimant),
            });
        }
        let (id, file, path) = self.names.create(&files, &claimant)?;
        Ok(Opened {
            sink: Box::new(file),
            path: Some(path),
            id,
        })
    }

    fn open_further(
        &mut self,
        id: FileId,
        identity: &Identity,
        run: &RunContext,
    ) -> io::Result<Opened> {
        let (file, path) = run.layout_of(identity).create(&id)?;
        Ok(Opened {
            sink: Box::new(file),
            path: Some(path),
            id,
        })
    }

    fn open_shared(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Option<Opened>> {
        if !run.trace || self.has_shared_failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let appended = self.append_to_shared(identity, run);
        if appended.is_err() {
            self.has_shared_failed.store(true, Ordering::Relaxed);
        }
        appended.map(Some)
    }
}

impl TraceFiles {
    fn append_to_shared(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Opened> {
        let (file, path) = match &mut self.shared {
            Some(shared) => shared,
            none => none.insert(self.names.create_shared(&run.files_of(identity))?),
        };
        let sink = Appended {
            begin: file.seek(SeekFrom::End(0))?,
            file: file.try_clone()?,
            has_failed: Arc::clone(&self.has_shared_failed),
        };
        Ok(Opened {
            sink: Box::new(sink),
            path: Some(path.clone()),
            id: FileId::default(),
        })
    }
}
