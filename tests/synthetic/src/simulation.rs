//! What ranks do, and when: the same arithmetic when collectives are timed and when traces are written.

use crate::random::{random, varied};
use crate::{Cause, Job};

/// From a launch to its operation.
const LAUNCH_NS: u64 = 8_000;
/// How long a call that launches takes.
pub(crate) const CALL_NS: u64 = 4_000;
/// A collective, once all ranks have begun it.
const COLLECTIVE_NS: u64 = 60_000;
const COPY_NS: u64 = 300_000;

/// When collectives end: of all ranks together, and of each group of neighbours.
#[derive(Debug)]
pub struct Ends {
    buckets: u64,
    groups: u64,
    ends_ns: Vec<u64>,
}

impl Ends {
    /// When a collective ends for a rank, in nanoseconds of true time.
    #[must_use]
    pub fn end_ns(&self, job: &Job, rank: u64, (iteration, bucket): (u64, u64)) -> u64 {
        let group = if job.is_of_neighbours(bucket) {
            rank / job.group
        } else {
            0
        };
        let place = (iteration * self.buckets + bucket) * self.groups + group;
        // Ranks do not leave at the very same moment.
        self.ends_ns[place as usize] + random([job.seed, rank, iteration, bucket, 99]) % 800
    }
}

/// A rank as it goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rank {
    pub(crate) rank: u64,
    /// Until when the thread, and the GPU, are busy.
    pub(crate) host_ns: u64,
    pub(crate) gpu_ns: u64,
}

/// What happens on a rank before the first kernel of an iteration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    /// Loading, and behind it what goes wrong on the host.
    pub(crate) load: (u64, u64),
    pub(crate) fault: Option<(Cause, u64, u64)>,
    pub(crate) copy_call_ns: u64,
    pub(crate) copy: (u64, u64),
}

/// A kernel and the collective behind it.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub(crate) kernel_calls_ns: Vec<u64>,
    pub(crate) kernels: Vec<(u64, u64)>,
    pub(crate) collective_call_ns: u64,
    pub(crate) arrival_ns: u64,
}

/// Causes that keep the thread busy or waiting, between loading and the copy.
const OF_HOST: [Cause; 6] = [
    Cause::GarbageCollection,
    Cause::OffProcessor,
    Cause::Lock,
    Cause::Sleep,
    Cause::PageFaults,
    Cause::HostSync,
];

impl Rank {
    pub(crate) fn new(job: &Job, rank: u64) -> Self {
        // Ranks are not started at the same moment.
        let start_ns = 1_000_000 + random([job.seed, rank, 0, 0, 7]) % 300_000_000;
        Self {
            rank,
            host_ns: start_ns,
            gpu_ns: start_ns,
        }
    }

    pub(crate) fn begin(&mut self, job: &Job, iteration: u64) -> Beginning {
        let fault = |cause| job.fault_ns(self.rank, iteration, cause);
        let places = |what| [job.seed, self.rank, iteration, what, 0];
        let load_ns = varied(job.load_ns, job.jitter, places(1)) + fault(Cause::SlowLoader);
        let load = (self.host_ns, self.host_ns + load_ns);
        self.host_ns = load.1;
        let mut on_host = None;
        for cause in OF_HOST {
            let amount_ns = fault(cause);
            if amount_ns > 0 {
                on_host = Some((cause, self.host_ns, self.host_ns + amount_ns));
                self.host_ns += amount_ns;
            }
        }
        let copy_call_ns = self.host_ns;
        self.host_ns += CALL_NS;
        let copy_ns = varied(COPY_NS, job.jitter, places(2)) + fault(Cause::SlowLink);
        let start_ns = self.gpu_ns.max(copy_call_ns + LAUNCH_NS);
        self.gpu_ns = start_ns + copy_ns;
        Beginning {
            load,
            fault: on_host,
            copy_call_ns,
            copy: (start_ns, self.gpu_ns),
        }
    }

    pub(crate) fn bucket(&mut self, job: &Job, iteration: u64, bucket: u64) -> Bucket {
        let fault = |cause| job.fault_ns(self.rank, iteration, cause);
        let base_ns = job.compute_ns / job.buckets;
        let places = [job.seed, self.rank, iteration, bucket, 3];
        let mut first_ns = varied(base_ns, job.jitter, places);
        first_ns += fault(Cause::LowClock) / job.buckets;
        if bucket == job.buckets / 2 {
            first_ns += fault(Cause::LongKernel);
        }
        let mut durations = vec![first_ns];
        let more_ns = fault(Cause::UnevenWork) / job.buckets;
        durations.extend((more_ns > 0).then_some(more_ns));
        let (mut kernel_calls_ns, mut kernels) = (Vec::new(), Vec::new());
        for duration_ns in durations {
            kernel_calls_ns.push(self.host_ns);
            let start_ns = self.gpu_ns.max(self.host_ns + LAUNCH_NS);
            self.host_ns += CALL_NS;
            self.gpu_ns = start_ns + duration_ns;
            kernels.push((start_ns, self.gpu_ns));
        }
        let collective_call_ns = self.host_ns;
        self.host_ns += 2 * CALL_NS;
        let arrival_ns = self.gpu_ns.max(collective_call_ns + LAUNCH_NS) + 1_000;
        Bucket {
            kernel_calls_ns,
            kernels,
            collective_call_ns,
            arrival_ns,
        }
    }

    /// The host waits for the GPU; the end of that.
    pub(crate) fn finish(&mut self) -> u64 {
        self.host_ns = self.host_ns.max(self.gpu_ns) + 10_000;
        self.host_ns
    }
}

/// Runs a job: when each of its collectives ends.
#[must_use]
pub fn simulate(job: &Job) -> Ends {
    let groups = job.ranks.div_ceil(job.group.max(1));
    let mut ends = Ends {
        buckets: job.buckets,
        groups,
        ends_ns: vec![0; (job.iterations * job.buckets * groups) as usize],
    };
    let mut ranks: Vec<Rank> = (0..job.ranks).map(|rank| Rank::new(job, rank)).collect();
    for iteration in 0..job.iterations {
        for rank in &mut ranks {
            rank.begin(job, iteration);
        }
        for bucket in 0..job.buckets {
            let first = ((iteration * job.buckets + bucket) * groups) as usize;
            for rank in &mut ranks {
                let group = if job.is_of_neighbours(bucket) {
                    rank.rank / job.group
                } else {
                    0
                };
                let end_ns = &mut ends.ends_ns[first + group as usize];
                let arrival_ns = rank.bucket(job, iteration, bucket).arrival_ns;
                *end_ns = (*end_ns).max(arrival_ns + COLLECTIVE_NS);
            }
            for rank in &mut ranks {
                rank.gpu_ns = ends.end_ns(job, rank.rank, (iteration, bucket));
            }
        }
        for rank in &mut ranks {
            rank.finish();
        }
    }
    ends
}
