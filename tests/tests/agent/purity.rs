//! What the signal handler may do, proved on the machine code that is shipped, in each build of the agent: every function that
//! the handler can reach is listed by the disassembler, and the only code outside of the library
//! among it is on a short list.

mod calls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rsys_tests::{TestResult, missing_tool, skip_if_missing, target_dir};

/// What the handler may call outside of the agent: all async-signal-safe, none a system call (the
/// clock is answered by the vDSO; the thread's own id and table are memory of its own).
const ALLOWED: [&str; 8] = [
    "clock_gettime",
    "pthread_getspecific",
    "pthread_self",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
];

/// Where the sampling path ends: what the program's own handler does is its own affair, adoption
/// runs once for a thread that the agent missed, a deferred start once in a process, tables are read once for a module, a sampler that never came is looked for once a second, and framehop is for comparison only.
const BOUNDARIES: [&str; 17] = [
    "signals::forward",
    "adopt::adopt_self",
    START,
    "framehop::walk",
    COUNTERS,
    TURN,
    JOIN,
    OPEN,
    CLOSE,
    SEND_AGAIN,
    HOLD,
    LET_GO,
    LEAVE,
    TIME,
    TABLES,
    UNHEARD,
    WAITS,
];

/// Where the handler starts a process whose start was deferred, and what it calls by a pointer.
const START: &str = "deferred::start_now";
const DEFERRED_START: &str = "deferred_start::start";

/// Where the handler reads the events that a thread counts, if the user asked for events.
const COUNTERS: &str = "thread_counters::read_group";

/// Where it changes the period of perf's clock, now and then.
const TURN: &str = "clock::turn";

/// Where perf's clock begins beside the timer of a thread that has taken some samples, once.
const JOIN: &str = "clock::join_perf";

/// Where it lets the signals of faults through in a thread that handles one, and blocks them again. These are the places with
/// system calls.
const OPEN: &str = "faults::open";
const CLOSE: &str = "faults::close";
/// Where it sends one again that came within a sample.
const SEND_AGAIN: &str = "faults::send_when_handler_returns";

/// Where it stops perf's clock for a sample on a small stack, and starts it again; and where it leaves the thread to its timer.
const HOLD: &str = "clock::stop_perf";
const LET_GO: &str = "clock::start_perf";
const LEAVE: &str = "clock::close_perf";

/// Where it reads `.debug_frame` of a module's file, once, when it first comes to code of it that nothing else describes.
const TABLES: &str = "debug_frames::load";

/// Where it asks, once a second, whether there still is a sampler that has not taken the process in.
const UNHEARD: &str = "socket::is_closed";

/// Where it asks the kernel for a thread's time in user mode, and for the time in a program that must not read the time stamp counter.
const TIME: &str = "time::ask_kernel";

/// Where it has a wait begin again that a sample has ended in place of another signal.
const WAITS: &str = "interrupted::begin_again";

/// A library that is preloaded, and what the machine code of it says.
struct Agent {
    path: PathBuf,
    code: OnceLock<Code>,
}

impl Agent {
    const fn empty() -> OnceLock<Self> {
        OnceLock::new()
    }

    fn code(&self) -> &Code {
        self.code.get_or_init(|| disassemble(self))
    }
}

/// The agent's three builds: alone, in front of MPI, OpenSHMEM, UCX, OpenMP, Kokkos and PyTorch as well, and in front of locks too.
fn agents() -> impl Iterator<Item = &'static Agent> {
    const FILES: [&str; 3] = [
        "librsys_agent.so",
        "librsys_agent_parallel.so",
        "librsys_agent_locks.so",
    ];
    static AGENTS: [OnceLock<Agent>; 3] = [Agent::empty(), Agent::empty(), Agent::empty()];
    AGENTS.iter().zip(FILES).map(|(agent, file)| {
        agent.get_or_init(|| Agent {
            path: target_dir().join("release").join(file),
            code: OnceLock::new(),
        })
    })
}

/// Calls of each function by name, and the relocated functions behind indirect calls by address.
#[derive(Default)]
struct Code {
    calls: BTreeMap<String, BTreeSet<String>>,
    slots: BTreeMap<u64, String>,
}

fn run(agent: &Agent, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(&agent.path)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} failed on {}",
        agent.path.display()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The name in `... <name+0x12>`.
fn target(line: &str) -> Option<&str> {
    let name = line.split_once('<')?.1.rsplit_once('>')?.0;
    Some(name.rsplit_once("+0x").map_or(name, |(name, _)| name))
}

fn disassemble(agent: &Agent) -> Code {
    let mut code = Code::default();
    // Slots of the global offset table: `address type symbol` or, within the library, `*ABS*+0x...`.
    let symbols: BTreeMap<u64, String> = run(agent, "nm", &["-C", "--defined-only"])
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?.to_owned()))
        })
        .collect();
    for line in run(agent, "objdump", &["-R"]).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, name] = words[..] else {
            continue;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else {
            continue;
        };
        let name = match name.split_once("*ABS*+0x") {
            Some((_, value)) => u64::from_str_radix(value, 16)
                .ok()
                .and_then(|value| symbols.get(&value))
                .cloned()
                .unwrap_or_default(),
            None => name.split('@').next().unwrap_or(name).to_owned(),
        };
        code.slots.insert(address, name);
    }
    let mut function = String::new();
    for line in run(agent, "objdump", &["-d", "-C", "--no-show-raw-insn"]).lines() {
        if line.ends_with(">:") {
            function = target(line).unwrap_or_default().to_owned();
            continue;
        }
        let Some((_, instruction)) = line.split_once('\t') else {
            continue;
        };
        let mnemonic = instruction.split_whitespace().next().unwrap_or_default();
        let calls = code.calls.entry(function.clone()).or_default();
        match mnemonic {
            "syscall" | "int" | "sysenter" => {
                calls.insert("a system call".to_owned());
            }
            "call" | "jmp" | "bnd" if instruction.contains('*') => {
                // `call *0x1234(%rip)        # 5678 <slot>` goes through a slot; what goes through
                // a register is a jump table or `_dl_find_object`.
                if let Some((_, comment)) = instruction.split_once("# ") {
                    let address = comment.split_whitespace().next().unwrap_or_default();
                    let slot = u64::from_str_radix(address, 16).unwrap_or_default();
                    let name = code.slots.get(&slot).cloned();
                    calls.insert(name.unwrap_or_else(|| format!("the unknown slot {address}")));
                }
            }
            _ if mnemonic == "call" || mnemonic.starts_with('j') => {
                calls.extend(target(instruction).map(str::to_owned));
            }
            _ => {}
        }
    }
    code
}

/// Everything that is reachable from `root`, with the caller that led there.
fn reachable(code: &Code, root: &str) -> BTreeMap<String, String> {
    reachable_from(code, root, &BOUNDARIES)
}

fn reachable_from(code: &Code, root: &str, boundaries: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: VecDeque<(String, String)> = code
        .calls
        .keys()
        .filter(|name| name.contains(root))
        .map(|name| (name.clone(), "the kernel".to_owned()))
        .collect();
    assert!(!open.is_empty(), "no function `{root}` in the disassembly");
    while let Some((name, caller)) = open.pop_front() {
        let boundary = boundaries.iter().any(|boundary| name.contains(boundary));
        if found.contains_key(&name) {
            continue;
        }
        found.insert(name.clone(), caller);
        if !boundary {
            open.extend(
                code.calls
                    .get(&name)
                    .into_iter()
                    .flatten()
                    .map(|callee| (callee.clone(), name.clone())),
            );
        }
    }
    found
}

/// How a function is reached, callee first.
fn chain(found: &BTreeMap<String, String>, name: &str) -> String {
    let mut names = vec![name];
    while let Some(caller) = found.get(names[names.len() - 1]) {
        names.push(caller);
    }
    names.join(" <- ")
}

#[test]
fn the_handler_reaches_nothing_but_itself() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let code = agent.code();
        let found = reachable(code, "handler::on_sample");
        assert!(
            found.keys().any(|name| name.contains("rsys_unwind")),
            "the walk is not in sight"
        );
        let foreign: Vec<String> = found
            .iter()
            .filter(|(name, _)| {
                let ours = name.contains("rsys_agent")
                    || name.contains("rsys_unwind::")
                    || name.contains("rsys_python::")
                    || name.contains("rsys_wire::");
                let panics = name.contains("panic") || name.contains("unwrap_failed");
                let allowed = ALLOWED.contains(&name.as_str());
                (!ours && !allowed) || panics
            })
            .map(|(name, _)| chain(&found, name))
            .collect();
        assert!(
            foreign.is_empty(),
            "the handler reaches:\n{}",
            foreign.join("\n")
        );
    }
    Ok(())
}

/// What makes system calls does nothing else.
#[test]
fn some_places_make_system_calls_alone() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let code = agent.code();
        for place in [
            COUNTERS, TURN, JOIN, OPEN, CLOSE, SEND_AGAIN, HOLD, LET_GO, LEAVE, TIME, TABLES, WAITS,
        ] {
            let found = reachable_from(code, place, &[]);
            let foreign: Vec<String> = found
                .keys()
                .filter(|name| !name.contains("rsys_agent") && *name != "a system call")
                .filter(|name| !name.contains("rsys_unwind::debug_frame"))
                // What could not be opened is counted there.
                .filter(|name| !name.contains("rsys_wire::layout::SegmentHeader"))
                .filter(|name| !ALLOWED.contains(&name.as_str()))
                .map(|name| chain(&found, name))
                .collect();
            assert!(
                foreign.is_empty() && found.contains_key("a system call"),
                "{place} reaches:\n{}",
                foreign.join("\n")
            );
        }
    }
    Ok(())
}

/// What starts in the handler makes system calls, but takes nothing from the program's allocator, which may be at work.
#[test]
fn a_deferred_start_allocates_nothing() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let code = agent.code();
        let found = reachable_from(code, DEFERRED_START, &[]);
        let foreign: Vec<String> = found
            .keys()
            .filter(|name| {
                let ours = ["rsys_agent", "rsys_unwind::", "rsys_wire::"];
                let is_ours = ours.iter().any(|crate_name| name.contains(crate_name));
                let allowed = ALLOWED.contains(&name.as_str()) || *name == "clock_getres";
                !is_ours && !allowed && *name != "a system call"
            })
            .map(|name| chain(&found, name))
            .collect();
        assert!(
            foreign.is_empty() && found.contains_key("a system call"),
            "a deferred start reaches:\n{}",
            foreign.join("\n")
        );
    }
    Ok(())
}

/// The same search does find what it looks for where it is known to be.
#[test]
fn the_search_finds_system_calls_and_allocations() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let code = agent.code();
        let adoption = reachable(code, "threads::begin");
        assert!(
            adoption.contains_key("a system call"),
            "a thread's start makes system calls; reached: {:?}",
            adoption.keys()
        );
        let snapshot = reachable(code, "snapshot::renew");
        assert!(
            snapshot
                .keys()
                .any(|name| name.contains("alloc") || name == "malloc"),
            "the snapshot allocates; reached: {:?}",
            snapshot.keys()
        );
    }
    Ok(())
}
