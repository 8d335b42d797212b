//! Draws a run.

use super::{
    Basis, Call, Collective, Mark, Operation, OperationKind, Process, RandomRun, Range, Sample,
    Sensor,
};
use crate::random::random;

/// Numbers one after the other, the same each time.
#[derive(Debug)]
pub(super) struct Draw {
    seed: u64,
    count: u64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, count: 0 }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        random([self.seed, self.count, 0, 0, 0])
    }

    /// A number below another, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// A stretch of time: often none, mostly short.
    fn duration_ns(&mut self) -> u64 {
        match self.below(8) {
            0 | 1 => 0,
            2 => 1,
            3 => self.below(1000),
            4 => self.below(10_000_000_000),
            _ => self.below(1_000_000),
        }
    }
}

const HIP: [&str; 7] = [
    "hipLaunchKernel",
    "hipGraphLaunch",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipDeviceSynchronize",
    "hipMalloc",
    "hipFree",
];
const HSA: [&str; 2] = ["hsa_signal_wait_scacquire", "hsa_queue_create"];
const RCCL: [&str; 3] = ["ncclAllReduce", "ncclReduceScatter", "ncclBroadcast"];
const MPI: [&str; 2] = ["MPI_Barrier", "MPI_Isend"];
const DATA_TYPES: [&str; 3] = ["bfloat16", "float32", "int8"];
const DIRECTIONS: [&str; 4] = [
    "CopyHostToDevice",
    "CopyDeviceToHost",
    "CopyDeviceToDevice",
    "CopyHostToHost",
];
const GRIDS: [&str; 3] = ["", "64\u{d7}1\u{d7}1", "1024\u{d7}8\u{d7}2"];
/// Kernels are most.
const KINDS: [OperationKind; 6] = [
    OperationKind::Kernel,
    OperationKind::Kernel,
    OperationKind::Kernel,
    OperationKind::Copy,
    OperationKind::Fill,
    OperationKind::Barrier,
];
/// Begins of clocks: of a machine that was just started, that runs for a while, and where doubles of microseconds have no room for nanoseconds.
const STARTS_NS: [u64; 4] = [
    1_000,
    5_000_000_000_000,
    9_007_199_254_740_993,
    1_790_000_000_123_456_789,
];

pub(super) fn run(number: u64) -> RandomRun {
    let mut draw = Draw::new(number);
    let count = 1 + draw.below(4) as u32;
    // A job, or a process alone that may have no rank.
    let has_ranks = count > 1 || draw.below(2) == 0;
    let same_pid = draw.below(2) == 0;
    let start_ns = draw.pick(&STARTS_NS);
    let processes = (0..count).map(|number| {
        let pid = if same_pid { 4711 } else { 100 + 7 * number };
        let mut process = Process {
            number,
            pid,
            rank: has_ranks.then_some(u64::from(number)),
            // Processes of one host have different ids.
            host: if same_pid { u64::from(number) } else { 0 },
            start_ns: start_ns + draw.duration_ns(),
            wall_offset_ns: draw.pick(&[-500, 0, 1_790_000_000_000_000_000]),
            threads: (0..=draw.below(3) as u32).map(|more| pid + more).collect(),
            ..Process::default()
        };
        fill(&mut draw, &mut process, u64::from(count));
        process
    });
    RandomRun {
        processes: processes.collect(),
    }
}

/// Draws the records of a process.
fn fill(draw: &mut Draw, process: &mut Process, ranks: u64) {
    for thread in 0..process.threads.len() {
        let mut now_ns = process.start_ns;
        for _ in 0..draw.below(12) {
            now_ns += draw.duration_ns();
            calls(draw, process, thread, &mut now_ns, ranks);
        }
        let mut now_ns = process.start_ns;
        for _ in 0..draw.below(6) {
            now_ns += draw.duration_ns();
            range(draw, process, thread, &mut now_ns, 0);
        }
        for basis in [Basis::Cpu, Basis::Wait] {
            for _ in 0..draw.below(6) {
                let sample = Sample {
                    time_ns: process.start_ns + draw.duration_ns(),
                    basis,
                    weight: 1 + draw.duration_ns(),
                    thread,
                    functions: (0..=draw.below(4)).map(|_| draw.name()).collect(),
                };
                process.samples.push(sample);
            }
        }
    }
    operations(draw, process);
    for device in 0..draw.below(3) as u32 {
        let mut time_ns = process.start_ns;
        for _ in 0..draw.below(5) {
            time_ns += 1 + draw.duration_ns();
            let value = draw.below(4) as f64 + 0.5;
            process.sensors.push(Sensor {
                time_ns,
                device,
                value,
            });
        }
    }
}

/// A call, in which another may be.
fn calls(draw: &mut Draw, process: &mut Process, thread: usize, now_ns: &mut u64, ranks: u64) {
    let (category, name) = match draw.below(8) {
        0 => ("hsa", draw.pick(&HSA)),
        1 => ("rccl", draw.pick(&RCCL)),
        2 => ("mpi", draw.pick(&MPI)),
        _ => ("hip", draw.pick(&HIP)),
    };
    let place = process.calls.len();
    let collective = (category == "rccl").then(|| Collective {
        communicator: 0xC0FFEE + draw.below(2),
        sequence: draw.below(1000),
        data_type: draw.pick(&DATA_TYPES),
        rank: process.rank.unwrap_or(0),
        ranks,
    });
    let has_bytes = category == "rccl" || ["hipMemcpyAsync", "hipMalloc"].contains(&name);
    process.calls.push(Call {
        category,
        name,
        start_ns: *now_ns,
        end_ns: 0,
        thread,
        correlation: place as u64 + 1,
        bytes: if has_bytes {
            8 * (1 + draw.below(1 << 20))
        } else {
            0
        },
        collective,
    });
    *now_ns += draw.duration_ns();
    if category == "rccl" && draw.below(2) == 0 {
        // The launch within it.
        process.calls.push(Call {
            category: "hip",
            name: "hipExtLaunchKernel",
            start_ns: *now_ns,
            end_ns: *now_ns,
            thread,
            correlation: place as u64 + 2,
            bytes: 0,
            collective: None,
        });
    }
    process.calls[place].end_ns = *now_ns;
}

/// A range, in which others may be.
fn range(draw: &mut Draw, process: &mut Process, thread: usize, now_ns: &mut u64, depth: u64) {
    if draw.below(4) == 0 {
        process.marks.push(Mark {
            name: draw.name(),
            time_ns: *now_ns,
            thread,
        });
    }
    let place = process.ranges.len();
    process.ranges.push(Range {
        name: draw.name(),
        start_ns: *now_ns,
        end_ns: 0,
        thread,
    });
    *now_ns += draw.duration_ns();
    if draw.below(3) > depth {
        range(draw, process, thread, now_ns, depth + 1);
    }
    *now_ns += draw.duration_ns();
    process.ranges[place].end_ns = *now_ns;
}

/// Operations, one after the other on each stream.
fn operations(draw: &mut Draw, process: &mut Process) {
    let causes = |kind: OperationKind| -> Vec<usize> {
        let calls = (0..).zip(&process.calls);
        let calls = calls.filter(|(_, call)| match call.name {
            "hipLaunchKernel" | "hipExtLaunchKernel" => kind == OperationKind::Kernel,
            "hipMemcpyAsync" => kind == OperationKind::Copy,
            "hipMemsetAsync" => kind == OperationKind::Fill,
            "hipGraphLaunch" => true,
            _ => false,
        });
        calls.map(|(place, _)| place).collect()
    };
    let calls = KINDS.map(causes);
    for device in 0..draw.below(3) as u32 {
        for stream in 0..=draw.below(3) as u32 {
            let mut now_ns = process.start_ns;
            for _ in 0..draw.below(10) {
                let kind = draw.pick(&KINDS);
                let calls = &calls[KINDS.iter().position(|one| *one == kind).unwrap_or(0)];
                let is_copy = kind == OperationKind::Copy;
                now_ns += draw.duration_ns();
                let start_ns = now_ns;
                now_ns += draw.duration_ns();
                let has_call = !calls.is_empty() && draw.below(8) > 0;
                process.operations.push(Operation {
                    kind,
                    name: match kind {
                        OperationKind::Kernel => draw.name(),
                        OperationKind::Copy => "Copy".to_owned(),
                        OperationKind::Fill => "Fill".to_owned(),
                        OperationKind::Barrier => "Barrier".to_owned(),
                    },
                    start_ns,
                    end_ns: now_ns,
                    device,
                    stream,
                    call: has_call.then(|| draw.pick(calls)),
                    bytes: if is_copy { 1 + draw.below(1 << 40) } else { 0 },
                    direction: if is_copy { draw.pick(&DIRECTIONS) } else { "" },
                    grid: match kind {
                        OperationKind::Kernel => draw.pick(&GRIDS),
                        _ => "",
                    },
                });
            }
        }
    }
}
