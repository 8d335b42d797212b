//! A program that confines itself with seccomp, and what that means for the agent.
//!
//! A filter may punish with death what the program itself never does. Before it is installed, its verdict on
//! every system call that the agent makes ([`calls::MADE`]) is found by running it here. If all are allowed or merely fail, nothing
//! changes. Else the process is *confined*: what runs keeps running, nothing new is set up, and programs that it
//! executes are left alone. The calls that would be punished are refused by the functions that make them, wherever they are called
//! from. If even the return from a signal handler is forbidden, the clocks stop.

use crate::birth;
use crate::clock;
use crate::environment::Environment;
use crate::events;
use crate::guard;
use crate::process;
use crate::slots;
use crate::sys;
use crate::sys::calls::{self, When};

/// What a filter does to the agent.
#[derive(Debug, Clone, Copy)]
struct Effect {
    /// The calls of ours that it would punish, as bits by their places in [`calls::MADE`].
    punished: u64,
    /// Whether it would even punish the return from a signal handler.
    forbids_handlers: bool,
}

/// That of strict mode, which allows four calls.
const STRICT: Effect = Effect {
    punished: u64::MAX,
    forbids_handlers: false,
};

/// Lets the program install the filter at `program` (a `struct sock_fprog`), or, without one, go into strict mode.
///
/// `install` returns a negative number when it fails.
pub fn install(program: Option<u64>, install: impl FnOnce() -> i64) -> i64 {
    if !process::is_active() {
        return install();
    }
    let effect = program.map_or(STRICT, effect_of);
    if effect.punished == 0 && !effect.forbids_handlers {
        return install();
    }
    // What is not set up by now never will be.
    birth::be_born();
    events::prepare();
    let stops = effect.forbids_handlers && !process::is_confined();
    if stops {
        slots::for_each_active(clock::pause);
    }
    // Before the filter holds: afterwards it might be too late for a call of ours that is under way.
    let before = process::confine(true);
    if !before {
        // An earlier filter would punish it.
        slots::for_each_active(clock::steady);
    }
    let refused = calls::refused();
    calls::refuse(refused | effect.punished);
    let result = install();
    if result < 0 {
        calls::refuse(refused);
        process::confine(before);
        if stops {
            slots::for_each_active(clock::resume);
        }
    } else {
        Environment::current().end_session();
        if !sys::is_time_known() {
            process::fall_asleep();
        }
    }
    result
}

fn effect_of(program: u64) -> Effect {
    let settings = process::settings();
    let uses_perf = clock::wants_perf() || !settings.counters.as_slice().is_empty();
    let uses_gpus = settings.events.hip || settings.events.hsa || settings.events.gpu;
    let mut punished = 0;
    for (place, call) in calls::MADE.iter().enumerate() {
        let is_made = match call.when {
            When::Always | When::Library => true,
            When::Perf => uses_perf,
            When::Threads => uses_gpus,
        };
        let harmless = || {
            let verdict = verdict(program, i64::from(call.number));
            matches!(verdict, Some(ALLOW | LOG | ERRNO))
        };
        if is_made && !harmless() {
            punished |= 1 << place;
        }
    }
    let allows = |number| matches!(verdict(program, number), Some(ALLOW | LOG));
    // Handlers return, and may have to ask for the time.
    let forbids_handlers = !allows(libc::SYS_rt_sigreturn)
        || sys::uses_kernel_time() && !allows(libc::SYS_clock_gettime);
    Effect {
        punished,
        forbids_handlers,
    }
}

// SECCOMP_RET_*, from include/uapi/linux/seccomp.h, without the data in the lower half.
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERRNO: u32 = 0x0005_0000;
const ACTION: u32 = 0xffff_0000;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// A register of the filter's machine: `None` when it depends on what we do not know, the arguments.
type Value = Option<u32>;

/// What the filter says of a system call by its number alone; `None` when it looks at more than that.
///
/// The language is that of `seccomp_check_filter` in the kernel's kernel/seccomp.c: classic BPF over `struct
/// seccomp_data`, with forward jumps only.
fn verdict(program: u64, number: i64) -> Option<u32> {
    let count = (guard::read_u64(program)? & 0xffff) as usize;
    let code = guard::read_u64(program.wrapping_add(8))?;
    let mut machine = Machine::default();
    let mut at = 0;
    while at < count {
        let word = guard::read_u64(code.wrapping_add(8 * at as u64))?;
        at += 1;
        at += match machine.step(Instruction::new(word), number)? {
            Step::Skip(count) => count as usize,
            Step::Return(value) => return Some(value & ACTION),
        };
    }
    None
}

/// `struct sock_filter`.
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

impl Instruction {
    fn new(word: u64) -> Self {
        Instruction {
            code: word as u16,
            if_true: (word >> 16) as u8,
            if_false: (word >> 24) as u8,
            operand: (word >> 32) as u32,
        }
    }
}

enum Step {
    Skip(u32),
    Return(u32),
}

#[derive(Debug, Default)]
struct Machine {
    accumulator: Value,
    index: Value,
    memory: [Value; 16],
}

impl Machine {
    /// Carries out one instruction; `None` when its effect is not known.
    fn step(&mut self, instruction: Instruction, number: i64) -> Option<Step> {
        const DATA_BYTES: u32 = 64;
        let Instruction { code, operand, .. } = instruction;
        let cell = operand as usize % 16;
        // The class is in the low three bits; names in the comments are those of linux/filter.h.
        match code {
            // LD ABS: number, architecture, and then what we do not know.
            0x20 => {
                self.accumulator = match operand {
                    0 => Some(number as u32),
                    4 => Some(AUDIT_ARCH),
                    _ => None,
                }
            }
            0x00 => self.accumulator = Some(operand),
            0x80 => self.accumulator = Some(DATA_BYTES),
            0x60 => self.accumulator = self.memory[cell],
            0x01 => self.index = Some(operand),
            0x81 => self.index = Some(DATA_BYTES),
            0x61 => self.index = self.memory[cell],
            // ST, STX, TAX, TXA.
            0x02 => self.memory[cell] = self.accumulator,
            0x03 => self.memory[cell] = self.index,
            0x07 => self.index = self.accumulator,
            0x87 => self.accumulator = self.index,
            // RET K, RET A.
            0x06 => return Some(Step::Return(operand)),
            0x16 => return self.accumulator.map(Step::Return),
            // JA.
            0x05 => return Some(Step::Skip(operand)),
            _ => {
                let from_index = code & 0x08 != 0;
                let other = if from_index {
                    self.index
                } else {
                    Some(operand)
                };
                match code & 0x07 {
                    0x04 => self.accumulator = arithmetic(code & 0xf0, self.accumulator, other),
                    0x05 => return self.jump(instruction, other?),
                    _ => return None,
                }
            }
        }
        Some(Step::Skip(0))
    }

    fn jump(&self, instruction: Instruction, other: u32) -> Option<Step> {
        let accumulator = self.accumulator?;
        let holds = match instruction.code & 0xf0 {
            0x10 => accumulator == other,
            0x20 => accumulator > other,
            0x30 => accumulator >= other,
            0x40 => accumulator & other != 0,
            _ => return None,
        };
        let skipped = if holds {
            instruction.if_true
        } else {
            instruction.if_false
        };
        Some(Step::Skip(u32::from(skipped)))
    }
}

fn arithmetic(operation: u16, left: Value, right: Value) -> Value {
    if operation == 0x80 {
        return left.map(u32::wrapping_neg);
    }
    let (left, right) = (left?, right?);
    match operation {
        0x00 => Some(left.wrapping_add(right)),
        0x10 => Some(left.wrapping_sub(right)),
        0x20 => Some(left.wrapping_mul(right)),
        0x30 => left.checked_div(right),
        0x40 => Some(left | right),
        0x50 => Some(left & right),
        0x60 => left.checked_shl(right),
        0x70 => left.checked_shr(right),
        0xa0 => Some(left ^ right),
        _ => None,
    }
}

/// The program's request in `prctl(PR_SET_SECCOMP, mode, filter)`: the filter, or `None` for strict mode.
///
/// Returns `None` when the call confines nobody (some only ask whether it could).
pub fn request_of_prctl(mode: u64, filter: u64) -> Option<Option<u64>> {
    match mode {
        mode if mode == u64::from(libc::SECCOMP_MODE_STRICT) => Some(None),
        mode if mode == u64::from(libc::SECCOMP_MODE_FILTER) && filter != 0 => Some(Some(filter)),
        _ => None,
    }
}

/// The same for `syscall(SYS_seccomp, operation, flags, filter)`.
pub fn request_of_syscall(number: i64, operation: u64, filter: u64) -> Option<Option<u64>> {
    match operation {
        _ if number != libc::SYS_seccomp => None,
        operation if operation == u64::from(libc::SECCOMP_SET_MODE_STRICT) => Some(None),
        operation if operation == u64::from(libc::SECCOMP_SET_MODE_FILTER) && filter != 0 => {
            Some(Some(filter))
        }
        _ => None,
    }
}
