//! The strongest test of the walker: a child is stepped instruction by instruction, and at each one the walk must be exactly the
//! stack that the calls and returns so far have made.

#[path = "common/child.rs"]
mod child;
mod common;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use child::Child;
use common::{cache, pc, show};
use rsys_unwind::{
    CfiEngine, EXACT, End, Engine, FrameBuffer, LastWalk, Memory, SCANNED, register,
};

/// A program that is stepped through.
struct Variant {
    source: &'static str,
    compiler: &'static str,
    name: &'static str,
    options: &'static [&'static str],
}

/// What is compiled how. Optimised code is where prologues and epilogues are; -O0 has few kinds of them.
#[rustfmt::skip]
const VARIANTS: &[Variant] = &[
    Variant { source: "chain.c", compiler: "gcc", name: "O0", options: &["-O0"] },
    Variant { source: "chain.c", compiler: "gcc", name: "O1", options: &["-O1", "-fomit-frame-pointer"] },
    Variant { source: "chain.c", compiler: "gcc", name: "O2", options: &["-O2", "-fomit-frame-pointer", "-fcf-protection=none"] },
    Variant { source: "chain.c", compiler: "gcc", name: "O3", options: &["-O3", "-march=native", "-fomit-frame-pointer"] },
    Variant { source: "chain.c", compiler: "gcc", name: "O2-fp", options: &["-O2", "-fno-omit-frame-pointer"] },
    Variant { source: "chain.c", compiler: "gcc", name: "Os", options: &["-Os", "-no-pie"] },
    Variant { source: "chain.c", compiler: "gcc", name: "O2-static", options: &["-O2", "-static", "-Wl,--eh-frame-hdr"] },
    Variant { source: "chain.c", compiler: "clang", name: "O0", options: &["-O0"] },
    Variant { source: "chain.c", compiler: "clang", name: "O1", options: &["-O1"] },
    Variant { source: "chain.c", compiler: "clang", name: "O2", options: &["-O2", "-fomit-frame-pointer"] },
    Variant { source: "chain.c", compiler: "clang", name: "O3", options: &["-O3", "-march=native"] },
    Variant { source: "libraries.cpp", compiler: "g++", name: "O2", options: &["-O2"] },
    Variant { source: "libraries.cpp", compiler: "clang++", name: "O3", options: &["-O3"] },
];

fn compile(variant: &Variant) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(variant.source);
    let output = directory.join(variant.label());
    let status = Command::new(variant.compiler)
        .args(variant.options)
        .args(["-g0", "-w", "-Wl,-z,lazy", "-o"])
        .arg(&output)
        .arg(&source)
        .arg("-lm")
        .status();
    match status {
        Ok(status) if status.success() => Some(output),
        Ok(status) => panic!("{}: the compiler said {status}", variant.label()),
        Err(error) => {
            println!("left out {}: no compiler ({error})", variant.label());
            None
        }
    }
}

impl Variant {
    fn label(&self) -> String {
        format!("{}-{}-{}", self.source, self.compiler, self.name)
    }
}

/// The stack as calls and returns make it.
struct Shadow {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Where the return address lies; the entry is gone when the stack pointer is above. `u64::MAX`: until the signal returns.
    slot: u64,
    word: u64,
}

const SIGNAL: u64 = u64::MAX;

impl Shadow {
    /// Drops the entries of functions that have returned.
    fn settle(&mut self, sp: u64) {
        while let Some(entry) = self.entries.last()
            && entry.slot != SIGNAL
            && entry.slot < sp
        {
            self.entries.pop();
        }
    }

    fn expected(&self, pc: u64) -> Vec<u64> {
        let mut words = vec![pc | EXACT];
        words.extend(self.entries.iter().rev().map(|entry| entry.word));
        words
    }
}

/// Whether the instruction at `pc` is a near call.
fn is_call(memory: &impl Memory, mut pc: u64) -> bool {
    let byte = |at| memory.read_u8(at).unwrap_or(0);
    while matches!(byte(pc), 0x40..=0x4f | 0x3e | 0x66 | 0xf2) {
        pc += 1;
    }
    byte(pc) == 0xe8 || (byte(pc) == 0xff && byte(pc + 1) & 0x38 == 0x10)
}

/// Steps through a program and returns how many functions it called.
fn step_through(variant: &str, program: &Path) -> usize {
    // Finding symbols takes most of the time of a program that uses each once; the others do it, step by step.
    let environment: &[&str] = if variant.starts_with("libraries") {
        &["LD_BIND_NOW=1"]
    } else {
        &[]
    };
    let mut child = Child::start(&[program.to_str().unwrap()], environment);
    let start = child.registers();
    let main = start.get(register::RAX).unwrap()..start.get(register::RDX).unwrap();

    let mut cached = CfiEngine::new(cache(8192));
    let mut uncached = CfiEngine::without_cache();
    let mut words = [0; 256];
    let mut walk = |engine: &mut CfiEngine<'_>, child: &Child| {
        let mut frames = FrameBuffer::new(&mut words);
        let end = engine.walk(&child.registers(), child, child, &mut frames);
        (end, frames.words().to_vec())
    };

    // Compared with the walk at the instruction before.
    let again = CfiEngine::new(cache(8192));
    let mut last = Box::new(LastWalk::new());
    let mut again_words = [0; 256];
    let mut walk_again = |child: &Child| {
        let mut frames = FrameBuffer::new(&mut again_words);
        let walked = again.walk_again(&child.registers(), child, child, &mut last, &mut frames);
        (walked, frames.words().to_vec())
    };
    let (mut frames_in_all, mut frames_shared) = (0, 0);

    // What lies below main never changes: __libc_start_call_main, __libc_start_main, _start.
    let (end, base) = walk(&mut uncached, &child);
    assert_eq!(end, End::Root, "{variant}: at main: {}", show(&base));
    assert!(
        main.contains(&pc(base[0])) && (3..=4).contains(&base.len()),
        "{}",
        show(&base)
    );
    let auxv = std::fs::read(format!("/proc/{}/auxv", child.pid)).unwrap();
    let entry = auxv
        .chunks_exact(16)
        .find(|pair| pair[0] == 9)
        .map(|pair| u64::from_le_bytes(pair[8..16].try_into().unwrap()))
        .unwrap();
    let root = pc(*base.last().unwrap());
    assert!((entry..entry + 64).contains(&root), "_start is the root");

    let mut shadow = Shadow {
        entries: base[1..]
            .iter()
            .rev()
            .map(|word| Entry {
                slot: SIGNAL,
                word: *word,
            })
            .collect(),
    };
    let mut functions = HashSet::new();
    let mut steps = 0_u32;
    let mut vdso_steps = 0_u32;
    let mut before_the_jump = Vec::new();
    let mut signal = 0;
    let mut before = start;
    loop {
        let called = is_call(&child, before.pc());
        let delivered = signal;
        child.resume(libc::PTRACE_SINGLESTEP, signal);
        signal = match child.wait() {
            Some(libc::SIGTRAP) => 0,
            Some(other) => other,
            None => panic!("{variant}: the program ended"),
        };
        let now = child.registers();
        if signal != 0 {
            // Stopped because a signal is about to be delivered: not a step.
            before = now;
            continue;
        }
        // After an int3 the program counter is behind it.
        if now.pc() == before.pc() + 1 && child.read_u8(before.pc()) == Some(0xcc) {
            break;
        }
        if delivered != 0 {
            shadow.entries.push(Entry {
                slot: SIGNAL,
                word: before.pc() | EXACT,
            });
            shadow.entries.push(Entry {
                slot: now.sp(),
                word: child.read_u64(now.sp()).unwrap() | EXACT,
            });
        } else if let Some(entry) = shadow.entries.last()
            && entry.slot == SIGNAL
            && entry.word == now.pc() | EXACT
            && child.read_u16(before.pc()) == Some(0x050f)
        {
            shadow.entries.pop();
        }
        shadow.settle(now.sp());
        if main.contains(&now.pc()) {
            // In the last instructions of longjmp, libc's tables describe the frame to which it jumps, in main.
            assert!(
                before_the_jump.len() <= 20,
                "{variant}: {before_the_jump:#?}"
            );
            before_the_jump.clear();
        }
        if called && now.sp() == before.sp() - 8 {
            functions.insert(now.pc());
            shadow.entries.push(Entry {
                slot: now.sp(),
                word: child.read_u64(now.sp()).unwrap(),
            });
        }
        steps += 1;
        if child.vdso.contains(&now.pc()) {
            // The vDSO reads the clock again when a tick has come meanwhile: be quick after some time.
            vdso_steps += 1;
            if vdso_steps > 2000 {
                before = now;
                continue;
            }
        }
        let expected = shadow.expected(now.pc());
        for (name, engine) in [("cached", &mut cached), ("uncached", &mut uncached)] {
            let (end, frames) = walk(engine, &child);
            if end != End::Root || frames != expected {
                let message = format!(
                    "{variant} {name} step {steps}: {end:?}\n  walked   {}\n  expected {}",
                    show(&frames),
                    show(&expected)
                );
                assert!(
                    frames.ends_with(&base[1..]) && end == End::Root,
                    "{message}"
                );
                before_the_jump.push(message);
            } else {
                assert!(
                    before_the_jump.is_empty(),
                    "{variant}: {before_the_jump:#?}"
                );
            }
        }
        let (walked, frames) = walk_again(&child);
        assert_eq!(
            (walked.end, show(&frames)),
            {
                let (end, frames) = walk(&mut cached, &child);
                (end, show(&frames))
            },
            "{variant} step {steps}: {walked:?}"
        );
        if walked.kept {
            frames_in_all += frames.len();
            frames_shared += walked.shared;
        }
        before = now;
    }
    // At most the leaf and its caller are others than at the instruction before.
    assert!(
        frames_shared * 2 > frames_in_all,
        "{variant}: {frames_shared} of {frames_in_all}"
    );
    println!(
        "{variant}: {frames_shared} frames of {frames_in_all} known from the walk before; {steps} instructions of {} functions, {vdso_steps} in the vDSO",
        functions.len()
    );
    assert!(before_the_jump.is_empty(), "{before_the_jump:#?}");
    assert!(steps > 10_000);
    // The last function is main again.
    assert!(main.contains(&before.pc()));
    assert_eq!(shadow.entries.len(), base.len() - 1);
    assert!(base.iter().all(|word| word & SCANNED == 0));
    functions.len()
}

#[test]
fn every_instruction_of_a_program_is_unwound_exactly() {
    let functions: Vec<usize> = std::thread::scope(|scope| {
        let steppers: Vec<_> = VARIANTS
            .iter()
            .filter_map(|variant| Some((variant, compile(variant)?)))
            .map(|(variant, program)| scope.spawn(move || step_through(&variant.label(), &program)))
            .collect();
        let counts = steppers.into_iter().map(|stepper| stepper.join().unwrap());
        counts.collect()
    });
    let most = functions.iter().max();
    assert!(most.is_none_or(|most| *most >= 200), "{functions:?}");
}
