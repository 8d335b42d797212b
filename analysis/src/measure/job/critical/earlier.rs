//! Calls from before the times that are examined whose operations may run in them: a host may be ahead of its GPU.

use std::cmp::Reverse;

use rsys_traces::model::{HostKind, HostSlice, StreamOrder};

/// Of more calls than this the last ones are kept, of each time its share, and at least so many: queues of GPUs hold fewer.
const MOST: usize = 1 << 16;
const LEAST: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// By begin: the calls that ended before that, and not before the begin in front of it.
    times: Vec<(u64, Vec<HostSlice>)>,
    most: usize,
}

impl Earlier {
    /// In front of times, in any order.
    pub(super) fn new(times: &[(u64, u64)]) -> Self {
        let mut begins: Vec<u64> = times.iter().map(|time| time.0).collect();
        begins.sort_unstable();
        begins.dedup();
        Self {
            most: (MOST / begins.len().max(1)).max(LEAST),
            times: begins
                .into_iter()
                .map(|begin| (begin, Vec::new()))
                .collect(),
        }
    }

    /// Takes a slice in that is in none of the times.
    #[inline]
    pub(super) fn take(&mut self, slice: &HostSlice) {
        let is_call = matches!(slice.kind, HostKind::Runtime | HostKind::Hsa);
        let is_kept = slice.link != 0 || slice.order == StreamOrder::WaitEvent;
        if !is_call || !is_kept {
            return;
        }
        let place = self.times.partition_point(|time| time.0 <= slice.end_ns);
        let Some((_, calls)) = self.times.get_mut(place) else {
            return;
        };
        calls.push(*slice);
        if calls.len() > 2 * self.most {
            calls.select_nth_unstable_by_key(self.most, |one| Reverse(one.end_ns));
            calls.truncate(self.most);
        }
    }

    /// The calls, those of a thread in order and the outer ones first.
    pub(super) fn calls(&mut self) -> Vec<HostSlice> {
        let times = std::mem::take(&mut self.times).into_iter();
        let mut calls: Vec<HostSlice> = times.flat_map(|(_, calls)| calls).collect();
        calls.sort_by_key(|one| (one.thread, one.start_ns, Reverse(one.end_ns)));
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_in_front_of_each_time_are_kept_in_whatever_order_they_come() {
        let mut earlier = Earlier::new(&[(5_000, 6_000), (1_000, 2_000)]);
        earlier.most = 10;
        // 7 has no factor in common with 600: each number comes once.
        for number in (0..600).map(|number| 7 * number % 600) {
            earlier.take(&HostSlice {
                start_ns: 10 * number,
                end_ns: 10 * number + 5,
                kind: HostKind::Runtime,
                link: 1,
                ..HostSlice::default()
            });
        }
        let kept: Vec<u64> = earlier.calls().iter().map(|one| one.start_ns).collect();
        for last in (900..1_000).chain(4_900..5_000).step_by(10) {
            assert!(kept.contains(&last), "{last}: {kept:?}");
        }
        assert!(
            kept.len() <= 40 && kept.iter().all(|at| *at < 5_000),
            "{kept:?}"
        );
    }
}
