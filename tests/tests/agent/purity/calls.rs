//! The agent's table of system calls (`agent/src/sys/calls.rs`), against its machine code: what a seccomp filter is judged by must be
//! what is called.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use rsys_tests::{TestResult, missing_tool, skip_if_missing};

use super::{Agent, agents, run};

/// The values of `When` for calls that the C library makes.
const BY_THE_C_LIBRARY: u32 = 3;

/// What functions of the C library that the agent calls ask of the kernel, if anything: read in glibc 2.36.
const LIBRARY: [(&[&str], &[i64]); 9] = [
    (
        &["malloc", "calloc", "realloc", "posix_memalign", "free"],
        &[
            libc::SYS_brk,
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_mprotect,
            libc::SYS_mremap,
            libc::SYS_madvise,
            libc::SYS_futex,
            libc::SYS_getrandom,
        ],
    ),
    // Their locks; a library that is loaded is found by its name, or by its inode.
    (
        &["dlopen", "dlsym", "dlvsym", "dlerror", "dl_iterate_phdr"],
        &[
            libc::SYS_futex,
            libc::SYS_openat,
            libc::SYS_read,
            libc::SYS_newfstatat,
            libc::SYS_close,
        ],
    ),
    (
        &["open", "read", "close"],
        &[libc::SYS_openat, libc::SYS_read, libc::SYS_close],
    ),
    // Where the processor's counter is no clock for the kernel.
    (&["clock_gettime"], &[libc::SYS_clock_gettime]),
    (
        &[
            "pthread_detach",
            "pthread_setspecific",
            "atexit",
            "__cxa_atexit",
            "__cxa_finalize",
            "__register_atfork",
        ],
        &[libc::SYS_futex],
    ),
    (
        &[
            "pthread_attr_init",
            "pthread_attr_destroy",
            "pthread_attr_setdetachstate",
            "pthread_attr_setstacksize",
            "pthread_key_create",
            "pthread_getspecific",
            "pthread_self",
        ],
        &[],
    ),
    (
        &[
            "memcpy",
            "memmove",
            "memset",
            "memcmp",
            "bcmp",
            "strlen",
            "__errno_location",
            "getauxval",
            "getenv",
        ],
        &[],
    ),
    // Where the program ends anyway.
    (&["abort"], &[]),
    // Threads of ours, which `pthread_create` makes through a pointer.
    (
        &[],
        &[
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_exit,
            libc::SYS_rseq,
            libc::SYS_set_robust_list,
        ],
    ),
];

/// The table in the library: numbers of calls, and when they are made.
fn table(agent: &Agent) -> anyhow::Result<BTreeMap<i64, u32>> {
    let mut words = Vec::new();
    for line in run(agent, "objdump", &["-s", "-j", "rsys_calls"]).lines() {
        // ` 1bc40 e5000000 00000000 e4000000 00000000  ................`
        let Some((hexadecimal, _)) = line.trim_start().split_once("  ") else {
            continue;
        };
        let mut columns = hexadecimal.split(' ');
        if columns
            .next()
            .is_none_or(|address| u64::from_str_radix(address, 16).is_err())
        {
            continue;
        }
        for column in columns {
            words.push(
                u32::from_str_radix(column, 16)
                    .context("no word")?
                    .swap_bytes(),
            );
        }
    }
    Ok(words
        .chunks_exact(2)
        .map(|row| (i64::from(row[0]), row[1] & 0xff))
        .collect())
}

/// The numbers that stand in front of the instructions that enter the kernel.
fn numbers_in_code(agent: &Agent) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    let (mut before, mut function) = (String::new(), String::new());
    for line in run(agent, "objdump", &["-d", "-C", "--no-show-raw-insn"]).lines() {
        if line.ends_with(">:") {
            line.clone_into(&mut function);
        }
        let instruction = line.rsplit('\t').next().unwrap_or_default().trim();
        if ["syscall", "int    $0x80", "sysenter"].contains(&instruction) {
            let number = before
                .strip_prefix("mov    $0x")
                .and_then(|rest| rest.strip_suffix(",%eax"))
                .and_then(|digits| i64::from_str_radix(digits, 16).ok());
            found.insert(number.unwrap_or_else(|| {
                panic!("in {function} a system call without a number in front of it: {before}")
            }));
        }
        instruction.clone_into(&mut before);
    }
    found
}

#[test]
fn every_system_call_is_in_the_table() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let ours: BTreeSet<i64> = table(agent)?
            .into_iter()
            .filter(|(_, when)| *when < BY_THE_C_LIBRARY)
            .map(|(number, _)| number)
            .collect();
        assert!(ours.contains(&libc::SYS_timer_create), "no table: {ours:?}");
        assert_eq!(numbers_in_code(agent), ours);
    }
    Ok(())
}

#[test]
fn the_c_librarys_system_calls_are_in_the_table() -> TestResult {
    skip_if_missing!(missing_tool("objdump").or_else(|| missing_tool("nm")));
    for agent in agents() {
        let code = agent.code();
        let imported: BTreeSet<String> = run(agent, "nm", &["-D", "--undefined-only"])
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .map(|name| name.split('@').next().unwrap_or(name).to_owned())
            .collect();
        let known = |name: &str| LIBRARY.iter().any(|(names, _)| names.contains(&name));
        // What prints panics is never reached: a panic aborts.
        let ours = [
            "rsys_agent",
            "rsys_unwind::",
            "rsys_python::",
            "rsys_wire::",
        ];
        let mut unknown = BTreeSet::new();
        let mut seen = 0;
        for (caller, callees) in &code.calls {
            let is_hook = !caller.contains("::") && !caller.contains('@');
            if !is_hook && !ours.iter().any(|name| caller.contains(name)) {
                continue;
            }
            for callee in callees {
                let name = callee.split('@').next().unwrap_or(callee);
                if imported.contains(name) {
                    seen += 1;
                    if !known(name) {
                        unknown.insert(format!("{name} by {caller}"));
                    }
                }
            }
        }
        assert!(seen > 20, "only {seen} calls of the C library are in sight");
        assert!(
            unknown.is_empty(),
            "what do these ask of the kernel? {unknown:#?}"
        );
        let table = table(agent)?;
        for (names, numbers) in LIBRARY {
            for number in numbers {
                assert!(
                    table.contains_key(number),
                    "{number} of {names:?} is not in the table"
                );
            }
        }
    }
    Ok(())
}
