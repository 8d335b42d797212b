//! One event of the list: where in its bytes the parts stand that count.

use super::labels::without_label;
use crate::read::json::number;
use crate::read::json::syntax::{Fault, Span, members, nested_end, value};

/// An event. Times and ids stay text: times are exact to the digit, and ids may be numbers or
/// texts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Event {
    pub(super) phase: Span,
    pub(super) category: Span,
    pub(super) name: Span,
    pub(super) time: Span,
    pub(super) duration: Span,
    pub(super) pid: Span,
    pub(super) tid: Span,
    /// Of counters: tells those of one name apart.
    pub(super) id: Span,
    pub(super) args: Args,
}

/// The arguments of an event that count.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Args {
    /// Where they begin in the event.
    pub(super) begin: usize,
    pub(super) device: Span,
    pub(super) stream: Span,
    pub(super) correlation: Span,
    /// Of operators, and of Python functions as `Python id`: it rises with their begin.
    pub(super) external_id: Span,
    /// A number, or what JAX's profiler says of a copy.
    pub(super) bytes: Span,
    pub(super) grid: Span,
    /// Of copies by ROCm: the direction. Of operations in files of rpd2tracing: what they are.
    pub(super) kind: Span,
    /// Of kernels of collectives.
    pub(super) collective: Span,
    /// Of JAX's profiler: it is an operator of XLA, or a step.
    pub(super) is_hlo_operator: bool,
    pub(super) is_step: bool,
    /// Of operators.
    pub(super) input_types: Span,
    pub(super) input_dimensions: Span,
    pub(super) input_strides: Span,
    pub(super) input_values: Span,
    /// The number of an operator in autograd.
    pub(super) sequence: Span,
    /// Of descriptions of processes and threads.
    pub(super) name: Span,
    pub(super) labels: Span,
    /// Of files that were merged of several ranks.
    pub(super) rank: Span,
    pub(super) original_pid: Span,
}

/// Which arguments count of functions and operators; those are most of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// What operators were called with.
    pub(super) shapes: bool,
    /// The rank, which events of merged files say.
    pub(super) ranks: bool,
}

/// The operator whose arguments tell of a collective.
pub(super) const COMMUNICATION: &[u8] = b"record_param_comms";

/// Whether events of a category may be read without their arguments.
pub(super) fn may_be_plain(category: &[u8]) -> bool {
    matches!(category, b"python_function" | b"cpu_op")
}

impl Wanted {
    /// Whether a slice of a category and name that begins at a time may be read without its arguments. In files with whole microseconds many slices begin and end
    /// together, and their numbers tell which is outside.
    fn has_plain_args(self, category: &[u8], name: &[u8], time: &[u8]) -> bool {
        match category {
            _ if !time.contains(&b'.') => false,
            b"python_function" => !self.ranks,
            b"cpu_op" if name.is_empty() || name == COMMUNICATION => false,
            b"cpu_op" => !self.ranks && !self.shapes,
            _ => false,
        }
    }
}

impl Event {
    /// The name of the queue of an operation of a GPU.
    #[inline]
    pub(super) fn stream<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        match self.args.stream.is_empty() {
            true => without_label(self.tid.of(bytes)),
            false => self.args.stream.of(bytes),
        }
    }

    /// The number that links calls and operations, if it has one.
    pub(super) fn link(&self, bytes: &[u8]) -> Option<i64> {
        let link = match self.args.correlation.is_empty() {
            true => self.args.external_id,
            false => self.args.correlation,
        };
        number(link.of(bytes)).filter(|link| *link != 0)
    }

    /// Reads the event that begins at the first byte; the second of the pair is its length.
    #[inline]
    pub(super) fn read(bytes: &[u8], wanted: Wanted) -> Result<(Self, usize), Fault> {
        let mut event = Self::default();
        let end = members(bytes, 0, |key, at| {
            let place = match key {
                b"ph" => &mut event.phase,
                b"cat" => &mut event.category,
                b"name" => &mut event.name,
                b"ts" => &mut event.time,
                b"dur" => &mut event.duration,
                b"pid" => &mut event.pid,
                b"tid" => &mut event.tid,
                b"id" => &mut event.id,
                b"args" if bytes.get(at) == Some(&b'{') => {
                    let [category, name, time] =
                        [event.category, event.name, event.time].map(|span| span.of(bytes));
                    return match wanted.has_plain_args(category, name, time) {
                        true => nested_end(bytes, at),
                        false => event.args.read(bytes, at),
                    };
                }
                _ => return other(bytes, at),
            };
            let (span, behind) = value(bytes, at)?;
            *place = span;
            Ok(behind)
        })?;
        Ok((event, end))
    }
}

/// The place behind a member of an event that is not used.
fn other(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let (_, behind) = value(bytes, at)?;
    let is_list = bytes.get(at) == Some(&b'[');
    match is_list && bytes[at..behind].contains(&b'{') {
        // No event has a list of objects: it is one that lacks its end, and they are the events behind it.
        true => Err(Fault::Malformed),
        false => Ok(behind),
    }
}

impl Args {
    fn read(&mut self, bytes: &[u8], at: usize) -> Result<usize, Fault> {
        self.begin = at;
        members(bytes, at, |key, at| {
            let (span, behind) = value(bytes, at)?;
            let place = match key {
                b"device" => &mut self.device,
                b"stream" => &mut self.stream,
                b"correlation" | b"corr_id" | b"correlation_id" => &mut self.correlation,
                b"External id" | b"external id" | b"Python id" => &mut self.external_id,
                b"bytes" | b"size" | b"memcpy_details" | b"memset_details" => &mut self.bytes,
                b"grid" => &mut self.grid,
                b"kind" | b"desc" => &mut self.kind,
                b"Collective name" => &mut self.collective,
                b"hlo_op" => {
                    self.is_hlo_operator = true;
                    return Ok(behind);
                }
                b"step_num" => {
                    self.is_step = true;
                    return Ok(behind);
                }
                b"Input type" => &mut self.input_types,
                b"Input Dims" | b"Input dims" => &mut self.input_dimensions,
                b"Input Strides" => &mut self.input_strides,
                b"Concrete Inputs" => &mut self.input_values,
                b"Sequence number" => &mut self.sequence,
                b"name" => &mut self.name,
                b"labels" => &mut self.labels,
                b"rank" => &mut self.rank,
                b"pid_raw" => &mut self.original_pid,
                _ => return Ok(behind),
            };
            *place = span;
            Ok(behind)
        })
    }
}
