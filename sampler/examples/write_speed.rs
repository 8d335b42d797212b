//! What the sampler's writer takes for records as an agent writes them, of programs that never ran.
//!
//! `write_speed FOLDER launches COUNT [stacks]`: one thread launches kernels on four streams, HIP tells of them in lumps of a thousand.
//! `write_speed FOLDER samples THREADS HERTZ SECONDS [still]`: threads that are sampled, each in stacks of thirty frames; with `still`, always in the same.
//!
//! Prints CPU seconds of all threads but the one that makes the records, and how long the file took after the last of them.
//! Further words: `split=500MB` and its like, `flows=both` or `numbers`, `plain` for no compression.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rsys_config::keys::KeyValues;
use rsys_config::{CategoryNames, FileLimits, Flows, Numbers};
use rsys_proto::Compression;
use rsys_sampler::emit::account::{AgentCounts, End};
use rsys_sampler::emit::batch::{Batch, RingWords};
use rsys_sampler::emit::writer::Writer;
use rsys_sampler::identity::Identity;
use rsys_sampler::kernel_counters::KernelCounters;
use rsys_sampler::python::PythonView;
use rsys_sampler::resolve::{CacheLocation, ResolverOptions};
use rsys_sampler::run::layout::Layout;
use rsys_sampler::run::{RunContext, SwitchRecords, ThreadChoice};
use rsys_sampler::windows::{Schedule, Windows};
use rsys_wire::event::{
    ArgWords, Category, GpuOp, Key, Labelled, OpKind, Stack, Value, put_begin, put_end, put_gpu,
    put_label, put_stack, put_text, put_thread,
};
use rsys_wire::record::{Module, put_module, put_sample, put_thread_start};
use rsys_wire::ring::{Consumer, Producer, RingHeader};

type Outcome<T> = Result<T, Box<dyn Error>>;

const START_NS: u64 = 5_000_000_000_000;
/// Words of a ring, of which batches take a part.
const RING_WORDS: usize = 1 << 17;
/// Launches that HIP tells together.
const LUMP: u64 = 1000;
const KERNELS: u64 = 20;
const STREAMS: u64 = 4;
const STACKS: u64 = 16;
const FRAMES: u64 = 30;
/// Where the functions of stacks lie in this program's own file, whose names they have.
const CODE: u64 = 0x10_0000;
const CODE_AT: u64 = 0x5000_0000;

fn main() -> Outcome<()> {
    let usage = "write_speed FOLDER launches COUNT [stacks] | samples THREADS HERTZ SECONDS [still] [split=LIMIT] [plain]";
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut take = |word: &str| {
        let at = words.iter().position(|one| one.starts_with(word));
        at.map(|at| words.remove(at))
    };
    let split = take("split=");
    let split = split.as_ref().and_then(|word| word.split_once('='));
    let split = split.map_or(Ok(FileLimits::default()), |(_, limit)| {
        FileLimits::parse(limit).ok_or("not a limit")
    })?;
    let is_plain = take("plain").is_some();
    let has_stacks = take("stacks").is_some();
    let is_still = take("still").is_some();
    let flows = match take("flows=").as_deref() {
        None | Some("flows=arrows") => Flows::Arrows,
        Some("flows=both") => Flows::Both,
        Some("flows=numbers") => Flows::Numbers,
        Some(other) => return Err(format!("{other} is not known").into()),
    };
    let [folder, what, numbers @ ..] = words.as_slice() else {
        return Err(usage.into());
    };
    let numbers = numbers.iter().map(|word| word.parse());
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    std::fs::create_dir_all(folder)?;
    let run = run(PathBuf::from(folder), split, is_plain, flows);
    let hertz = match (what.as_str(), numbers.as_slice()) {
        ("samples", [_, hertz, _]) => *hertz,
        _ => 300,
    };
    let options = ResolverOptions {
        cache: CacheLocation::Disabled,
        ..ResolverOptions::default()
    };
    let run = RunContext {
        frequency_hz: hertz as f64,
        ..run
    };
    let writer = Writer::start(run, options)?;
    let identity = Identity {
        pid: 4711,
        executable: "/nowhere/train".to_owned(),
        command_line: vec!["train".to_owned()],
        start_time_ns: START_NS,
        tick_ns: 4_000_000,
        is_command: true,
        ..Identity::default()
    };
    writer.begin(1, identity);
    let started = Instant::now();
    let count = match (what.as_str(), numbers.as_slice()) {
        ("launches", [count]) => launches(&writer, *count, has_stacks)?,
        ("samples", [threads, hertz, seconds]) => {
            samples(&writer, (*threads, *hertz, *seconds), is_still)?
        }
        _ => return Err(usage.into()),
    };
    let fed = started.elapsed();
    writer.end(1, End::StillRunning, AgentCounts::default());
    let outcome = writer.close().finish();
    let whole = started.elapsed();
    let own = cpu_s(libc::RUSAGE_THREAD);
    let cpu = cpu_s(libc::RUSAGE_SELF) - own;
    println!(
        "{count} of {what}: {:.3} s, after the last record {:.3} s; CPU {cpu:.3} s, {:.0} ns for each; peak {} MB; {:?}",
        whole.as_secs_f64(),
        (whole - fed).as_secs_f64(),
        cpu * 1e9 / count as f64,
        peak_kb().ok_or("no peak of memory")? / 1024,
        outcome
            .processes
            .first()
            .map(|process| process.tally.events),
    );
    Ok(())
}

fn run(directory: PathBuf, split: FileLimits, is_plain: bool, flows: Flows) -> RunContext {
    RunContext {
        backends: Default::default(),
        layout: Layout {
            directory,
            prefix: String::new(),
            file_name: "trace".to_owned(),
            name_processes: true,
        },
        keys: KeyValues::default(),
        trace: true,
        compression: if is_plain {
            Compression::None
        } else {
            Compression::Zlib
        },
        split,
        category_names: CategoryNames::Rsys,
        flows,
        frequency_hz: 300.0,
        realtime_hz: None,
        counted: Vec::new(),
        kernel_counters: KernelCounters::default(),
        overflow: None,
        switches: SwitchRecords::Off,
        shortest_off_cpu_ns: 0,
        unwinder: String::new(),
        openmp_runtime: None,
        attached_at: None,
        python: PythonView::default(),
        start_ns: START_NS,
        digest: true,
        profile: None,
        windows: Windows {
            samples: Schedule::ALWAYS,
            waits: Schedule::ALWAYS,
            events: Schedule::ALWAYS,
            monitors: Schedule::ALWAYS,
            by_cpu_time: false,
        },
        threads: ThreadChoice::default(),
        min_samples: 1,
        ranks: Numbers::All,
        local_ranks: Numbers::All,
        boot_id: "b00t".to_owned(),
        host: "nowhere".to_owned(),
        verbosity: 0,
    }
}

/// A ring that is written and drained in turns.
struct Ring {
    number: u32,
    words: Vec<AtomicU64>,
}

impl Ring {
    fn new(number: u32) -> Self {
        Self {
            number,
            words: (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What `write` puts into it.
    fn written(&self, write: impl FnOnce(&Producer<'_>)) -> RingWords {
        // Each batch has a new ring's counters: the words are taken as a whole.
        let header = RingHeader::new();
        write(&Producer::new(&header, &self.words).expect("a power of two"));
        let mut words = Vec::new();
        Consumer::new(&header, &self.words)
            .expect("a power of two")
            .drain(&mut words);
        RingWords {
            ring: self.number,
            words,
            after_damage: false,
        }
    }
}

fn hand_over(writer: &Writer, rings: Vec<RingWords>) {
    while !writer.has_room() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let batch = Batch {
        words: rings,
        later: Vec::new(),
    };
    writer.batch(1, batch);
}

fn launches(writer: &Writer, count: u64, has_stacks: bool) -> Outcome<u64> {
    let (calls, operations) = (Ring::new(0), Ring::new(1));
    const LAUNCH: u64 = 1;
    const FIRST_KERNEL: u64 = 10;
    const FIRST_STACK: u64 = 100;
    let first = calls.written(|ring| {
        let name = b"train\0\0\0\0\0\0\0\0\0\0\0";
        assert!(put_thread(ring, START_NS, 4711, name));
        assert!(put_text(ring, LAUNCH, b"hipLaunchKernel"));
        for kernel in 0..KERNELS {
            let name =
                format!("_ZN9anonymous6kernelILi{kernel}EfEEvPKT0_PS1_iiii_of_a_usual_length");
            assert!(put_text(ring, FIRST_KERNEL + kernel, name.as_bytes()));
        }
        for stack in 0..if has_stacks { STACKS } else { 0 } {
            let frames: Vec<u64> = (0..FRAMES)
                .map(|frame| 0x5000_0000 + 0x100 * frame + if frame < 3 { stack } else { 0 })
                .collect();
            let stack = Stack {
                id: FIRST_STACK + stack,
                flags: 0,
                frames: &frames,
                python_flags: 0,
                python: &[],
            };
            assert!(put_stack(ring, &stack));
        }
        assert!(put_label(
            ring,
            Labelled::Device,
            0,
            b"AMD Instinct MI300X",
            &[]
        ));
    });
    let thread = operations.written(|ring| {
        let name = b"told\0\0\0\0\0\0\0\0\0\0\0\0";
        assert!(put_thread(ring, START_NS, 4712, name));
    });
    hand_over(writer, vec![first, thread]);
    let mut number = 0;
    let mut ends_ns = [START_NS; STREAMS as usize];
    while number < count {
        let lump = number..(number + LUMP).min(count);
        let called = calls.written(|ring| {
            for number in lump.clone() {
                let time_ns = START_NS + 1_000_000 + number * 5_000;
                let mut args = ArgWords::new();
                args.push(
                    Key::Kernel,
                    Value::Known(FIRST_KERNEL + number * 7 % KERNELS),
                );
                args.push(Key::Grid, Value::Size3([1024 + (number % 64) as u32, 1, 1]));
                args.push(Key::Workgroup, Value::Size3([256, 1, 1]));
                args.push(Key::SharedMemory, Value::Uint(0));
                args.push(
                    Key::Stream,
                    Value::Pointer(0x55ff_0000_1000 + 0x100 * (number % STREAMS)),
                );
                if has_stacks {
                    let stack = FIRST_STACK + number / 3 % STACKS;
                    args.push(Key::LaunchStack, Value::Uint(stack));
                }
                let correlation = (1000 + number, true);
                assert!(put_begin(
                    ring,
                    time_ns,
                    Category::Hip,
                    LAUNCH,
                    correlation,
                    &args
                ));
                assert!(put_end(
                    ring,
                    time_ns + 1_500 + number * 37 % 500,
                    Category::Hip,
                    &ArgWords::new()
                ));
            }
        });
        let told = operations.written(|ring| {
            for number in lump.clone() {
                let stream = (number % STREAMS) as usize;
                let called_ns = START_NS + 1_000_000 + number * 5_000;
                let start_ns = ends_ns[stream].max(called_ns + 4_000) + number * 13 % 300;
                let end_ns = start_ns + 15_000 + number * 7919 % 4_000;
                ends_ns[stream] = end_ns;
                let op = GpuOp {
                    kind: OpKind::Kernel,
                    start_ns,
                    end_ns,
                    correlation: 1000 + number,
                    device: 0,
                    queue: number % STREAMS,
                    stream: 0,
                    name: FIRST_KERNEL + number * 7 % KERNELS,
                };
                assert!(put_gpu(ring, &op, &ArgWords::new()));
            }
        });
        hand_over(writer, vec![called, told]);
        number = lump.end;
    }
    Ok(count)
}

fn samples(
    writer: &Writer,
    (threads, hertz, seconds): (u64, u64, u64),
    is_still: bool,
) -> Outcome<u64> {
    let rings: Vec<Ring> = (0..threads).map(|ring| Ring::new(ring as u32)).collect();
    let period_ns = 1_000_000_000 / hertz;
    let mut count = 0;
    let own = std::env::current_exe()?;
    let own = own.to_str().ok_or("the path of this program")?;
    for second in 0..seconds {
        let mut batch = Vec::new();
        for ring in &rings {
            let thread = u64::from(ring.number);
            batch.push(ring.written(|ring| {
                if second == 0 && thread == 0 {
                    let module = Module {
                        time_ns: START_NS,
                        start: CODE_AT - CODE,
                        end: CODE_AT + 16 * CODE,
                        bias: CODE_AT - CODE,
                        build_id: &[],
                        path: own.as_bytes(),
                    };
                    assert!(put_module(ring, &module));
                }
                if second == 0 {
                    let name = b"worker\0\0\0\0\0\0\0\0\0\0";
                    let tid = 5000 + thread as u32;
                    assert!(put_thread_start(ring, START_NS, tid, 1, name, 0));
                }
                for sample in 0..hertz {
                    let number = second * hertz + sample;
                    let time_ns = START_NS + 1_000_000 + number * period_ns + thread * 1_000;
                    let new = match number {
                        0 => FRAMES,
                        _ if is_still => 0,
                        _ => 1 + number * 7919 % 4,
                    };
                    let place = number * 31 + thread * 17;
                    let frames: Vec<u64> = (0..new)
                        .map(|frame| {
                            CODE_AT + 0x1000 * (FRAMES - new + frame) + 0x10 * (place % 97)
                        })
                        .collect();
                    let shared = (FRAMES - new) as u16;
                    assert!(put_sample(ring, time_ns, 1, 0, shared, &frames));
                    count += 1;
                }
            }));
        }
        hand_over(writer, batch);
    }
    Ok(count)
}

fn cpu_s(of: libc::c_int) -> f64 {
    // SAFETY: zero is a valid value of every field.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: room for what the kernel writes.
    unsafe { libc::getrusage(of, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most memory that this program has had. (What `getrusage` says may be of the program that executed this one.)
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
