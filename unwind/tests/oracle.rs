//! Contexts of real programs (registers, stack and modules at a moment), walked by us, by framehop, and in place by libgcc: we have
//! no frame that libgcc lacks, unless it is marked as found by scanning.
#![cfg(feature = "framehop")]

#[path = "common/child.rs"]
mod child;
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use child::Child;
use common::{cache, pc, show};
use rsys_unwind::{
    CfiEngine, EXACT, End, Engine, FrameBuffer, FramehopEngine, FramehopModule, Memory, SCANNED,
    register,
};

const DEPTH: usize = 512;

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn compile(source: &str, output: &str, options: &[&str]) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let output = scratch().join(output);
    let status = Command::new("cc")
        .args(options)
        .arg("-o")
        .arg(&output)
        .arg(sources.join(source))
        .args(["-lm", "-pthread"])
        .status();
    status
        .is_ok_and(|status| status.success())
        .then_some(output)
}

/// The corpus: programs that work for long enough, in libraries of many compilers.
fn corpus() -> Vec<(&'static str, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let mut corpus = vec![
        (
            "python3",
            words(&[
                "/usr/bin/python3",
                "-c",
                "import json, re\nwhile True:\n json.loads(json.dumps([{'a': i / 3, 'b': str(i)} for i in range(300)]))\n \
                 sorted(re.sub('[aeiou]', '', 'the quick brown fox ' * 40).split(), key=hash)",
            ]),
        ),
        (
            "numpy",
            words(&[
                "/usr/bin/python3",
                "-c",
                "import numpy as n\na = n.random.rand(120, 120)\nwhile True:\n n.linalg.solve(a, a @ a); n.sort(n.sin(a), axis=None); n.fft.fft(a)",
            ]),
        ),
        (
            "perl",
            words(&[
                "/usr/bin/perl",
                "-e",
                "while (1) { my %h; $h{$_ % 97} .= sprintf('%.3f', $_ / 7) for 1..2000; join ',', sort map { s/\\d/x/gr } values %h }",
            ]),
        ),
    ];
    for (name, options) in [
        ("gcc -O2", &["-O2", "-fomit-frame-pointer"][..]),
        ("gcc -O3 vectors", &["-O3", "-march=native", "-ffast-math"]),
        ("gcc -O0", &["-O0"]),
    ] {
        let output = format!("endless{}", options.concat());
        if let Some(program) = compile("endless.c", &output, options) {
            corpus.push((name, vec![program.to_str().unwrap().to_owned()]));
        }
    }
    corpus.retain(|(name, words)| {
        let module = format!("import {}", if *name == "numpy" { name } else { "sys" });
        let mut probe = Command::new(&words[0]);
        let is_python = words[0].ends_with("python3");
        let there = if is_python {
            let output = probe.args(["-c", &module]).output();
            output.is_ok_and(|output| output.status.success())
        } else {
            Path::new(&words[0]).exists()
        };
        if !there {
            println!("{name}: left out, {} is missing", words[0]);
        }
        there
    });
    corpus
}

/// The tables of the child's modules as framehop wants them: for as long as this process lives.
fn framehop_modules(child: &Child) -> Vec<FramehopModule> {
    let copy = |start: u64, end: u64| -> &'static [u8] {
        let bytes = (start..end).map_while(|address| child.read_u8(address));
        Box::leak(bytes.collect::<Vec<u8>>().into_boxed_slice())
    };
    let module = |tables: &rsys_unwind::ModuleTables| {
        let hdr = tables.eh_frame_hdr;
        // Version, three encodings, the distance of .eh_frame from here, and the number of rows of eight bytes.
        let distance = i64::from(child.read_u32(hdr + 4)?.cast_signed());
        let rows = u64::from(child.read_u32(hdr + 8)?);
        let eh_frame = (hdr + 4).wrapping_add_signed(distance);
        let mut end = eh_frame;
        while let Some(length) = child.read_u32(end).filter(|length| *length != 0) {
            end += u64::from(length) + 4;
        }
        Some(FramehopModule {
            range: tables.range.clone(),
            eh_frame_hdr_address: hdr,
            eh_frame_hdr: copy(hdr, hdr + 12 + rows * 8),
            eh_frame_address: eh_frame,
            eh_frame: copy(eh_frame, end + 4),
        })
    };
    let modules = child
        .modules
        .iter()
        .filter(|module| module.eh_frame_hdr != 0);
    modules.filter_map(module).collect()
}

#[derive(Default)]
struct Tally {
    contexts: u32,
    same: u32,
    /// Ours goes on by scanning where libgcc stops.
    further: u32,
    scanned: u32,
    framehop_same: u32,
}

/// Compares a walk with what libgcc says. The error says what is wrong.
fn judge(ours: &[u64], end: End, libgcc: &[u64], tally: &mut Tally) -> Result<(), &'static str> {
    tally.contexts += 1;
    let scanned = ours.iter().position(|word| word & SCANNED != 0);
    tally.scanned += u32::from(scanned.is_some());
    let certain = &ours[..scanned.unwrap_or(ours.len())];
    let common = certain.len().min(libgcc.len());
    if certain[..common]
        .iter()
        .map(|word| pc(*word))
        .ne(libgcc[..common].iter().map(|word| pc(*word)))
    {
        return Err("another frame");
    }
    // libgcc ends at a leaf without a description, as `_init` of a library whose first page is being read. Ours is sure of its caller
    // where the word on top of the stack follows a call that leads to the leaf.
    let undescribed_leaf = libgcc.len() == 1 && end == End::Root;
    if certain.len() > libgcc.len() && !undescribed_leaf {
        return Err("a frame that libgcc lacks, and that is not marked");
    }
    if certain.len() > libgcc.len() {
        tally.further += 1;
        return Ok(());
    }
    if scanned.is_none() && certain.len() < libgcc.len() {
        return Err("a frame less");
    }
    if scanned.is_none() && end != End::Root {
        return Err("the end was not recognised");
    }
    tally.same += u32::from(scanned.is_none());
    tally.further += u32::from(scanned.is_some() && ours.len() > libgcc.len());
    Ok(())
}

fn compare(name: &str, words: &[String], recorder: &Path, contexts: u32) -> Tally {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let preload = format!("LD_PRELOAD={}", recorder.display());
    let environment = [&preload, "OPENBLAS_NUM_THREADS=1", "PATH=/usr/bin:/bin"];
    let mut child = Child::start(&words, &environment);
    let mut cached = CfiEngine::new(cache(8192));
    let mut framehop = FramehopEngine::new(framehop_modules(&child));
    let mut tally = Tally::default();
    // Whatever moments these are, they are others in every run.
    let mut pause_us = 500;
    child.resume(libc::PTRACE_CONT, 0);
    while tally.contexts < contexts {
        pause_us = 200 + (pause_us * 7919 + u64::from(tally.contexts)) % 1301;
        std::thread::sleep(Duration::from_micros(pause_us));
        // SAFETY: signals the first thread of our own child.
        unsafe { libc::syscall(libc::SYS_tgkill, child.pid, child.pid, libc::SIGUSR1) };
        loop {
            match child.wait() {
                Some(libc::SIGUSR1) => break,
                Some(other) => child.resume(libc::PTRACE_CONT, other),
                None => panic!("{name}: the program ended"),
            }
        }
        if child.read_modules() {
            // A new mapping may take the place of an old one.
            cached = CfiEngine::new(cache(8192));
            framehop = FramehopEngine::new(framehop_modules(&child));
        }
        let registers = child.registers();
        let walk = |engine: &mut dyn FnMut(&mut FrameBuffer<'_>) -> End| {
            let mut words = vec![0; DEPTH];
            let mut frames = FrameBuffer::new(&mut words);
            let end = engine(&mut frames);
            (frames.words().to_vec(), end)
        };
        let ours = walk(&mut |out| cached.walk(&registers, &child, &child, out));
        let again =
            walk(&mut |out| CfiEngine::without_cache().walk(&registers, &child, &child, out));
        assert_eq!(ours, again, "{name}: with and without a cache");
        let theirs = walk(&mut |out| framehop.walk(&registers, &child, &child, out));

        // The handler has libgcc walk its stack, down to and through the signal frame.
        child.resume(libc::PTRACE_CONT, libc::SIGUSR1);
        assert_eq!(child.wait(), Some(libc::SIGTRAP), "{name}: in the handler");
        let told = child.registers();
        let frames = told.get(register::RAX).unwrap();
        let count = told.get(register::RDX).unwrap();
        let libgcc: Vec<u64> = (0..count)
            .map(|index| child.read_u64(frames + index * 8).unwrap())
            .collect();
        let interrupted = libgcc
            .iter()
            .position(|word| *word == registers.pc() | EXACT)
            .unwrap_or_else(|| panic!("{name}: the signal frame: {}", show(&libgcc)));
        let mut libgcc = &libgcc[interrupted..];
        while let [rest @ .., 0] = libgcc {
            libgcc = rest;
        }
        if let Err(what) = judge(&ours.0, ours.1, libgcc, &mut tally) {
            panic!(
                "{name}: {what}: {:?}\n  ours   {}\n  libgcc {}",
                ours.1,
                show(&ours.0),
                show(libgcc)
            );
        }
        let same = theirs.0.iter().map(|word| pc(*word));
        tally.framehop_same += u32::from(same.eq(libgcc.iter().map(|word| pc(*word))));
        child.resume(libc::PTRACE_CONT, 0);
    }
    tally
}

#[test]
fn contexts_of_real_programs_agree_with_libgcc() {
    const CONTEXTS: u32 = 150;
    let Some(recorder) = compile("recorder.c", "recorder.so", &["-shared", "-fPIC", "-O1"]) else {
        println!("skipped: no C compiler");
        return;
    };
    let mut all = Tally::default();
    for (name, words) in corpus() {
        let tally = compare(name, &words, &recorder, CONTEXTS);
        println!(
            "{name}: of {} contexts {} are as libgcc has them, {} with scanned frames ({} of these longer); framehop has {} as libgcc",
            tally.contexts, tally.same, tally.scanned, tally.further, tally.framehop_same
        );
        all.contexts += tally.contexts;
        all.same += tally.same;
    }
    assert!(all.contexts >= 3 * CONTEXTS);
    assert!(f64::from(all.same) > 0.9 * f64::from(all.contexts));
}
