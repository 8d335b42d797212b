//! The tables of rocprofv3, of a process each, and that of `rocprof` 1 and 2 with kernels.
//!
//! What a table holds, its columns say (rocprofiler-sdk's `source/lib/output/generateCSV.cpp`).
//!
//! | file | holds |
//! |---|---|
//! | `columns` | the columns of a table, and what it holds by them |
//! | `records` | what becomes of a row |

mod columns;
mod records;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::emit::Emit;
use super::group::{group, pid};
use super::places::Agent;
use super::record::natural;
use super::rows::Found;
use crate::model::{Batch, CounterId, Kinds, Model, Notice, Process, ProcessId, TextId};
use crate::read::{BATCH_RECORDS, BytesRead, Reader};
use columns::{Open, Table, first_pid, table_of};

/// Reads the tables of a process.
pub(in crate::read) struct CsvReader {
    files: VecDeque<PathBuf>,
    current: Option<Open>,
    emit: Emit,
    processes: HashMap<u64, ProcessId>,
    /// The process of rows that do not say theirs.
    main_pid: u64,
    /// What agents are, by what tables call them.
    agents: HashMap<u64, Agent>,
    gpus: u32,
    has_kernels: bool,
    /// The dispatch whose counters are read.
    last_dispatch: Option<(ProcessId, u64)>,
    counters: HashMap<(ProcessId, u64, TextId), CounterId>,
    file: String,
    read_bytes: BytesRead,
}

impl CsvReader {
    pub(in crate::read) fn new(path: &Path, kinds: Kinds, read_bytes: &BytesRead) -> Self {
        let files = group(path);
        let known = files.iter().find_map(|file| pid(file));
        let main_pid = known.map(u64::from);
        let is_of_kernels = |file: &PathBuf| file.to_string_lossy().contains("kernel_trace");
        Self {
            has_kernels: files.iter().any(is_of_kernels),
            main_pid: main_pid
                .or_else(|| files.iter().find_map(|file| first_pid(file)))
                .unwrap_or(0),
            files: files.into(),
            current: None,
            emit: Emit::new(kinds),
            processes: HashMap::new(),
            agents: HashMap::new(),
            gpus: 0,
            last_dispatch: None,
            counters: HashMap::new(),
            file: path.display().to_string(),
            read_bytes: read_bytes.clone(),
        }
    }

    fn notice(file: &str, offset: Option<u64>, text: impl Into<String>, model: &mut Model) {
        model.notices.push(Notice {
            file: file.to_owned(),
            offset,
            text: text.into(),
        });
    }

    /// Opens the next file that has something that is asked for. `false`: there is none.
    fn open(&mut self, model: &mut Model) -> bool {
        while let Some(path) = self.files.pop_front() {
            let file = path.display().to_string();
            match table_of(&path, &self.read_bytes) {
                Ok(Some((rows, columns, table))) if self.is_wanted(table) => {
                    self.current = Some(Open {
                        file,
                        rows,
                        columns,
                        table,
                    });
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let text = "a table of rocprofv3 whose columns are unknown, left out";
                    Self::notice(&file, Some(0), text, model);
                }
                Err(error) => {
                    Self::notice(&file, None, format!("cannot be read: {error}"), model);
                }
            }
        }
        false
    }

    fn is_wanted(&self, table: Table) -> bool {
        let kinds = self.emit.kinds;
        match table {
            Table::Agents => true,
            Table::Kernels | Table::Copies | Table::Scratch => kinds.gpu,
            Table::Counters => kinds.counters || kinds.gpu && !self.has_kernels,
            Table::Calls => kinds.host || kinds.recorded || kinds.marks,
            Table::Allocations => kinds.host,
        }
    }

    fn process(&mut self, open: &Open, model: &mut Model) -> ProcessId {
        let pid = natural(open.cell(open.columns.process)).unwrap_or(self.main_pid);
        let file = &self.file;
        *self.processes.entry(pid).or_insert_with(|| {
            model.processes.push(Process {
                pid: u32::try_from(pid).unwrap_or(0),
                file: file.clone(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// Says what was left out of the file that was read.
    fn close(&mut self, model: &mut Model) {
        if let Some(open) = self.current.take() {
            let left_out = std::mem::take(&mut self.emit.left_out);
            model.notices.extend(left_out.notices(&open.file));
        }
    }
}

impl Reader for CsvReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while batch.len() < goal {
            let Some(mut open) = self.current.take() else {
                match self.open(model) {
                    true => continue,
                    false => return false,
                }
            };
            let found = open.rows.next();
            let (is_done, trouble) = match found {
                Ok(Found::Row(offset)) => {
                    self.row(&open, offset, model, batch);
                    (false, None)
                }
                Ok(Found::Malformed(offset)) => {
                    self.emit.left_out.malformed.add(offset);
                    (false, None)
                }
                Ok(Found::End) => (true, None),
                Err(error) => (true, Some((open.rows.position(), error))),
            };
            if let Some((offset, error)) = trouble {
                let text = format!("cannot be read further: {error}; what begins here is left out");
                Self::notice(&open.file, Some(offset), text, model);
            }
            self.current = Some(open);
            if is_done {
                self.close(model);
            }
        }
        true
    }
}
