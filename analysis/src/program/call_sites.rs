//! Where in the program calls were made: by the stacks that were recorded with them, else by samples of their thread that were taken while
//! they went on.
//!
//! Most samples fall into no call that is asked about. As long as there are few, all are kept; when they are many, those are discarded that no call has
//! contained so far, but for the last of each thread: a call is recorded when it ends.

use std::collections::HashMap;

use crate::containers::packed_rows::PackedRows;
use crate::program::code_place::{cells as place_cells, innermost, program_part};
use crate::table::Cell;
use rsys_traces::model::entry;
use rsys_traces::model::{
    Basis, Batch, Frame, HostKind, HostSlice, Model, StackId, TextId, Texts, ThreadId, is_of_loader,
};

/// In place of a function where a call has no stack and no sample was taken within it, or none shows a function of the program.
pub(crate) const NOT_SEEN: &str = "[no sample within the call]";

/// The outermost frame of the stacks of calls in our traces.
pub(crate) const ROOT: &str = "[calls]";

/// The fewest samples that are kept whatever they show: some 20 MB.
const SAMPLES: usize = 1 << 22;
/// Of a thread so many stay, the last ones: those of minutes, as threads are sampled.
const LAST: usize = 1 << 16;
/// And of each call so many, the first ones: one of them shows a function of the program, if any does.
const OF_CALL: usize = 16;

/// Times and stacks, by thread, at some five bytes each.
type ByThread = Vec<PackedRows<2>>;

/// Where a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Site {
    Frame(Frame),
    /// A function that the trace has recorded around it.
    Function(TextId),
}

impl Site {
    /// Function, source and line, as cells.
    pub(crate) fn cells(site: Option<Self>, model: &Model, missing: &str) -> [Cell; 3] {
        match site {
            Some(Self::Function(name)) => [model.text(name).into(), Cell::Null, Cell::Null],
            Some(Self::Frame(frame)) => place_cells(Some(&frame), model, missing),
            None => place_cells(None, model, missing),
        }
    }
}

/// The stacks of calls and the samples of threads.
#[derive(Debug, Default)]
pub(crate) struct CallSites {
    calls: ByThread,
    samples: ByThread,
    /// Begin and end of the calls that may be asked about.
    spans: ByThread,
    /// Functions that the trace has recorded, by thread: begin, end counted downwards, name.
    functions: Vec<PackedRows<3>>,
    /// Begins of calls, and the functions that they are in.
    around: ByThread,
    /// How many samples there are, and how many may be.
    kept: usize,
    limit: usize,
}

impl CallSites {
    /// Takes in the samples of a batch. Calls that `matters` is false for are not asked about.
    pub(crate) fn take(&mut self, batch: &Batch, matters: impl Fn(&HostSlice) -> bool) {
        for slice in batch.host.iter().filter(|slice| matters(slice)) {
            if slice.thread.index() != HostSlice::NO_THREAD {
                let spans = entry(&mut self.spans, slice.thread.index());
                spans.push([slice.start_ns, slice.end_ns]);
            }
        }
        for sample in &batch.samples {
            let threads = match sample.basis {
                Basis::CallTime => &mut self.calls,
                Basis::CpuTime | Basis::WaitTime => {
                    self.kept += 1;
                    &mut self.samples
                }
                Basis::GpuTime | Basis::Event => continue,
            };
            let of_thread = entry(threads, sample.thread.index());
            of_thread.push([sample.time_ns, sample.stack.index() as u64]);
        }
        if self.kept >= self.limit.max(SAMPLES) {
            self.discard();
            self.limit = 2 * self.kept;
        }
    }

    /// Takes in functions that the trace has recorded, for [`CallSites::site`].
    pub(crate) fn take_functions(&mut self, batch: &Batch) {
        let is_one = |slice: &&HostSlice| {
            slice.kind == HostKind::Function && slice.thread.index() != HostSlice::NO_THREAD
        };
        for slice in batch.host.iter().filter(is_one) {
            let of_thread = entry(&mut self.functions, slice.thread.index());
            let name = slice.name.index() as u64;
            of_thread.push([slice.start_ns, u64::MAX - slice.end_ns, name]);
        }
    }

    /// Finds the functions around calls: the innermost that is the program's, else the innermost. To be called before [`CallSites::sort`].
    pub(crate) fn sort_functions(&mut self, texts: &Texts) {
        let functions = std::mem::take(&mut self.functions);
        let mut known: HashMap<u64, bool> = HashMap::new();
        let mut is_own = |name: &u64| {
            let is_own = || !is_of_library(texts.get(TextId::at(*name as usize)));
            *known.entry(*name).or_insert_with(is_own)
        };
        for (thread, mut functions) in functions.into_iter().enumerate() {
            let Some(spans) = self.spans.get_mut(thread).filter(|list| !list.is_empty()) else {
                continue;
            };
            functions.sort();
            spans.sort();
            let (mut next, mut open) = (functions.iter().peekable(), Vec::<(u64, u64)>::new());
            for [start_ns, _] in spans.iter() {
                while let Some([begin_ns, backward, name]) = next.next_if(|row| row[0] <= start_ns)
                {
                    while open.pop_if(|inner| inner.0 <= begin_ns).is_some() {}
                    open.push((u64::MAX - backward, name));
                }
                while open.pop_if(|inner| inner.0 <= start_ns).is_some() {}
                let names = || open.iter().rev().map(|(_, name)| *name);
                if let Some(name) = names().find(&mut is_own).or_else(|| names().next()) {
                    entry(&mut self.around, thread).push([start_ns, name]);
                }
            }
        }
    }

    /// Discards samples that are in no call.
    fn discard(&mut self) {
        self.kept = 0;
        for (thread, samples) in self.samples.iter_mut().enumerate() {
            samples.sort();
            let last = samples.len().saturating_sub(LAST);
            let last_ns = samples.get(last).map_or(0, |row| row[0]);
            let spans = entry(&mut self.spans, thread);
            spans.sort();
            let mut spans = spans.iter().peekable();
            let (mut end_ns, mut within) = (0, 0);
            samples.settle(|row| {
                while let Some(span) = spans.next_if(|span| span[0] <= row[0]) {
                    (end_ns, within) = (span[1].max(end_ns), 0);
                }
                within += 1;
                row[0] >= last_ns || row[0] < end_ns && within <= OF_CALL
            });
            self.kept += samples.len();
        }
    }

    /// Puts stacks and samples in order; to be called when all were taken in.
    pub(crate) fn sort(&mut self) {
        self.spans = ByThread::new();
        for threads in [&mut self.calls, &mut self.samples, &mut self.around] {
            threads.iter_mut().for_each(|list| list.sort());
        }
    }

    /// The stack of a call down to the innermost function of the program: the one that was recorded with the call, else that of the first sample
    /// of its thread from `start_ns` on and before `end_ns` that shows one.
    pub(crate) fn find(
        &self,
        thread: ThreadId,
        (start_ns, end_ns): (u64, u64),
        model: &Model,
    ) -> Option<StackId> {
        let within = |threads: &ByThread, end_ns: u64| {
            let list = threads.get(thread.index())?;
            let first = list.partition_point(|row| row[0] < start_ns);
            let mut within = (first..)
                .map_while(|number| list.get(number))
                .take_while(|row| row[0] < end_ns);
            within.find_map(|row| program_part(StackId::at(row[1] as usize), model))
        };
        within(&self.calls, start_ns + 1).or_else(|| within(&self.samples, end_ns))
    }

    /// Where a call was made: the innermost function of the program on its stack, else the function around it.
    pub(crate) fn site(&self, thread: ThreadId, time: (u64, u64), model: &Model) -> Option<Site> {
        let stack = self.find(thread, time, model);
        let frame = stack.and_then(|stack| innermost(stack, model));
        let around = || {
            let list = self.around.get(thread.index())?;
            let row = list.get(list.partition_point(|row| row[0] < time.0))?;
            (row[0] == time.0).then(|| Site::Function(TextId::at(row[1] as usize)))
        };
        frame.copied().map(Site::Frame).or_else(around)
    }
}

/// Whether a function is of a framework or of Python's library, by its name as PyTorch's profiler writes it: `torch/nn/modules/linear.py(114): forward`.
fn is_of_library(name: &str) -> bool {
    name.starts_with("nn.Module: ") || name.starts_with("contextlib.py") || is_of_loader(name)
}
