//! Exceptions, stepped instruction by instruction: every stack is whole while the C++ runtime replaces what lies on it, and where it is
//! about to go is where it goes.

#[path = "common/child.rs"]
mod child;
mod common;

use std::path::Path;
use std::process::Command;

use child::Child;
use common::{cache, pc, show};
use rsys_unwind::{CfiEngine, EXACT, End, Engine, FrameBuffer, Memory, SCANNED, register};

/// Compilers and options: with frame pointers and without, the runtime's code in the program, calls that name a table.
const VARIANTS: &[(&str, &str, &[&str])] = &[
    ("g++", "O0", &["-O0"]),
    ("g++", "O2", &["-O2"]),
    ("g++", "O2-static-libgcc", &["-O2", "-static-libgcc"]),
    ("g++", "O2-no-plt", &["-O2", "-fno-plt"]),
    ("clang++", "O2", &["-O2"]),
];

/// Steps through the program; returns how many landing pads were told before they were reached.
fn step_through(variant: &str, program: &Path) -> usize {
    let mut child = Child::start(&[program.to_str().unwrap()], &["LD_BIND_NOW=1"]);
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
    let (_, base) = walk(&mut uncached, &child);
    let below_main = &base[1..];

    let mut landings = 0;
    let mut steps = 0_u32;
    let mut scanned = 0_u32;
    let mut first_scanned = None;
    // The stack without its leaf, where the frame above the leaf is no caller.
    let mut told: Option<Vec<u64>> = None;
    let mut before = start;
    loop {
        child.resume(libc::PTRACE_SINGLESTEP, 0);
        assert_eq!(child.wait(), Some(libc::SIGTRAP), "{variant}: a step");
        let now = child.registers();
        if now.pc() == before.pc() + 1 && child.read_u8(before.pc()) == Some(0xcc) {
            break;
        }
        steps += 1;
        let (end, frames) = walk(&mut cached, &child);
        let story = || format!("{variant} step {steps}: {end:?} {}", show(&frames));
        assert_eq!(end, End::Root, "{}", story());
        if steps.is_multiple_of(16) {
            assert_eq!(frames, walk(&mut uncached, &child).1, "{}", story());
        }
        if frames.iter().any(|word| word & SCANNED != 0) {
            scanned += 1;
            first_scanned.get_or_insert_with(story);
        }
        let callers = frames.strip_suffix(below_main).unwrap_or(&[]);
        let outermost = callers.last().copied().unwrap_or_default();
        assert!(main.contains(&pc(outermost)), "{}", story());
        // No function is left otherwise than by a landing: its caller is on the stack until then.
        if let Some(stack) = told.take()
            && stack.first() == Some(&(now.pc() | EXACT))
        {
            assert_eq!(stack, frames, "{}", story());
            landings += 1;
        } else if now.sp() > before.sp() + 64 && child.read_u8(before.pc()) == Some(0xff) {
            panic!("{} was not told", story());
        }
        told = match frames.get(1) {
            Some(second) if second & EXACT != 0 => Some(frames[1..].to_vec()),
            _ => None,
        };
        before = now;
    }
    println!(
        "{variant}: {steps} instructions, {landings} landings, {scanned} searched: {first_scanned:?}"
    );
    // While the registers are replaced and the return address is not, a caller that needs them for its frame is searched for.
    assert!(scanned <= steps / 100, "{variant}: {first_scanned:?}");
    landings
}

#[test]
fn every_instruction_of_an_exception_has_a_whole_stack() {
    std::thread::scope(|scope| {
        for (compiler, name, options) in VARIANTS {
            scope.spawn(move || {
                let variant = format!("throws-{compiler}-{name}");
                let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&variant);
                let source =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/throws.cpp");
                let status = Command::new(compiler)
                    .args(*options)
                    .args(["-g0", "-w", "-fno-optimize-sibling-calls", "-o"])
                    .args([&output, &source])
                    .status();
                match status {
                    Ok(status) if status.success() => {
                        let landings = step_through(&variant, &output);
                        // Four frames with destructors, a handler, which throws again, the destructors of that, and the last handler.
                        assert!(landings >= 7, "{variant}: {landings} landings");
                    }
                    Ok(status) => panic!("{variant}: the compiler said {status}"),
                    Err(error) => println!("left out {variant}: no compiler ({error})"),
                }
            });
        }
    });
}
