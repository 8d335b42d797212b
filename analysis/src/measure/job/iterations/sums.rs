//! The numbers of an iteration.

use serde::{Deserialize, Serialize};

use crate::containers::sets::Union;
use crate::measure::idle_cause::IdleCause;

/// A number of an iteration, in nanoseconds unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    /// Kernels of the program ran, or fills.
    Computation,
    /// Collectives ran.
    Comm,
    /// Collectives ran, and no computation.
    ExposedComm,
    /// Copies ran.
    Memcpy,
    /// Copies ran, and neither computation nor collectives.
    ExposedMemcpy,
    /// The GPU did nothing.
    Idle,
    /// All-reduce or reduce-scatter, and computation at the same time.
    ComputeComm,
    /// All-reduce and computation.
    ComputeAllReduce,
    /// Reduce-scatter and computation.
    ComputeReduceScatter,
    /// Idle: the host ran code, waited, or was off the processor.
    IdleHost,
    /// Idle: the host had not returned from a synchronisation.
    IdleSynchronisation,
    /// Idle: the host was in a copy that blocks.
    IdleCopy,
    /// Idle: the host was in another call.
    IdleCall,
    /// Idle: launch latency.
    IdleLaunch,
    /// Idle: what had been submitted waited for something.
    IdleQueued,
    /// Idle: the call is not in the trace.
    IdleUnknown,
    /// How many operations the GPU did.
    Operations,
}

/// All numbers, with their keys and what stands above them in text (nothing: they are not shown there).
pub const FIELDS: [(Field, &str, &str); 17] = [
    (Field::Computation, "computation_ns", "computation"),
    (Field::Comm, "total_comm_ns", ""),
    (Field::ExposedComm, "exposed_comm_ns", "exposed comm"),
    (Field::Memcpy, "total_memcpy_ns", ""),
    (Field::ExposedMemcpy, "exposed_memcpy_ns", "exposed copies"),
    (Field::Idle, "idle_ns", "idle"),
    (Field::ComputeComm, "compute_comm_ns", ""),
    (Field::ComputeAllReduce, "compute_allreduce_ns", ""),
    (Field::ComputeReduceScatter, "compute_reducescatter_ns", ""),
    (Field::IdleHost, "idle_host_ns", ""),
    (Field::IdleSynchronisation, "idle_synchronisation_ns", ""),
    (Field::IdleCopy, "idle_copy_ns", ""),
    (Field::IdleCall, "idle_call_ns", ""),
    (Field::IdleLaunch, "idle_launch_ns", ""),
    (Field::IdleQueued, "idle_queued_ns", ""),
    (Field::IdleUnknown, "idle_unknown_ns", ""),
    (Field::Operations, "operations", ""),
];

/// A value for each field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sums(pub [u64; FIELDS.len()]);

impl Sums {
    /// A number.
    #[must_use]
    pub fn get(&self, field: Field) -> u64 {
        self.0[field as usize]
    }

    pub(super) fn add(&mut self, field: Field, value: u64) {
        self.0[field as usize] += value;
    }

    /// Adds all numbers of another.
    pub fn add_all(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, value)| *sum += value);
    }

    /// Communication with computation at the same time.
    #[must_use]
    pub fn hidden_ns(&self) -> u64 {
        self.get(Field::Comm) - self.get(Field::ExposedComm)
    }

    /// The part of the communication that computation hid; `None` without communication.
    #[must_use]
    pub fn hidden_share(&self) -> Option<f64> {
        share(self.hidden_ns(), self.get(Field::Comm))
    }

    /// AORTA's overlap ratio: all-reduce and reduce-scatter with computation, as a part of the computation; `None` without computation.
    #[must_use]
    pub fn overlap_ratio(&self) -> Option<f64> {
        share(self.get(Field::ComputeComm), self.get(Field::Computation))
    }

    /// Adds an idle time by its cause.
    pub(super) fn add_idle(&mut self, cause: IdleCause, ns: u64) {
        use IdleCause as By;
        let field = match cause {
            By::Code | By::Wait | By::OffProcessor | By::Runnable => Field::IdleHost,
            By::OpenMp | By::Kokkos | By::NoSamples => Field::IdleHost,
            By::Synchronisation => Field::IdleSynchronisation,
            By::BlockingCopy => Field::IdleCopy,
            By::RuntimeCall | By::CollectiveCall => Field::IdleCall,
            By::Mpi | By::Shmem | By::Ucx => Field::IdleCall,
            By::Launch => Field::IdleLaunch,
            By::NoCall => Field::IdleUnknown,
            _ => Field::IdleQueued,
        };
        self.add(field, ns);
        self.add(Field::Idle, ns);
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What an operation counts as: bits.
pub(super) const COMPUTE: u8 = 1;
pub(super) const COMM: u8 = 2;
pub(super) const COPY: u8 = 4;
pub(super) const ALL_REDUCE: u8 = 8;
pub(super) const REDUCE_SCATTER: u8 = 16;

/// An interval, and what went on.
pub(super) type Bits = (u64, u64, u8);

/// What went on on a GPU.
#[derive(Debug)]
pub(super) struct Activities {
    compute: Union,
    comm: Union,
    copy: Union,
    all_reduce: Union,
    reduce_scatter: Union,
    /// All-reduce and reduce-scatter.
    reduces: Union,
}

impl Activities {
    pub(super) fn of(intervals: impl Iterator<Item = Bits> + Clone) -> Self {
        let union = |bits: u8| {
            let with = intervals.clone().filter(|one| one.2 & bits != 0);
            let with = with.map(|(start_ns, end_ns, _)| (start_ns, end_ns));
            with.collect::<Union>()
        };
        Self {
            compute: union(COMPUTE),
            comm: union(COMM),
            copy: union(COPY),
            all_reduce: union(ALL_REDUCE),
            reduce_scatter: union(REDUCE_SCATTER),
            reduces: union(ALL_REDUCE | REDUCE_SCATTER),
        }
    }
}

/// A whole GPU, against which parts are held.
#[derive(Debug)]
pub(super) struct Whole {
    all: Activities,
    compute_or_comm: Union,
    /// With computation at the same time: communication, all-reduce, reduce-scatter, both of them.
    with_compute: [Union; 4],
    hidden_copies: Union,
}

impl Whole {
    pub(super) fn new(intervals: impl Iterator<Item = Bits> + Clone) -> Self {
        let compute_or_comm = intervals
            .clone()
            .filter(|one| one.2 & (COMPUTE | COMM) != 0);
        let compute_or_comm: Union = compute_or_comm.map(|one| (one.0, one.1)).collect();
        let all = Activities::of(intervals);
        let with_compute = [
            &all.comm,
            &all.all_reduce,
            &all.reduce_scatter,
            &all.reduces,
        ]
        .map(|union| union.common(&all.compute));
        Self {
            hidden_copies: all.copy.common(&compute_or_comm),
            with_compute,
            compute_or_comm,
            all,
        }
    }

    /// What went on within a time, without idleness.
    pub(super) fn within(&self, time: (u64, u64)) -> Sums {
        let [comm, all_reduce, reduce_scatter, reduces] = &self.with_compute;
        let mut sums = Sums::default();
        let total_comm_ns = self.all.comm.within(time);
        let memcpy_ns = self.all.copy.within(time);
        for (field, ns) in [
            (Field::Computation, self.all.compute.within(time)),
            (Field::Comm, total_comm_ns),
            (Field::ExposedComm, total_comm_ns - comm.within(time)),
            (Field::Memcpy, memcpy_ns),
            (
                Field::ExposedMemcpy,
                memcpy_ns - self.hidden_copies.within(time),
            ),
            (Field::ComputeComm, reduces.within(time)),
            (Field::ComputeAllReduce, all_reduce.within(time)),
            (Field::ComputeReduceScatter, reduce_scatter.within(time)),
        ] {
            sums.add(field, ns);
        }
        sums
    }

    /// What some of its operations did, without idleness: what hides them may be any operation of the GPU.
    pub(super) fn own(&self, intervals: impl Iterator<Item = Bits> + Clone) -> Sums {
        let own = Activities::of(intervals);
        let hidden_ns = |union: &Union| union.common_ns(&self.all.compute);
        let mut sums = Sums::default();
        let (total_comm_ns, memcpy_ns) = (own.comm.length_ns(), own.copy.length_ns());
        for (field, ns) in [
            (Field::Computation, own.compute.length_ns()),
            (Field::Comm, total_comm_ns),
            (Field::ExposedComm, total_comm_ns - hidden_ns(&own.comm)),
            (Field::Memcpy, memcpy_ns),
            (
                Field::ExposedMemcpy,
                memcpy_ns - own.copy.common_ns(&self.compute_or_comm),
            ),
            (Field::ComputeComm, hidden_ns(&own.reduces)),
            (Field::ComputeAllReduce, hidden_ns(&own.all_reduce)),
            (Field::ComputeReduceScatter, hidden_ns(&own.reduce_scatter)),
        ] {
            sums.add(field, ns);
        }
        sums
    }
}
