//! The copies of each call, and which calls that copy aside have waited for their own, as those of pageable memory do.

use super::ids::CorrelationId;
use rsys_traces::model::{Activity, DeviceId, Effect, GpuRecord, HostSlice, ProcessId, TextId};

/// An asynchronous copy whose call took less has not held its thread, whatever its times say.
const HELD_NS: u64 = 20_000;

/// The copies of a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    /// When the last of them ended.
    pub(crate) end_ns: u64,
    pub(crate) duration_ns: u64,
    /// Of the last of them: its GPU, direction and name.
    pub(crate) device: DeviceId,
    pub(crate) direction: TextId,
    pub(crate) name: TextId,
}

/// Whose a copy is, and its begin.
type Place = (ProcessId, CorrelationId, u64);

/// The copies of all calls, and the begins of calls that copy.
#[derive(Debug, Default)]
pub(crate) struct CopiesOfCalls {
    copies: Vec<(Place, Copied)>,
    calls: Vec<Place>,
}

impl CopiesOfCalls {
    /// Takes in an operation, if it is a copy whose call is known.
    pub(crate) fn take(&mut self, record: &GpuRecord) {
        let call = CorrelationId::of_operation(record);
        let Some(call) = call.filter(|_| record.activity == Activity::Copy) else {
            return;
        };
        let copied = Copied {
            end_ns: record.end_ns,
            duration_ns: record.duration_ns(),
            device: record.device,
            direction: record.direction,
            name: record.name,
        };
        let place = (record.process, call, record.start_ns);
        self.copies.push((place, copied));
    }

    /// Takes in a slice, if it is a call that copies.
    pub(crate) fn take_call(&mut self, slice: &HostSlice) {
        if let Some(id) = CorrelationId::of_call(slice)
            && matches!(slice.effect, Effect::Copies | Effect::CopiesAside)
        {
            self.calls.push((slice.process, id, slice.start_ns));
        }
    }

    /// To be called when all was taken in.
    pub(crate) fn sort(&mut self) {
        self.copies
            .sort_unstable_by_key(|(place, copied)| (*place, copied.end_ns, copied.device));
        self.calls.sort_unstable();
    }

    /// Once sorted: the copies of the call with a link of a process, and these times. Ids may begin anew: what begins before it is of a call before, if there is one,
    /// and what begins behind the next of a later one.
    pub(crate) fn of(
        &self,
        process: ProcessId,
        link: u64,
        (start_ns, end_ns): (u64, u64),
    ) -> Option<Copied> {
        let id = CorrelationId::new(link)?;
        let is_own = |call: &&Place| (call.0, call.1) == (process, id);
        let call_at = |time_ns: u64| {
            let place = (process, id, time_ns);
            self.calls.partition_point(|call| *call < place)
        };
        let before = call_at(start_ns).checked_sub(1);
        let before = before.and_then(|at| self.calls.get(at)).filter(is_own);
        let next = self.calls.get(call_at(end_ns.max(start_ns + 1)));
        let from_ns = before.map_or(0, |_| start_ns);
        let until_ns = next.filter(is_own).map_or(u64::MAX, |call| call.2);
        let copy_at = |time_ns: u64| {
            let place = (process, id, time_ns);
            self.copies.partition_point(|(copy, _)| *copy < place)
        };
        let own = self.copies.get(copy_at(from_ns)..copy_at(until_ns))?;
        let last = own.iter().rev().max_by_key(|(_, copied)| copied.end_ns)?.1;
        Some(Copied {
            duration_ns: own.iter().map(|(_, copied)| copied.duration_ns).sum(),
            ..last
        })
    }
}

impl Copied {
    /// Whether a call that copies aside has waited for these, its own copies: it returned only when they had ended.
    #[inline]
    pub(crate) fn held(&self, effect: Effect, (start_ns, end_ns): (u64, u64)) -> bool {
        effect == Effect::CopiesAside && end_ns - start_ns >= HELD_NS && self.end_ns <= end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::HostKind;

    #[test]
    fn copies_of_an_id_that_comes_again_are_of_the_call_before_them() {
        let mut copies = CopiesOfCalls::default();
        for (start_ns, end_ns) in [(110, 130), (140, 150), (990, 1_020), (5_000, 5_010)] {
            copies.take(&GpuRecord {
                start_ns,
                end_ns,
                link: 7,
                activity: Activity::Copy,
                ..GpuRecord::default()
            });
        }
        // A call that another one made itself is no other call.
        for (start_ns, end_ns) in [(100, 160), (105, 155), (900, 1_030)] {
            copies.take_call(&HostSlice {
                start_ns,
                end_ns,
                link: 7,
                kind: HostKind::Runtime,
                effect: Effect::CopiesAside,
                ..HostSlice::default()
            });
        }
        copies.sort();
        let process = ProcessId::new(0);
        let of = |time_ns| {
            let found = copies.of(process, 7, time_ns);
            found.map(|one| (one.end_ns, one.duration_ns))
        };
        assert_eq!(of((100, 160)), Some((150, 30)));
        assert_eq!(of((900, 1_030)), Some((5_010, 40)));
        assert!(copies.of(process, 6, (100, 160)).is_none());
    }
}
