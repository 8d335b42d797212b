//! Slices from their begins and ends.

use super::collective::Told;
use super::meaning::Details;
use super::places::{GpuPlace, HostPlace};
use crate::model::{
    Activity, Batch, CollectiveCall, Effect, GpuRecord, HostKind, HostSlice, LockWait, MpiCall,
    OpKind, ProxyRecord, StreamOrder, TextId,
};
use crate::perfetto::TrackIndex;

/// Slices that have begun, by track.
#[derive(Debug, Default)]
pub(super) struct Slices {
    tracks: Vec<Nest>,
    /// Slices that ended before they began.
    pub(super) backward: u64,
}

/// The open slices of one track.
#[derive(Debug, Default)]
struct Nest {
    open: Vec<Open>,
    /// Slices above the last of `open` that are not asked for.
    ignored: u32,
    /// Ends of slices whose begins are not in the trace.
    beginless: u64,
    /// Whether operations of a GPU are on it.
    is_gpu: bool,
}

/// A slice that has begun.
#[derive(Debug)]
struct Open {
    record: Record,
    /// Slices below it that are not asked for.
    ignored_below: u32,
}

/// What a call says of data that it moves between ranks, and of other calls that it depends on.
pub(super) type Calls = (Option<Told>, Option<MpiCall>);

#[derive(Debug)]
enum Record {
    Gpu(GpuRecord),
    Host(HostSlice),
    /// Boxed, for they are few.
    Collective(Box<(HostSlice, Calls)>),
    Lock(LockWait),
    /// Boxed, so that the others stay small.
    Proxy(Box<ProxyRecord>),
    /// A wait that was seen from outside, and the lock that it was for.
    SeenLock(Box<(HostSlice, LockWait)>),
}

impl Slices {
    #[inline]
    fn nest(&mut self, track: TrackIndex) -> &mut Nest {
        if track.index() >= self.tracks.len() {
            self.tracks.resize_with(track.index() + 1, Nest::default);
        }
        &mut self.tracks[track.index()]
    }

    /// A slice begins that is not asked for.
    #[inline]
    pub(super) fn ignored(&mut self, track: TrackIndex) {
        self.nest(track).ignored += 1;
    }

    #[inline]
    fn begin(&mut self, track: TrackIndex, record: Record) {
        let nest = self.nest(track);
        let ignored_below = std::mem::take(&mut nest.ignored);
        nest.open.push(Open {
            record,
            ignored_below,
        });
    }

    /// An operation of a GPU begins.
    #[inline]
    pub(super) fn begin_gpu(
        &mut self,
        track: TrackIndex,
        start_ns: u64,
        name: TextId,
        (kind, activity): (OpKind, Activity),
        place: GpuPlace,
        details: &Details,
    ) {
        let record = GpuRecord {
            start_ns,
            end_ns: start_ns,
            link: details.link,
            bytes: details.bytes,
            process: place.process,
            device: place.device,
            queue: place.queue,
            name,
            grid: details.grid,
            source: details.source,
            direction: details.direction,
            kind,
            activity,
        };
        self.begin(track, Record::Gpu(record));
        self.nest(track).is_gpu = true;
    }

    /// A slice of the host begins.
    #[inline]
    pub(super) fn begin_host(
        &mut self,
        track: TrackIndex,
        start_ns: u64,
        name: TextId,
        (kind, (order, effect)): (HostKind, (StreamOrder, Effect)),
        place: HostPlace,
        (details, calls): (&Details, Calls),
    ) {
        let depth = self.nest(track).open.len() as u32;
        let slice = HostSlice {
            start_ns,
            end_ns: start_ns,
            link: details.link,
            bytes: details.bytes,
            address: details.address,
            stream: details.stream,
            process: place.process,
            thread: place.thread,
            name,
            shapes: match kind {
                HostKind::Operator => details.shapes,
                _ => TextId::EMPTY,
            },
            arguments: match kind {
                HostKind::Operator => details.arguments,
                _ => TextId::EMPTY,
            },
            depth,
            kind,
            order,
            effect,
            ..HostSlice::default()
        };
        let record = match calls {
            (None, None) => Record::Host(slice),
            calls => Record::Collective(Box::new((slice, calls))),
        };
        self.begin(track, record);
    }

    /// A wait for a lock begins, at the time that it has.
    pub(super) fn begin_wait(&mut self, track: TrackIndex, wait: LockWait) {
        self.begin(track, Record::Lock(wait));
    }

    /// What a proxy did begins, at the time that it has.
    pub(super) fn begin_proxy(&mut self, track: TrackIndex, record: ProxyRecord) {
        self.begin(track, Record::Proxy(Box::new(record)));
    }

    /// The slice of a track that has begun last, a wait that was seen from outside, is one for a lock.
    pub(super) fn is_for_lock(&mut self, track: TrackIndex, wait: LockWait) {
        if let Some(open) = self.nest(track).open.last_mut()
            && let Record::Host(slice) = &open.record
        {
            open.record = Record::SeenLock(Box::new((*slice, wait)));
        }
    }

    /// The innermost slice of a track ends. What annotations say of it at its end counts where they said nothing at its begin.
    #[inline]
    pub(super) fn end(
        &mut self,
        track: TrackIndex,
        end_ns: u64,
        details: Details,
        batch: &mut Batch,
    ) {
        let nest = self.nest(track);
        if nest.ignored > 0 {
            nest.ignored -= 1;
            return;
        }
        let Some(open) = nest.open.pop() else {
            nest.beginless += 1;
            return;
        };
        nest.ignored = open.ignored_below;
        match open.record {
            Record::Gpu(mut record) => {
                self.backward += u64::from(end_ns < record.start_ns);
                record.end_ns = end_ns.max(record.start_ns);
                batch.gpu.push(record);
            }
            Record::Host(mut slice) => {
                self.backward += u64::from(end_ns < slice.start_ns);
                slice.end_ns = end_ns.max(slice.start_ns);
                slice.is_open = details.is_cut_off;
                if slice.bytes == 0 {
                    slice.bytes = details.bytes;
                }
                if slice.address == 0 {
                    slice.address = details.address;
                }
                if slice.stream == 0 {
                    slice.stream = details.stream;
                }
                batch.host.push(slice);
            }
            Record::Collective(both) => {
                let (mut slice, calls) = *both;
                self.backward += u64::from(end_ns < slice.start_ns);
                slice.end_ns = end_ns.max(slice.start_ns);
                slice.is_open = details.is_cut_off;
                put_collective(slice, calls, batch);
            }
            Record::Lock(mut wait) => {
                self.backward += u64::from(end_ns < wait.start_ns);
                wait.end_ns = end_ns.max(wait.start_ns);
                put_lock_wait(wait, batch);
            }
            Record::Proxy(mut record) => {
                self.backward += u64::from(end_ns < record.start_ns);
                record.end_ns = end_ns.max(record.start_ns);
                batch.proxies.push(*record);
            }
            Record::SeenLock(both) => {
                let (mut slice, wait) = *both;
                self.backward += u64::from(end_ns < slice.start_ns);
                slice.end_ns = end_ns.max(slice.start_ns);
                put_seen_lock(slice, wait, batch);
            }
        }
    }

    /// How many operations of GPUs have an end and no begin, by the tracks that have others.
    pub(super) fn beginless(&self) -> u64 {
        let of_gpus = self.tracks.iter().filter(|nest| nest.is_gpu);
        of_gpus.map(|nest| nest.beginless).sum()
    }

    /// The trace ends: open slices of the host end with it. Returns how many operations of GPUs were open.
    pub(super) fn finish(&mut self, last_ns: u64, batch: &mut Batch) -> u64 {
        let mut cut_off = 0;
        for open in self
            .tracks
            .iter_mut()
            .flat_map(|nest| nest.open.drain(..).rev())
        {
            match open.record {
                Record::Gpu(_) => cut_off += 1,
                Record::Host(mut slice) => {
                    slice.end_ns = last_ns.max(slice.start_ns);
                    slice.is_open = true;
                    batch.host.push(slice);
                }
                Record::Collective(both) => {
                    let (mut slice, calls) = *both;
                    slice.end_ns = last_ns.max(slice.start_ns);
                    slice.is_open = true;
                    put_collective(slice, calls, batch);
                }
                Record::Lock(mut wait) => {
                    wait.end_ns = last_ns.max(wait.start_ns);
                    put_lock_wait(wait, batch);
                }
                Record::Proxy(mut record) => {
                    record.end_ns = last_ns.max(record.start_ns);
                    batch.proxies.push(*record);
                }
                Record::SeenLock(both) => {
                    let (mut slice, wait) = *both;
                    slice.end_ns = last_ns.max(slice.start_ns);
                    slice.is_open = true;
                    put_seen_lock(slice, wait, batch);
                }
            }
        }
        cut_off
    }
}

/// A wait for a lock that was seen from outside is a slice of its thread, and a wait for the lock.
fn put_seen_lock(slice: HostSlice, wait: LockWait, batch: &mut Batch) {
    batch.host.push(slice);
    let end_ns = slice.end_ns;
    put_lock_wait(LockWait { end_ns, ..wait }, batch);
}

/// A wait for a lock is that of a thread: where the trace does not say which, it is none.
fn put_lock_wait(wait: LockWait, batch: &mut Batch) {
    if wait.thread.index() != HostSlice::NO_THREAD {
        batch.lock_waits.push(wait);
    }
}

/// A call that moves data between ranks is a slice of its thread, and a record of its own.
fn put_collective(slice: HostSlice, (told, of_mpi): Calls, batch: &mut Batch) {
    batch.host.push(slice);
    batch.mpi.extend(of_mpi.map(|call| MpiCall {
        start_ns: slice.start_ns,
        end_ns: slice.end_ns,
        process: slice.process,
        thread: slice.thread,
        name: slice.name,
        ..call
    }));
    let Some((call, is_message)) = told else {
        return;
    };
    // Calls of MPI cause nothing that could be linked to them: each is told from others by its time.
    let link = match slice.link {
        0 => slice.start_ns | 1 << 63,
        link => link,
    };
    let calls = match is_message {
        false => &mut batch.collectives,
        true if slice.is_open => &mut batch.open_messages,
        true => return,
    };
    calls.push(CollectiveCall {
        start_ns: slice.start_ns,
        end_ns: slice.end_ns,
        link,
        process: slice.process,
        thread: slice.thread,
        name: slice.name,
        ..call
    });
}
