//! What the arguments of a kernel, or the host around its launch, say of the collective that it is of.
//!
//! Keys are those of PyTorch (`torch/csrc/profiler/util.h`), which Kineto copies from `record_param_comms` to the kernel, on CUDA. Elements are counted: bytes
//! follow from their type.

use std::collections::HashMap;

use super::around::{Launches, Spans};
use super::event::{Args, COMMUNICATION};
use super::records::{BY_EXTERNAL_ID, Source, count};
use crate::model::{
    Batch, CollectiveCall, CollectiveName, GpuRecord, HostKind, HostSlice, Model, ProcessId,
    TextId, ThreadId,
};
use crate::read::json::number;
use crate::read::json::syntax::{Span, members, value};
use crate::read::json::text::{intern, unescaped};

/// Set in links of kernels of collectives that have none, beside their number in the file.
const BY_ITSELF: u64 = BY_EXTERNAL_ID | 1 << 48;

/// Bytes of elements, by the names of their types: PyTorch's, and those of RCCL as our traces have them.
const SIZES: [(&str, u64); 33] = [
    ("byte", 1),
    ("char", 1),
    ("bool", 1),
    ("int8", 1),
    ("uint8", 1),
    ("float8_e4m3fn", 1),
    ("float8_e5m2", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e5m2fnuz", 1),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
    ("fp8_e4m3", 1),
    ("fp8_e5m2", 1),
    ("short", 2),
    ("half", 2),
    ("bfloat16", 2),
    ("float16", 2),
    ("int", 4),
    ("float", 4),
    ("int32", 4),
    ("uint32", 4),
    ("float32", 4),
    ("uint16", 2),
    ("int16", 2),
    ("long", 8),
    ("double", 8),
    ("int64", 8),
    ("uint64", 8),
    ("float64", 8),
    ("complexfloat", 8),
    ("complexhalf", 4),
    ("complexdouble", 16),
    ("bits8", 1),
];

/// Bytes of an element; 0 if its type is not known.
fn size(data_type: &str) -> u64 {
    let name = data_type.to_ascii_lowercase();
    let found = SIZES.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, bytes)| *bytes)
}

/// The ranks of a group, as PyTorch lists them: of more than 30 the first and the last (`[0, 1, ..., 63]`).
#[derive(Debug, Default, PartialEq, Eq)]
struct Members {
    /// Those that are listed without a gap, from the first on.
    first: Vec<u64>,
    /// The stride between ranks of a shortened list, if its last rank fits an even stride.
    step: Option<u64>,
    count: u64,
}

impl Members {
    /// Reads a list of a group of so many ranks. `None` if it is none.
    fn read(list: &str, count: Option<u64>) -> Option<Self> {
        let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
        let numbers = |list: &str| -> Option<Vec<u64>> {
            let words = list.split(',').map(str::trim);
            words.map(|word| word.parse().ok()).collect()
        };
        let Some((first, last)) = list.split_once(", ..., ") else {
            let first = numbers(list)?;
            let count = first.len() as u64;
            return Some(Self {
                first,
                step: None,
                count,
            });
        };
        let (first, last): (_, u64) = (numbers(first)?, last.trim().parse().ok()?);
        let count = count?;
        let step = match first[..] {
            [one, two, ..] => two.checked_sub(one),
            _ => None,
        };
        let is_even = |step: &u64| {
            let span = count
                .checked_sub(1)
                .and_then(|steps| steps.checked_mul(*step));
            let whole = last.checked_sub(first[0]);
            let steps = first
                .windows(2)
                .all(|two| two[0].checked_add(*step) == Some(two[1]));
            *step > 0 && steps && span.is_some() && span == whole
        };
        let step = step.filter(is_even);
        Some(Self { first, step, count })
    }

    /// Which of the group a rank of the job is.
    fn place(&self, rank: u64) -> Option<u64> {
        if let Some(place) = self.first.iter().position(|one| *one == rank) {
            return Some(place as u64);
        }
        let (step, behind) = (self.step?, rank.checked_sub(*self.first.first()?)?);
        let place = behind / step;
        (behind % step == 0 && place < self.count).then_some(place)
    }
}

/// Whether PyTorch says of an operation which rank is its root or its other side (`Rank`), not who calls it.
fn names_another_rank(operation: &str) -> bool {
    let plain = operation.trim_start_matches('_');
    let plain = plain.strip_suffix("_oop").unwrap_or(plain);
    matches!(
        plain,
        "broadcast" | "reduce" | "gather" | "scatter" | "send" | "recv"
    )
}

/// Arguments of a kernel that say what its collective is.
#[derive(Debug, Clone, Copy, Default)]
struct Operation {
    name: Span,
    data_type: Span,
    given_elements: Span,
    got_elements: Span,
    group_size: Span,
    group_name: Span,
    group_ranks: Span,
    group_rank: Span,
    sequence: Span,
    /// As our own files have it: of messages it counts those of the same direction between the same two ranks.
    own_sequence: Span,
    source_rank: Span,
    target_rank: Span,
}

impl Operation {
    /// Reads the object that begins at a place, which was read before.
    fn read(bytes: &[u8], at: usize) -> Self {
        let mut operation = Self::default();
        let read = members(bytes, at, |key, at| {
            let (span, behind) = value(bytes, at)?;
            let place = match key {
                b"Collective name" => &mut operation.name,
                b"dtype" => &mut operation.data_type,
                b"In msg nelems" => &mut operation.given_elements,
                b"Out msg nelems" => &mut operation.got_elements,
                b"Group size" => &mut operation.group_size,
                b"Process Group Name" => &mut operation.group_name,
                b"Process Group Ranks" => &mut operation.group_ranks,
                b"Rank" => &mut operation.group_rank,
                b"Seq" | b"seq" => &mut operation.sequence,
                b"seq_num" => &mut operation.own_sequence,
                b"Src Rank" => &mut operation.source_rank,
                b"Dst Rank" => &mut operation.target_rank,
                _ => return Ok(behind),
            };
            *place = span;
            Ok(behind)
        });
        debug_assert!(read.is_ok());
        operation
    }
}

/// What is counted together where kernels have no numbers: the collectives of a communicator in a process, or its messages by function and other side.
type Counted = (usize, TextId, Option<(TextId, u64)>);

/// Collectives of a file.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    /// Kernels whose collectives have no numbers, until all are there: files are not in order of time.
    unnumbered: Vec<(GpuRecord, CollectiveCall)>,
    /// How many kernels of collectives had no link.
    unlinked: u64,
    /// Kernels that say nothing of their collective, as before PyTorch 2.1; and whether others do.
    unnamed: Vec<GpuRecord>,
    has_named: bool,
    /// What the host says of them: calls with their arguments; ranges, by the function that they name; and launches.
    calls: Spans<CollectiveCall>,
    ranges: Spans<TextId>,
    launches: Launches,
    /// Collectives of Gloo, which hosts do.
    of_gloo: Vec<HostSlice>,
}

/// PyTorch's ranges around collectives begin like this.
const RANGE: &[u8] = b"nccl:";
/// The same of those that hosts do.
const GLOO: &[u8] = b"gloo:";

impl Collectives {
    /// Whether the host may tell of collectives, so that launches count.
    pub(super) fn want_launches(&mut self, are_wanted: bool) {
        self.launches.are_wanted = are_wanted;
    }

    /// Takes in a kernel that moves data between GPUs and says nothing of its collective.
    pub(super) fn take_unnamed(&mut self, record: GpuRecord) {
        self.unnamed.push(record);
    }

    /// Takes in a slice of the host, which may be around the launch of a kernel that says nothing, or the launch.
    #[inline]
    pub(super) fn take_host(&mut self, slice: &HostSlice, source: Source<'_>, model: &mut Model) {
        let Source { bytes, event, .. } = source;
        let name = event.name.of(bytes);
        if self.has_named && !name.starts_with(GLOO) {
            return;
        }
        match slice.kind {
            HostKind::Runtime if slice.link != 0 => self.launches.take(slice),
            HostKind::Operator | HostKind::Range
                if name == COMMUNICATION && !event.args.collective.is_empty() =>
            {
                let call = of_arguments(slice.process, &event.args, bytes, model);
                self.calls.take(slice, call);
            }
            HostKind::Operator | HostKind::Range if name.starts_with(RANGE) => {
                self.ranges.take(slice, slice.name);
            }
            HostKind::Operator | HostKind::Range if name.starts_with(GLOO) => {
                self.of_gloo.push(*slice);
            }
            _ => {}
        }
    }

    /// The link of a kernel and its call: one of its own where the file has none.
    fn linked(&mut self, record: &mut GpuRecord) -> u64 {
        if record.link == 0 {
            self.unlinked += 1;
            record.link = BY_ITSELF | self.unlinked;
        }
        record.link
    }

    /// Where no kernel says anything, the host around their launches does, by the arguments of calls, or by ranges, which tell the function alone.
    fn name(&mut self, model: &mut Model, batch: &mut Batch) {
        let mut unnamed = std::mem::take(&mut self.unnamed);
        if self.has_named {
            batch.gpu.append(&mut unnamed);
            return;
        }
        unnamed.sort_by_cached_key(|one| place_of(one, model));
        self.calls.settle();
        self.ranges.settle();
        let launches = std::mem::take(&mut self.launches).of(&unnamed);
        let launch = |one: &GpuRecord| launches.get(&(one.process, one.link)).copied().flatten();
        let of_call = |one: &GpuRecord| self.calls.around(launch(one)?).copied();
        let calls: Vec<_> = unnamed.iter().map(of_call).collect();
        if calls.iter().any(Option::is_some) {
            for (record, call) in unnamed.into_iter().zip(calls) {
                match call {
                    Some(call) => self.place(record, timed(call, &record), batch),
                    None => batch.gpu.push(record),
                }
            }
            return;
        }
        // What ranges tell of is known; which communicator it is of is not.
        for mut record in unnamed {
            let range = launch(&record).and_then(|launch| self.ranges.around(launch));
            if let Some(&name) = range {
                self.linked(&mut record);
                let call = CollectiveCall {
                    name,
                    ..of_nothing(record.process)
                };
                batch.collectives.push(timed(call, &record));
            }
            batch.gpu.push(record);
        }
    }

    /// Collectives of Gloo, numbered as they come: the ranks of a process group call them in one order.
    fn name_those_of_gloo(&mut self, model: &mut Model, batch: &mut Batch) {
        let mut slices = std::mem::take(&mut self.of_gloo);
        slices.sort_by_key(|one| (one.process, one.start_ns, one.end_ns, one.thread));
        let mut numbers: HashMap<ProcessId, u64> = HashMap::new();
        for slice in slices {
            let CollectiveName::Of(function) = CollectiveName::of(model.text(slice.name)) else {
                continue;
            };
            let number = numbers.entry(slice.process).or_default();
            self.unlinked += 1;
            batch.collectives.push(CollectiveCall {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                link: BY_ITSELF | self.unlinked,
                name: model.texts.intern(function),
                communicator: model.texts.intern(&CollectiveCall::by_order("Gloo")),
                sequence: Some(*number),
                rank: model.process(slice.process).rank,
                ..of_nothing(slice.process)
            });
            *number += 1;
        }
    }

    /// Takes in the kernel of a collective, with its arguments.
    pub(super) fn take(
        &mut self,
        (record, args): (GpuRecord, &Args),
        bytes: &[u8],
        model: &mut Model,
        batch: &mut Batch,
    ) {
        if !self.has_named {
            self.has_named = true;
            (self.calls, self.ranges, self.launches) = Default::default();
        }
        let call = of_arguments(record.process, args, bytes, model);
        self.place(record, timed(call, &record), batch);
    }

    /// A kernel and its collective, which waits for a number if it has none.
    fn place(&mut self, mut record: GpuRecord, mut call: CollectiveCall, batch: &mut Batch) {
        match call.sequence {
            Some(_) => {
                call.link = self.linked(&mut record);
                batch.gpu.push(record);
                batch.collectives.push(call);
            }
            None => self.unnumbered.push((record, call)),
        }
    }

    /// The file ends: what had no number gets its place among those that count together.
    pub(super) fn finish(&mut self, model: &mut Model, batch: &mut Batch) {
        self.name(model, batch);
        self.name_those_of_gloo(model, batch);
        let mut counts: HashMap<Counted, u64> = HashMap::new();
        let mut unnumbered = std::mem::take(&mut self.unnumbered);
        unnumbered.sort_by_cached_key(|(record, call)| {
            let names = [call.name, call.communicator, call.data_type];
            let names = names.map(|name| model.text(name).to_owned());
            let place = place_of(record, model);
            (place, names, call.bytes, call.peer, record.link)
        });
        for (mut record, mut call) in unnumbered {
            call.link = self.linked(&mut record);
            let message = call.peer.map(|peer| (call.name, peer));
            let key = (call.process.index(), call.communicator, message);
            let count = counts.entry(key).or_default();
            let sequence = Some(*count);
            *count += 1;
            batch.gpu.push(record);
            batch.collectives.push(CollectiveCall { sequence, ..call });
        }
    }
}

/// When and where a kernel ran, and its name: what orders kernels, whatever their places in the file.
fn place_of(record: &GpuRecord, model: &Model) -> impl Ord + use<> {
    let times = (record.start_ns, record.end_ns);
    let queue = model.queues.get(record.queue.index());
    let queue = queue.map_or("", |queue| model.text(queue.name)).to_owned();
    let device = model.devices.get(record.device.index());
    let ordinal = device.map(|device| device.ordinal);
    (times, ordinal, queue, model.text(record.name).to_owned())
}

/// A collective ran while its kernel did.
fn timed(call: CollectiveCall, record: &GpuRecord) -> CollectiveCall {
    CollectiveCall {
        start_ns: record.start_ns,
        end_ns: record.end_ns,
        link: record.link,
        process: record.process,
        ..call
    }
}

/// A collective of which nothing is told, but that it is done when its time ends.
fn of_nothing(process: ProcessId) -> CollectiveCall {
    CollectiveCall {
        process,
        thread: ThreadId::new(HostSlice::NO_THREAD),
        is_blocking: true,
        ..CollectiveCall::default()
    }
}

/// The collective that arguments tell of, at no time yet. It may have no number.
fn of_arguments(
    process: ProcessId,
    args: &Args,
    bytes: &[u8],
    model: &mut Model,
) -> CollectiveCall {
    let args = Operation::read(bytes, args.begin);
    let name = intern(args.name.of(bytes), &mut model.texts);
    let group = unescaped(args.group_name.of(bytes));
    let list = unescaped(args.group_ranks.of(bytes));
    // Groups of equal names may have other ranks.
    let communicator = match list.is_empty() || list == "[]" {
        true => group,
        false => format!("{group} {list}"),
    };
    let communicator = model.texts.intern(&communicator);
    let data_type = intern(args.data_type.of(bytes), &mut model.texts);
    let (given, got) = (
        count(args.given_elements.of(bytes)),
        count(args.got_elements.of(bytes)),
    );
    let function = model.text(name);
    let gets = function.contains("scatter") || function.contains("recv");
    let number_of = |text: &[u8]| number(text).and_then(|number| u64::try_from(number).ok());
    let group_size = number_of(args.group_size.of(bytes));
    // PyTorch counts what a rank has for all ranks, RCCL what it has for each.
    let parts = match function {
        "all_to_all" | "alltoall" | "alltoall_base" => group_size.unwrap_or(1).max(1),
        _ => 1,
    };
    let elements = if gets { got } else { given };
    let members = Members::read(&list, group_size);
    let place = |rank: u64| members.as_ref()?.place(rank);
    let (is_ours, group_rank) = (
        !args.own_sequence.is_empty(),
        number_of(args.group_rank.of(bytes)),
    );
    let other_side = match function {
        name if name.contains("recv") => Some(args.source_rank),
        name if name.contains("send") => Some(args.target_rank),
        _ => None,
    };
    // The other side is a rank of the job, as far as the ranks of the group are known.
    let peer = other_side.and_then(|rank| {
        let rank = number_of(rank.of(bytes));
        match members {
            Some(_) => rank.and_then(place),
            None => rank,
        }
        .or_else(|| group_rank.filter(|_| !is_ours))
    });
    let says_caller = is_ours || !names_another_rank(function);
    // PyTorch numbers the messages of a rank, whoever they are for: the two sides count differently.
    let sequence = match other_side {
        Some(_) => number_of(args.own_sequence.of(bytes)),
        None => {
            number_of(args.sequence.of(bytes)).or_else(|| number_of(args.own_sequence.of(bytes)))
        }
    };
    let size = size(model.text(data_type));
    CollectiveCall {
        name,
        communicator,
        data_type,
        sequence,
        bytes: elements.saturating_mul(size) / parts,
        rank: model
            .process(process)
            .rank
            .and_then(place)
            .or_else(|| group_rank.filter(|_| says_caller)),
        ranks: group_size,
        peer,
        ..of_nothing(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_of_shortened_lists_too() {
        let long = |from: u64, step: u64, last: u64| {
            let first: Vec<String> = (0..29)
                .map(|place| (from + step * place).to_string())
                .collect();
            format!("[{}, ..., {last}]", first.join(", "))
        };
        for (list, count, rank, expected) in [
            ("[0, 1, 5]", 3, 5, Some(2)),
            ("[7]", 1, 7, Some(0)),
            ("[7]", 1, 6, None),
            ("", 3, 0, None),
            (&long(0, 1, 63), 64, 40, Some(40)),
            (&long(3, 8, 507), 64, 507, Some(63)),
            (&long(3, 8, 507), 64, 508, None),
            (&long(3, 8, 507), 64, 515, None),
            // Ranks behind the listed ones stand unevenly.
            (&long(0, 1, 99), 64, 40, None),
            (&long(0, 1, 99), 64, 28, Some(28)),
        ] {
            let found = Members::read(list, Some(count)).and_then(|members| members.place(rank));
            assert_eq!(found, expected, "{list}");
        }
    }

    #[test]
    fn types_of_pytorch_and_rccl_have_sizes() {
        for (name, expected) in [
            ("BFloat16", 2),
            ("Float8_e4m3fn", 1),
            ("float32", 4),
            ("?", 0),
        ] {
            assert_eq!(size(name), expected, "{name}");
        }
    }
}
