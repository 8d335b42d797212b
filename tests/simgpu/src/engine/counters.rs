//! Performance counters: the few packets of PM4 by which AMD's aqlprofile sets, starts and reads them on gfx9, and what they count.
//!
//! Registers and packets as libhsa-amd-aqlprofile64 7.2.4 writes them for gfx90a and gfx942; what else is in its commands (flushes, waits) takes no time
//! here and has no effect. Each process has counters of its own.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::context::Context;
use crate::clock::boottime_ns;
use crate::memory::Unmapped;
use crate::packet::Dispatch;
use crate::truth::CounterRecord;

/// Opcodes.
const PRED_EXEC: u32 = 0x23;
const COPY_DATA: u32 = 0x40;
const SET_UCONFIG_REG: u32 = 0x79;

/// Registers, as `SET_UCONFIG_REG` counts them.
const GRBM_GFX_INDEX: u32 = 0x200;
const CP_PERFMON_CNTL: u32 = 0x1808;
/// Its states; bits above say that values are sampled.
const STATE: u32 = 0xf;
const DISABLED: u32 = 0;
const STARTED: u32 = 1;
const STOPPED: u32 = 2;

/// All engines and instances.
const EVERYWHERE: u32 = 0xe000_0000;

/// More words are no commands of ours.
const MOST_WORDS: u32 = 1 << 16;

/// The counters of a block: where events are selected, and where values are read.
struct Block {
    name: &'static str,
    /// Where the events of its counters are selected.
    selections: &'static [u32],
    /// Where the lower halves of their values are, as `COPY_DATA` counts registers; the upper ones follow, or stand in front.
    values: &'static [u32],
    event_bits: u32,
}

const BLOCKS: [Block; 11] = [
    block("GRBM", &[0x1840, 0x1841], &[0xd040, 0xd043], 10),
    block(
        "GRBMSE",
        &[0x1842, 0x1843, 0x1844, 0x1845],
        &[0xd045, 0xd047, 0xd049, 0xd04b],
        10,
    ),
    block("CPF", &[0x1807, 0x1805], &[0xd00a, 0xd008], 10),
    block("CPC", &[0x1809, 0x1803], &[0xd006, 0xd004], 10),
    block(
        "SPI",
        &[0x1980, 0x1981, 0x1982, 0x1983, 0x1988, 0x1989],
        &[0xd181, 0xd183, 0xd185, 0xd187, 0xd189, 0xd18b],
        10,
    ),
    block(
        "SQ",
        &[
            0x19c0, 0x19c1, 0x19c2, 0x19c3, 0x19c4, 0x19c5, 0x19c6, 0x19c7,
        ],
        &[
            0xd1c0, 0xd1c2, 0xd1c4, 0xd1c6, 0xd1c8, 0xd1ca, 0xd1cc, 0xd1ce,
        ],
        9,
    ),
    block("TA", &[0x1ac0, 0x1ac2], &[0xd2c0, 0xd2c2], 10),
    block("TD", &[0x1b00, 0x1b02], &[0xd300, 0xd302], 10),
    block(
        "TCP",
        &[0x1b40, 0x1b42, 0x1b44, 0x1b45],
        &[0xd340, 0xd342, 0xd344, 0xd346],
        10,
    ),
    block(
        "TCC",
        &[0x1b80, 0x1b82, 0x1b84, 0x1b85],
        &[0xd380, 0xd382, 0xd384, 0xd386],
        10,
    ),
    block(
        "TCA",
        &[0x1b90, 0x1b92, 0x1b94, 0x1b95],
        &[0xd390, 0xd392, 0xd394, 0xd396],
        10,
    ),
];

const fn block(
    name: &'static str,
    selections: &'static [u32],
    values: &'static [u32],
    event_bits: u32,
) -> Block {
    Block {
        name,
        selections,
        values,
        event_bits,
    }
}

/// The counters of a GPU.
#[derive(Debug, Default)]
pub struct Counters {
    /// What `GRBM_GFX_INDEX` says: which engines and instances are meant.
    place: u32,
    /// What registers were set to, by register and place.
    set: HashMap<(u32, u32), u32>,
    started: Option<Work>,
    stopped: Option<Work>,
}

/// What a GPU has done so far.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    time_ns: u64,
    busy_ns: u64,
    waves: u64,
    kernels: u64,
}

/// Takes note of a kernel that has ended.
pub fn count(context: &Context, gpu: usize, dispatch: &Dispatch) {
    let simulation = context.process.simulation;
    let wave_size = u64::from(simulation.machine.gpus[gpu].wave_size);
    let group = dispatch.group_items().max(1);
    let waves = dispatch.items().div_ceil(group) * group.div_ceil(wave_size);
    let board = &simulation.board.gpus[gpu];
    board.kernels.fetch_add(1, Ordering::Relaxed);
    board.waves.fetch_add(waves, Ordering::Relaxed);
}

/// Executes commands: their address and how many words.
///
/// # Errors
/// When they, or the places that they write to, are not in memory.
pub fn execute(
    context: &mut Context,
    gpu: usize,
    (address, words): (u64, u32),
    tick: u64,
) -> Result<(), Unmapped> {
    if address == 0 || words == 0 || words > MOST_WORDS {
        return Ok(());
    }
    let start = context.view.pointer(address, u64::from(words) * 4)?;
    let commands: Vec<u32> = (0..words as usize)
        // SAFETY: so many words are in memory; no alignment is assumed.
        .map(|word| unsafe { start.cast::<u32>().add(word).read_unaligned() })
        .collect();
    let work = Work::now(context, gpu);
    let mut at = 0;
    // Of which die the commands are, up to where.
    let mut die = (0, 0);
    while let Some((command, body)) = packet(&commands[at..]) {
        match (command, body) {
            (PRED_EXEC, [mask_and_count, ..]) => {
                let mask = mask_and_count >> 24;
                let end = at + 1 + body.len() + (mask_and_count & 0x3fff) as usize;
                die = (mask.trailing_zeros(), end);
            }
            (SET_UCONFIG_REG, [register, values @ ..]) => {
                let counters = &mut context.counters[gpu];
                for (register, value) in (*register..).zip(values) {
                    counters.set(register, *value, work);
                }
            }
            (COPY_DATA, [_, register, _, low, high]) => {
                let to = u64::from(*low) | u64::from(*high) << 32;
                let die = if at < die.1 { die.0 } else { 0 };
                read(context, gpu, (*register, die, to), work, tick)?;
            }
            _ => {}
        }
        at += 1 + body.len();
    }
    Ok(())
}

/// The opcode and the body of the first packet.
fn packet(words: &[u32]) -> Option<(u32, &[u32])> {
    let (header, rest) = words.split_first()?;
    let length = (header >> 16 & 0x3fff) as usize + 1;
    let is_type_3 = header >> 30 == 3;
    is_type_3.then_some((header >> 8 & 0xff, rest.get(..length)?))
}

/// Copies a register's value to memory, if it is half of a counter.
fn read(
    context: &mut Context,
    gpu: usize,
    (register, die, to): (u32, u32, u64),
    work: Work,
    tick: u64,
) -> Result<(), Unmapped> {
    let counters = &context.counters[gpu];
    let half = BLOCKS.iter().find_map(|block| {
        let mut values = block.values.iter().zip(block.selections);
        // Of SPI's counters the upper half stands in front.
        let other = if block.name == "SPI" { -1 } else { 1 };
        values.find_map(|(&low, &selection)| match register {
            register if register == low => Some((block, selection, false)),
            register if Some(register) == low.checked_add_signed(other) => {
                Some((block, selection, true))
            }
            _ => None,
        })
    });
    let Some((block, selection, is_upper)) = half else {
        return write(context, to, 0);
    };
    let place = counters.place;
    let event = counters.selected(selection, place) & ((1 << block.event_bits) - 1);
    let value = match counters.started {
        Some(started) => {
            let until = counters.stopped.unwrap_or(work);
            let value = |work| counted(context, gpu, (block.name, event), (die, place), work);
            value(until).saturating_sub(value(started))
        }
        None => 0,
    };
    if is_upper {
        return write(context, to, (value >> 32) as u32);
    }
    context.truth.counter(&CounterRecord {
        gpu,
        block: block.name,
        event,
        die,
        place,
        value,
        tick,
    });
    write(context, to, value as u32)
}

/// What a counter would have counted from the beginning of all work until now.
fn counted(
    context: &Context,
    gpu: usize,
    (block, event): (&str, u32),
    (die, place): (u32, u32),
    work: Work,
) -> u64 {
    let machine = &context.process.simulation.machine;
    let settings = &machine.gpus[gpu];
    let ticks = |ns: u64| (u128::from(ns) * u128::from(settings.clock_mhz) / 1000) as u64;
    let rule = machine
        .counters
        .iter()
        .find(|rule| rule.block == block && rule.event == event);
    match (rule, block, event) {
        (Some(rule), ..) => {
            let seconds = work.time_ns as f64 * 1e-9;
            let of_waves = rule.per_wave * work.waves as f64;
            let of_kernels = rule.per_kernel * work.kernels as f64;
            (rule.per_second * seconds + of_waves + of_kernels) as u64
        }
        (None, "GRBM", 0) => ticks(work.time_ns),
        (None, "GRBM", 2) => ticks(work.busy_ns),
        (None, "SQ", 4) => {
            // Waves go to one engine after the other.
            let (engines, dies) = (settings.shader_engines.max(1), settings.dies.max(1));
            let engine = die * (engines / dies) + (place >> 16 & 0xff);
            let before = u64::from(engines - 1 - engine.min(engines - 1));
            (work.waves + before) / u64::from(engines)
        }
        _ => 0,
    }
}

fn write(context: &mut Context, to: u64, value: u32) -> Result<(), Unmapped> {
    let place = context.view.pointer(to, 4)?;
    // SAFETY: four bytes are in memory there; no alignment is assumed.
    unsafe { place.cast::<u32>().write_unaligned(value) };
    Ok(())
}

impl Counters {
    fn set(&mut self, register: u32, value: u32, work: Work) {
        match (register, value & STATE) {
            (GRBM_GFX_INDEX, _) => self.place = value,
            (CP_PERFMON_CNTL, DISABLED) => (self.started, self.stopped) = (None, None),
            (CP_PERFMON_CNTL, STARTED) => {
                self.started.get_or_insert(work);
                self.stopped = None;
            }
            (CP_PERFMON_CNTL, STOPPED) => self.stopped = Some(work),
            _ => {
                if self.place == EVERYWHERE {
                    self.set.retain(|(known, _), _| *known != register);
                }
                self.set.insert((register, self.place), value);
            }
        }
    }

    /// What a register was set to for a place, or for all.
    fn selected(&self, register: u32, place: u32) -> u32 {
        let of = |place| self.set.get(&(register, place));
        of(place).or_else(|| of(EVERYWHERE)).copied().unwrap_or(0)
    }
}

impl Work {
    fn now(context: &Context, gpu: usize) -> Self {
        let board = &context.process.simulation.board.gpus[gpu];
        let time_ns = boottime_ns();
        // Work counts when it is accepted; what is left of it has not happened yet.
        let until_ns = board.busy_until_ns.load(Ordering::Relaxed);
        let left_ns = until_ns.saturating_sub(time_ns);
        let busy_ns = board.busy_ns.load(Ordering::Relaxed);
        Self {
            time_ns,
            busy_ns: busy_ns.saturating_sub(left_ns),
            waves: board.waves.load(Ordering::Relaxed),
            kernels: board.kernels.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_follow_each_other() {
        let words = [0xc000_4600, 0x407, 0xc001_7900, 0x200, EVERYWHERE, 0];
        let (first, body) = packet(&words).unwrap();
        assert_eq!((first, body), (0x46, &[0x407][..]));
        let (second, body) = packet(&words[2..]).unwrap();
        assert_eq!((second, body), (SET_UCONFIG_REG, &[0x200, EVERYWHERE][..]));
        assert_eq!(packet(&words[5..]), None);
        // One that is longer than all that is left.
        assert_eq!(packet(&[0xc010_7900, 1]), None);
    }

    #[test]
    fn what_is_set_everywhere_counts_where_nothing_else_was_set() {
        let mut counters = Counters::default();
        let work = Work::default();
        for (place, value) in [(EVERYWHERE, 1), (0xa000_0005, 2)] {
            counters.set(GRBM_GFX_INDEX, place, work);
            counters.set(0x1b80, value, work);
        }
        assert_eq!(counters.selected(0x1b80, 0xa000_0005), 2);
        assert_eq!(counters.selected(0x1b80, 0xa000_0004), 1);
        counters.set(GRBM_GFX_INDEX, EVERYWHERE, work);
        counters.set(0x1b80, 3, work);
        assert_eq!(counters.selected(0x1b80, 0xa000_0005), 3);
    }

    #[test]
    fn counters_run_from_their_start_to_their_stop() {
        let mut counters = Counters::default();
        let work = |kernels| Work {
            kernels,
            ..Work::default()
        };
        counters.set(CP_PERFMON_CNTL, 1, work(3));
        counters.set(CP_PERFMON_CNTL, 0x401, work(4));
        assert_eq!(counters.started.unwrap().kernels, 3);
        counters.set(CP_PERFMON_CNTL, 2, work(9));
        assert_eq!(counters.stopped.unwrap().kernels, 9);
        counters.set(CP_PERFMON_CNTL, 0, work(10));
        assert!(counters.started.is_none() && counters.stopped.is_none());
    }
}
