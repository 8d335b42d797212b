//! One sample for many short kernels: viewers keep two rows for each sample, and what is read of them are sums.

use rsys_proto::hashing::FastMap;
use rsys_proto::{CallstackIid, Sample};

/// Kernels of one stack and thread that begin within this time are one sample.
const TOGETHER_NS: u64 = 1_000_000;

/// Sorts samples by time and puts those together that differ in nothing but time and weight, and lie within a millisecond. Weights add up.
pub fn merge(samples: &mut Vec<Sample>) {
    samples.sort_by_key(|sample| sample.time_ns);
    // Where the last sample of a thread's stack stands.
    let mut last: FastMap<(u32, Option<CallstackIid>), usize> = FastMap::default();
    let mut kept = 0;
    for at in 0..samples.len() {
        let one = samples[at];
        let place = last.entry((one.tid, one.callstack)).or_insert(usize::MAX);
        if let Some(before) = samples.get_mut(*place)
            && one.time_ns - before.time_ns < TOGETHER_NS
            && let Some(weight) = before.weight.checked_add(one.weight)
        {
            before.weight = weight;
            continue;
        }
        *place = kept;
        samples[kept] = one;
        kept += 1;
    }
    samples.truncate(kept);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rsys_proto::{CpuMode, PacketBuffer, SampleSequence};

    use super::*;

    #[test]
    fn sums_of_threads_and_stacks_stay_what_they_are() {
        let mut out = PacketBuffer::new();
        let mut sequence = SampleSequence::new(&mut out, "gpu-time ns", None);
        let mut stacks: Vec<CallstackIid> = Vec::new();
        let mapping = sequence.unknown_mapping();
        for address in 0..3 {
            let frame = sequence.intern_frame(rsys_proto::FrameDesc {
                function: None,
                mapping,
                rel_pc: address,
                source: None,
                line: None,
            });
            stacks.push(sequence.intern_callstack(&[frame]));
        }
        let all: Vec<Sample> = (0..10_000_u64)
            .map(|number| Sample {
                time_ns: 5_000 + (number * 7919) % 10_000 * 3_000,
                pid: 1,
                tid: 1 + (number / 5 % 2) as u32,
                callstack: Some(stacks[(number % 3) as usize]),
                weight: 1 + number % 1_000,
                mode: CpuMode::User,
                cpu: None,
            })
            .collect();
        let sums = |samples: &[Sample]| {
            let mut sums: BTreeMap<(u32, Option<CallstackIid>), u64> = BTreeMap::new();
            for one in samples {
                *sums.entry((one.tid, one.callstack)).or_default() += one.weight;
            }
            sums
        };
        let mut merged = all.clone();
        merge(&mut merged);
        assert_eq!(sums(&merged), sums(&all));
        // Thirty milliseconds, two threads, three stacks.
        assert!((150..=190).contains(&merged.len()), "{}", merged.len());
        assert!(merged.is_sorted_by_key(|one| one.time_ns));
    }

    #[test]
    fn weights_that_are_too_large_for_one_stay_apart() {
        let one = Sample {
            time_ns: 1,
            pid: 1,
            tid: 1,
            callstack: None,
            weight: u64::MAX,
            mode: CpuMode::User,
            cpu: None,
        };
        let mut samples = vec![
            one,
            Sample { weight: 0, ..one },
            Sample { weight: 1, ..one },
        ];
        merge(&mut samples);
        let weights: Vec<u64> = samples.iter().map(|one| one.weight).collect();
        assert_eq!(weights, [u64::MAX, 1]);
    }
}
