//! Which call caused which operation, while both are read.

use crate::measure::id_map::IdMap;
use crate::model::{GpuRecord, HostSlice, TextId, ThreadId};

/// So many calls and operations of a process wait for one another at least, and twice as many at most.
const WAITING: usize = 1 << 21;

/// A call that may have caused operations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) thread: ThreadId,
    pub(super) name: TextId,
}

/// A table that forgets what was put into it long ago.
#[derive(Debug)]
struct Aging<T> {
    young: IdMap<u64, T>,
    old: IdMap<u64, T>,
}

impl<T> Default for Aging<T> {
    fn default() -> Self {
        Self {
            young: IdMap::default(),
            old: IdMap::default(),
        }
    }
}

impl<T> Aging<T> {
    /// What is too old goes to `forget`.
    fn make_room(&mut self, waiting: usize, forget: impl FnMut(T)) {
        if self.young.len() >= waiting {
            let young = std::mem::take(&mut self.young);
            let old = std::mem::replace(&mut self.old, young);
            old.into_values().for_each(forget);
        }
    }

    fn get(&self, link: u64) -> Option<&T> {
        self.young.get(&link).or_else(|| self.old.get(&link))
    }

    fn take(&mut self, link: u64) -> Option<T> {
        self.young.remove(&link).or_else(|| self.old.remove(&link))
    }
}

/// Calls and operations of one process. A call may cause many operations.
#[derive(Debug, Default)]
pub(super) struct Join {
    calls: Aging<Call>,
    operations: Aging<Vec<GpuRecord>>,
}

impl Join {
    /// Takes in a call. Operations that had been waiting for it go to `linked`.
    pub(super) fn call(&mut self, slice: &HostSlice, mut linked: impl FnMut(&GpuRecord, Call)) {
        let call = Call {
            start_ns: slice.start_ns,
            end_ns: slice.end_ns,
            thread: slice.thread,
            name: slice.name,
        };
        for operation in self.operations.take(slice.link).into_iter().flatten() {
            linked(&operation, call);
        }
        self.calls.make_room(WAITING, drop);
        self.calls.young.insert(slice.link, call);
    }

    /// Takes in an operation. `found` gets those whose call is known, or will never be.
    #[inline]
    pub(super) fn operation(
        &mut self,
        record: &GpuRecord,
        mut found: impl FnMut(&GpuRecord, Option<Call>),
    ) {
        if record.link == 0 {
            return found(record, None);
        }
        if let Some(&call) = self.calls.get(record.link) {
            return found(record, Some(call));
        }
        self.operations.make_room(WAITING, |forgotten| {
            forgotten
                .iter()
                .for_each(|operation| found(operation, None));
        });
        let waiting = self.operations.young.entry(record.link).or_default();
        waiting.push(*record);
    }

    /// The operations whose calls did not come.
    pub(super) fn rest(&mut self) -> Vec<GpuRecord> {
        let old = std::mem::take(&mut self.operations.old);
        let young = std::mem::take(&mut self.operations.young);
        let mut rest: Vec<GpuRecord> = old
            .into_values()
            .chain(young.into_values())
            .flatten()
            .collect();
        rest.sort_unstable_by_key(|record| (record.start_ns, record.end_ns, record.link));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_operations_meet_in_any_order() {
        let mut join = Join::default();
        let call = |link| HostSlice {
            link,
            ..HostSlice::default()
        };
        let operation = |link| GpuRecord {
            link,
            ..GpuRecord::default()
        };
        let (mut linked, mut unlinked) = (Vec::new(), 0);
        join.call(&call(1), |_, _| unreachable!());
        for link in [1, 1, 2, 0, 3] {
            join.operation(&operation(link), |record, call| match call {
                Some(_) => linked.push(record.link),
                None => unlinked += 1,
            });
        }
        join.call(&call(2), |record, _| linked.push(record.link));
        assert_eq!((linked, unlinked), (vec![1, 1, 2], 1));
        let rest: Vec<u64> = join.rest().iter().map(|record| record.link).collect();
        assert_eq!(rest, [3]);
    }

    #[test]
    fn what_is_forgotten_is_handed_back() {
        let mut aging = Aging::default();
        let mut forgotten = Vec::new();
        for link in 0..5_u64 {
            aging.make_room(2, |value: u64| forgotten.push(value));
            aging.young.insert(link, link);
        }
        forgotten.sort_unstable();
        assert_eq!(forgotten, [0, 1]);
        assert!(aging.get(1).is_none() && aging.get(2).is_some() && aging.take(4).is_some());
    }
}
