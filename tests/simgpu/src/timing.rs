//! How long kernels and copies take, and which kernels go wrong.

use crate::formula::{self, Variables};
use crate::kernels::Kernel;
use crate::memory::View;
use crate::packet::Dispatch;
use crate::settings::{KernelFault, KernelTime, Machine};

/// A kernel that no rule is about.
const DEFAULT_NS: u64 = 10_000;
/// The runtimes' own copy and fill kernels at least.
const SHORTEST_MOVE_NS: u64 = 1_000;

/// Which kernel of which queue.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number.
    pub queue: u32,
    /// How many kernels the queue started before.
    pub index: u64,
}

/// How long a kernel takes in nanoseconds, and what goes wrong with it.
pub fn of_kernel(
    machine: &Machine,
    view: &mut View,
    kernel: &Kernel,
    dispatch: &Dispatch,
    work: Work,
) -> (u64, Option<KernelFault>) {
    let items = dispatch.items();
    let rules = || {
        let rules = kernel.rules.iter().map(|index| &machine.kernels[*index]);
        rules.filter(|rule| items >= rule.min_grid)
    };
    let fault = rules()
        .filter(|rule| (work.index + 1).is_multiple_of(rule.fault_every.max(1)))
        .find_map(|rule| rule.fault);
    let time = rules().find_map(|rule| rule.time.as_ref());
    let time_ns = match (time, kernel.extent(view, dispatch)) {
        (Some(time), _) => {
            let gpu = &machine.gpus[work.gpu];
            let slower = f64::from(gpu.clock_mhz) / f64::from(gpu.load_clock_mhz.max(1));
            (of_rule(machine, time, dispatch, work) as f64 * slower) as u64
        }
        (None, Some(extent)) => of_copy(machine, view, extent, true).max(SHORTEST_MOVE_NS),
        (None, None) => DEFAULT_NS,
    };
    (time_ns, fault)
}

fn of_rule(machine: &Machine, time: &KernelTime, dispatch: &Dispatch, work: Work) -> u64 {
    let items = dispatch.items() as f64;
    let nanoseconds = match time {
        KernelTime::Fixed { nanoseconds } => *nanoseconds,
        KernelTime::PerItem {
            base_nanoseconds,
            nanoseconds,
        } => items.mul_add(*nanoseconds, *base_nanoseconds),
        KernelTime::Random {
            low_nanoseconds,
            high_nanoseconds,
            seed,
        } => {
            let share = random(seed ^ u64::from(work.queue) << 48 ^ work.index);
            (high_nanoseconds - low_nanoseconds).mul_add(share, *low_nanoseconds)
        }
        KernelTime::Formula(text) => {
            let workgroup = dispatch.group_items() as f64;
            let variables = Variables {
                grid: items,
                groups: (items / workgroup.max(1.0)).ceil(),
                workgroup,
                cus: machine.gpus[work.gpu].compute_units.into(),
                index: work.index as f64,
            };
            // The launcher has checked it.
            formula::evaluate(text, &variables).unwrap_or(DEFAULT_NS as f64)
        }
    };
    nanoseconds.max(0.0) as u64
}

/// How long a copy takes in nanoseconds: source, target and bytes. Latency counts once for several parts.
pub fn of_copy(
    machine: &Machine,
    view: &mut View,
    (from, to, bytes): (u64, u64, u64),
    with_latency: bool,
) -> u64 {
    let mut side = |address| view.find(address).and_then(|place| place.gpu);
    let (from, to) = (side(from), side(to));
    let copies = &machine.copies;
    let link = copies
        .links
        .iter()
        .find(|link| (link.from, link.to) == (from, to));
    let (gb_per_s, latency_ns) = match link {
        Some(link) => (link.gb_per_s, link.latency_ns),
        None => (
            match (from, to) {
                (Some(from), Some(to)) if from == to => copies.local_gb_per_s,
                (Some(_), Some(_)) => copies.peer_gb_per_s,
                _ => copies.host_gb_per_s,
            },
            copies.latency_ns,
        ),
    };
    (bytes as f64 / gb_per_s) as u64 + if with_latency { latency_ns } else { 0 }
}

/// An even distribution over 0..1 (splitmix64).
fn random(seed: u64) -> f64 {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((state ^ state >> 31) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_even_and_repeat() {
        let numbers: Vec<f64> = (0..10_000).map(random).collect();
        let mean = numbers.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert_eq!(random(7).to_bits(), random(7).to_bits());
    }
}
