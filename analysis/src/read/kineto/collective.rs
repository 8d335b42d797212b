//! What the arguments of a kernel say of the collective that it is of.
//!
//! Keys are those of PyTorch (`torch/csrc/profiler/util.h`), which Kineto copies from `record_param_comms` to the kernel. Elements are counted: bytes
//! follow from their type.

use std::collections::HashMap;

use super::event::Args;
use super::records::count;
use crate::model::{CollectiveCall, GpuRecord, HostSlice, Model, TextId, ThreadId};
use crate::read::json::number;
use crate::read::json::syntax::{Span, members, value};
use crate::read::json::text::{intern, unescaped};

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

/// The numbers of a list of ranks; `None` if it is shortened, as those of more than 30 ranks are.
fn ranks(list: &str) -> Option<Vec<u64>> {
    let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    let numbers = list.split(',').map(|word| word.trim().parse().ok());
    numbers.collect()
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
                b"Seq" | b"seq" | b"seq_num" => &mut operation.sequence,
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

/// Collectives of a file.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    /// How many each process has had of a communicator, where its kernels have no numbers.
    counts: HashMap<(usize, TextId), u64>,
}

impl Collectives {
    /// The collective that a kernel is of, which ran while the kernel did.
    pub(super) fn of_kernel(
        &mut self,
        record: &GpuRecord,
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
        let elements = if gets { got } else { given };
        let number_of = |text: &[u8]| number(text).and_then(|number| u64::try_from(number).ok());
        let in_group = ranks(&list);
        let place = |rank: u64| {
            let ranks = in_group.as_ref()?;
            Some(ranks.iter().position(|one| *one == rank)? as u64)
        };
        let peer = match function {
            name if name.contains("recv") => number_of(args.source_rank.of(bytes)),
            name if name.contains("send") => number_of(args.target_rank.of(bytes)),
            _ => None,
        };
        let size = size(model.text(data_type));
        let sequence = number_of(args.sequence.of(bytes)).unwrap_or_else(|| {
            let count = self.counts.entry((record.process.index(), communicator));
            let count = count.or_default();
            *count += 1;
            *count - 1
        });
        CollectiveCall {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            link: record.link,
            process: record.process,
            thread: ThreadId::new(HostSlice::NO_THREAD),
            name,
            communicator,
            data_type,
            sequence: Some(sequence),
            bytes: elements.saturating_mul(size),
            rank: model
                .process(record.process)
                .rank
                .and_then(place)
                .or_else(|| number_of(args.group_rank.of(bytes))),
            ranks: number_of(args.group_size.of(bytes)),
            peer,
            is_blocking: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_may_be_shortened() {
        for (list, expected) in [
            ("[0, 1, 5]", Some(vec![0, 1, 5])),
            ("[7]", Some(vec![7])),
            ("[0, 1, ..., 63]", None),
            ("", None),
        ] {
            assert_eq!(ranks(list), expected, "{list}");
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
