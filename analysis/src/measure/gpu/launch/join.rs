//! Which call caused which operation, while both are read.

use crate::containers::id_map::IdMap;
use rsys_traces::model::{
    Activity, DeviceId, Effect, GpuRecord, HostSlice, OpKind, TextId, ThreadId,
};

/// So many calls and operations of a process wait for one another at least, and twice as many at most.
const WAITING: usize = 1 << 21;

/// A call that may have caused operations.
#[derive(Debug, Clone, Copy)]
pub(in crate::measure::gpu) struct Call {
    pub(in crate::measure::gpu) start_ns: u64,
    pub(in crate::measure::gpu) end_ns: u64,
    pub(in crate::measure::gpu) thread: ThreadId,
    pub(in crate::measure::gpu) name: TextId,
    pub(in crate::measure::gpu) is_graph: bool,
}

/// What is kept of an operation of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::measure::gpu) struct Operation {
    pub(in crate::measure::gpu) start_ns: u64,
    pub(in crate::measure::gpu) end_ns: u64,
    pub(in crate::measure::gpu) device: DeviceId,
    pub(in crate::measure::gpu) name: TextId,
    pub(in crate::measure::gpu) kind: OpKind,
    pub(in crate::measure::gpu) activity: Activity,
    pub(in crate::measure::gpu) direction: TextId,
    pub(in crate::measure::gpu) bytes: u64,
}

impl Operation {
    pub(in crate::measure::gpu) fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl From<&GpuRecord> for Operation {
    fn from(record: &GpuRecord) -> Self {
        Self {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            device: record.device,
            name: record.name,
            kind: record.kind,
            activity: record.activity,
            direction: record.direction,
            bytes: record.bytes,
        }
    }
}

/// Operations of one call.
#[derive(Debug)]
enum Operations {
    One(Operation),
    Many(Vec<Operation>),
}

impl Operations {
    fn add(&mut self, operation: Operation) {
        match self {
            Self::One(first) => *self = Self::Many(vec![*first, operation]),
            Self::Many(list) => list.push(operation),
        }
    }

    fn as_slice(&self) -> &[Operation] {
        match self {
            Self::One(operation) => std::slice::from_ref(operation),
            Self::Many(list) => list,
        }
    }
}

/// Values by link. Links that follow one another, as most do, lie together.
#[derive(Debug)]
struct ByLink<T> {
    /// By the upper digits of the links.
    chunks: IdMap<u64, Chunk<T>>,
    length: usize,
}

/// The values of 64 links.
#[derive(Debug)]
struct Chunk<T> {
    /// A bit for each that is there.
    links: u64,
    /// In the order of the links.
    values: Vec<T>,
}

impl<T> Default for ByLink<T> {
    fn default() -> Self {
        Self {
            chunks: IdMap::default(),
            length: 0,
        }
    }
}

impl<T> Chunk<T> {
    /// Where the value of a link is or would be, and whether it is there.
    #[inline]
    fn place(&self, link: u64) -> (usize, bool) {
        let bit = 1 << (link % 64);
        let before = (self.links & (bit - 1)).count_ones();
        (before as usize, self.links & bit != 0)
    }
}

impl<T> ByLink<T> {
    #[inline]
    fn get(&self, link: u64) -> Option<&T> {
        let chunk = self.chunks.get(&(link / 64))?;
        let (place, is_there) = chunk.place(link);
        is_there.then(|| &chunk.values[place])
    }

    fn get_mut(&mut self, link: u64) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(&(link / 64))?;
        let (place, is_there) = chunk.place(link);
        is_there.then(|| &mut chunk.values[place])
    }

    #[inline]
    fn insert(&mut self, link: u64, value: T) {
        let chunk = self.chunks.entry(link / 64).or_insert(Chunk {
            links: 0,
            values: Vec::new(),
        });
        let (place, is_there) = chunk.place(link);
        if is_there {
            chunk.values[place] = value;
        } else {
            chunk.values.insert(place, value);
            chunk.links |= 1 << (link % 64);
            self.length += 1;
        }
    }

    fn remove(&mut self, link: u64) -> Option<T> {
        let chunk = self.chunks.get_mut(&(link / 64))?;
        let (place, is_there) = chunk.place(link);
        if !is_there {
            return None;
        }
        let value = chunk.values.remove(place);
        chunk.links &= !(1 << (link % 64));
        if chunk.links == 0 {
            self.chunks.remove(&(link / 64));
        }
        self.length -= 1;
        Some(value)
    }

    fn into_values(self) -> impl Iterator<Item = T> {
        self.chunks.into_values().flat_map(|chunk| chunk.values)
    }
}

/// A table that forgets what was put into it long ago.
#[derive(Debug)]
struct Aging<T> {
    young: ByLink<T>,
    old: ByLink<T>,
}

impl<T> Default for Aging<T> {
    fn default() -> Self {
        Self {
            young: ByLink::default(),
            old: ByLink::default(),
        }
    }
}

impl<T> Aging<T> {
    /// What is too old goes to `forget`.
    #[inline]
    fn make_room(&mut self, waiting: usize, forget: impl FnMut(T)) {
        if self.young.length >= waiting {
            let young = std::mem::take(&mut self.young);
            let old = std::mem::replace(&mut self.old, young);
            old.into_values().for_each(forget);
        }
    }

    #[inline]
    fn get(&self, link: u64) -> Option<&T> {
        self.young.get(link).or_else(|| self.old.get(link))
    }

    #[inline]
    fn take(&mut self, link: u64) -> Option<T> {
        if self.young.length + self.old.length == 0 {
            return None;
        }
        self.young.remove(link).or_else(|| self.old.remove(link))
    }
}

/// So many calls of one link are kept beside the last one: a file in which all have the same is read in time.
const MOST_EARLIER: usize = 64;

/// Calls and operations of one process. A call may cause many operations.
#[derive(Debug, Default)]
pub(in crate::measure::gpu) struct Join {
    calls: Aging<Call>,
    /// Calls whose links others had again later: ids may begin anew.
    earlier: IdMap<u64, Vec<Call>>,
    operations: Aging<Operations>,
}

impl Join {
    /// Takes in a call. Operations that had been waiting for it go to `linked`.
    pub(in crate::measure::gpu) fn call(
        &mut self,
        slice: &HostSlice,
        mut linked: impl FnMut(Operation, Call),
    ) {
        let call = Call {
            start_ns: slice.start_ns,
            end_ns: slice.end_ns,
            thread: slice.thread,
            name: slice.name,
            is_graph: slice.effect == Effect::LaunchesGraph,
        };
        if let Some(operations) = self.operations.take(slice.link) {
            let list = operations.as_slice().iter();
            list.for_each(|operation| linked(*operation, call));
        }
        let before = self.calls.get(slice.link);
        // Calls of one link within each other are one.
        let before =
            before.filter(|one| one.end_ns <= call.start_ns || call.end_ns <= one.start_ns);
        if let Some(before) = before.copied()
            && self.earlier.len() < WAITING
        {
            let earlier = self.earlier.entry(slice.link).or_default();
            if earlier.len() == MOST_EARLIER {
                earlier.remove(0);
            }
            earlier.push(before);
        }
        self.calls.make_room(WAITING, drop);
        self.calls.young.insert(slice.link, call);
    }

    /// Takes in an operation. `found` gets those whose call is known, or will never be.
    #[inline]
    pub(in crate::measure::gpu) fn operation(
        &mut self,
        record: &GpuRecord,
        mut found: impl FnMut(Operation, Option<Call>),
    ) {
        let operation = Operation::from(record);
        if record.link == 0 {
            return found(operation, None);
        }
        if let Some(&call) = self.calls.get(record.link) {
            let earlier = self.earlier.get(&record.link).into_iter().flatten();
            let before = earlier.chain([&call]);
            let before = before.filter(|one| one.start_ns <= record.start_ns);
            let last = before.max_by_key(|one| one.start_ns).copied();
            return found(operation, Some(last.unwrap_or(call)));
        }
        self.operations.make_room(WAITING, |forgotten| {
            let list = forgotten.as_slice().iter();
            list.for_each(|operation| found(*operation, None));
        });
        let waiting = &mut self.operations.young;
        match waiting.get_mut(record.link) {
            Some(operations) => operations.add(operation),
            None => waiting.insert(record.link, Operations::One(operation)),
        }
    }

    /// The operations whose calls did not come.
    pub(in crate::measure::gpu) fn rest(&mut self) -> impl Iterator<Item = Operation> {
        let Aging { young, old } = std::mem::take(&mut self.operations);
        let all = old.into_values().chain(young.into_values());
        all.flat_map(|operations| operations.as_slice().to_vec())
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
        // Told apart by their begins.
        let operation = |link| GpuRecord {
            start_ns: link,
            end_ns: link,
            link,
            ..GpuRecord::default()
        };
        let (mut linked, mut unlinked) = (Vec::new(), 0);
        join.call(&call(1), |_, _| unreachable!());
        for link in [1, 1, 2, 2, 2, 0, 3] {
            join.operation(&operation(link), |found, call| match call {
                Some(_) => linked.push(found.start_ns),
                None => unlinked += 1,
            });
        }
        join.call(&call(2), |found, _| linked.push(found.start_ns));
        assert_eq!((linked, unlinked), (vec![1, 1, 2, 2, 2], 1));
        let rest: Vec<u64> = join.rest().map(|found| found.start_ns).collect();
        assert_eq!(rest, [3]);
    }

    #[test]
    fn a_link_that_comes_again_is_that_of_the_last_call_before() {
        let mut join = Join::default();
        for start_ns in [100, 300, 200] {
            let call = HostSlice {
                link: 7,
                start_ns,
                end_ns: start_ns + 10,
                ..HostSlice::default()
            };
            join.call(&call, |_, _| unreachable!());
        }
        let mut started = |start_ns| {
            let record = GpuRecord {
                start_ns,
                end_ns: start_ns,
                link: 7,
                ..GpuRecord::default()
            };
            let mut found = None;
            join.operation(&record, |_, call| found = call.map(|call| call.start_ns));
            found
        };
        assert_eq!(
            [150, 250, 350].map(&mut started),
            [Some(100), Some(200), Some(300)]
        );
    }

    #[test]
    fn values_are_found_by_links_in_any_order() {
        let mut values = ByLink::default();
        let links = [200, 3, 5, 4, 64, 63, u64::MAX, 0, 128];
        for link in links {
            values.insert(link, link / 2);
            values.insert(link, link);
        }
        assert_eq!(values.length, links.len());
        for link in links {
            assert_eq!(values.get(link), Some(&link));
            assert_eq!(values.remove(link), Some(link));
            assert_eq!(values.remove(link), None);
            assert_eq!(values.get(link), None);
        }
        assert_eq!((values.length, values.chunks.len()), (0, 0));
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
