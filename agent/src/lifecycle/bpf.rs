//! A seccomp filter, run for what it says of a system call whose arguments are not known.
//!
//! Nothing here knows the agent: the fuzz target `agent/fuzz` includes this file.

// SECCOMP_RET_*, from include/uapi/linux/seccomp.h, without the data in the lower half.
/// The call is made.
pub const ALLOW: u32 = 0x7fff_0000;
/// The call is made and logged.
pub const LOG: u32 = 0x7ffc_0000;
/// The call fails.
pub const ERRNO: u32 = 0x0005_0000;
const ACTION: u32 = 0xffff_0000;

pub const AUDIT_ARCH: u32 = 0xc000_003e;

/// A register of the filter's machine: `None` when it depends on what we do not know, the arguments.
type Value = Option<u32>;

/// What the filter of `count` instructions says of a system call by its number alone; `None` when it looks at more than that, or is
/// none. `instruction` is the word of an instruction by its place.
///
/// The language is that of `seccomp_check_filter` in the kernel's kernel/seccomp.c: classic BPF over `struct
/// seccomp_data`, with forward jumps only.
pub fn verdict(
    count: usize,
    instruction: impl Fn(usize) -> Option<u64>,
    number: i64,
) -> Option<u32> {
    let mut machine = Machine::default();
    let mut at = 0;
    while at < count {
        let word = instruction(at)?;
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

#[cfg(test)]
#[path = "bpf_tests.rs"]
mod tests;
