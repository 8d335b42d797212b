//! The clocks that interrupt a thread.
//!
//! * The **timer**: a POSIX timer on the thread's CPU clock. It follows the thread wherever it runs,
//!   needs no descriptor and interrupts no system call, but the kernel looks at it only once per
//!   tick. The expirations in between come as overruns, so the weights are right at any frequency.
//! * **perf** `cpu-clock`, with a signal to the thread ([`perf`]): as fine as asked for. It counts
//!   user mode only (a signal raised in kernel mode could make a system call return `EINTR`), and
//!   signals that coincide are merged. Therefore the timer runs beside it as the accountant: what
//!   perf did not deliver since the last tick is the weight of the timer's sample.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::counting::Overflow;
use rsys_wire::handshake::ClockChoice;
use rsys_wire::layout::Counter;
use rsys_wire::record::Clock;

use crate::perf;
use crate::process;
use crate::slots::{self, Slot};
use crate::sys;

/// perf is used when a period is shorter than this fraction of the tick.
const PERF_BELOW: f64 = 1.0 / 1.5;

/// The period of the samples in nanoseconds.
pub fn period_ns() -> u64 {
    (1e9 / process::settings().frequency_hz) as u64
}

/// Whether threads shall have perf beside the timer.
pub fn wants_perf() -> bool {
    if process::settings().overflow.is_some() {
        return true;
    }
    match process::settings().clock {
        ClockChoice::Timer => false,
        ClockChoice::Perf => true,
        ClockChoice::Auto => (period_ns() as f64) < sys::tick_ns() as f64 * PERF_BELOW,
    }
}

/// Makes the thread's clocks without starting them; returns which it has.
pub fn prepare(slot: &mut Slot) -> Clock {
    if let Some(overflow) = process::settings().overflow {
        return prepare_overflow(slot, &overflow);
    }
    let clock = prepare_timer(slot);
    prepare_perf(slot, clock)
}

/// Makes what the thread wants beside its timer; returns which clocks it has.
pub fn prepare_perf(slot: &mut Slot, clock: Clock) -> Clock {
    if !wants_perf() {
        return clock;
    }
    let value = (&raw const *slot).addr() as u64;
    match perf::open(slot.tid, &perf::Clock::of_time(period_ns()), value) {
        Ok(fd) => {
            slot.perf = fd;
            // perf's period ends after the timer's, and by less than one: a tick between them is not to count what perf will deliver.
            slot.perf_balance = slot.perf_balance.saturating_add(1);
            Clock::PerfAndTimer
        }
        Err(error) => {
            slots::count(Counter::ThreadsWithoutPerf, 1);
            slots::set_counter(Counter::LastError, error as u64);
            clock
        }
    }
}

/// Makes a clock of an event: there is no CPU time to account for, and so no timer.
fn prepare_overflow(slot: &mut Slot, overflow: &Overflow) -> Clock {
    let value = (&raw const *slot).addr() as u64;
    let clock = perf::Clock {
        event: overflow.event,
        period: overflow.period,
    };
    match perf::open(slot.tid, &clock, value) {
        Ok(fd) => {
            slot.perf = fd;
            Clock::Overflow
        }
        Err(error) => {
            slots::count(Counter::ThreadsWithoutPerf, 1);
            slots::set_counter(Counter::LastError, error as u64);
            Clock::None
        }
    }
}

/// Makes the thread's timer alone.
pub fn prepare_timer(slot: &mut Slot) -> Clock {
    if let Some(overflow) = process::settings().overflow {
        return prepare_overflow(slot, &overflow);
    }
    let value = (&raw const *slot).addr() as u64;
    match sys::timer_create(slot.tid, SAMPLE_SIGNAL, value) {
        Ok(timer) => {
            slot.timer = timer;
            Clock::Timer
        }
        Err(error) => {
            slots::count(Counter::ThreadsWithoutTimer, 1);
            slots::set_counter(Counter::LastError, error as u64);
            Clock::None
        }
    }
}

/// Starts the thread's clocks. The first expiry is anywhere in the first period, so that threads do
/// not go in lock-step and short threads are neither favoured nor missed on average.
pub fn start(slot: &mut Slot, now_ns: u64) {
    let period = period_ns();
    if slot.timer >= 0 {
        let phase = phase_ns(slot.tid, now_ns);
        slot.first_expiry_ns = slot.cpu_base_ns + phase;
        sys::timer_arm(slot.timer, phase, period);
    }
    if slot.perf >= 0 {
        perf::start(slot.perf);
    }
}

/// Has perf's samples wander through the period, to its one end and back: a program that goes round in time with them would otherwise be
/// found in the same few places for ever. To be called once for each sample; every thirteenth time or so it makes two system calls.
///
/// The timer stands where it is. perf stays behind it, and by less than a period, as [`prepare_perf`] has it: so all is counted once.
#[inline]
pub fn vary(slot: &mut Slot) {
    if slot.wander.left > 1 {
        slot.wander.left -= 1;
    } else {
        turn(slot);
    }
}

#[cold]
fn turn(slot: &mut Slot) {
    /// Until it is looked again whether system calls are permitted.
    const LATER: u32 = 1000;
    // A clock of an event has no timer beside it.
    if slot.timer < 0 || process::is_confined() {
        slot.wander.left = LATER;
        return;
    }
    let cpu_ns = sys::thread_cpu_ns();
    let behind_ns = cpu_ns.saturating_sub(slot.first_expiry_ns);
    let length = slot.wander.turn(behind_ns, period_ns(), cpu_ns);
    if !perf::set_period(slot.perf, length) {
        // A filter forbids it: the period would stay a little wrong. The timer alone is right.
        perf::close(slot.perf);
        slot.perf = -1;
    }
}

/// Ends the wandering of [`vary`]: no system call may follow that would change the period again.
pub fn steady(slot: &Slot) {
    if slot.perf >= 0 && slot.timer >= 0 {
        perf::set_period(slot.perf, period_ns());
    }
}

/// Periods that ended since the thread's last sample, when its CPU time is `cpu_ns`.
///
/// The kernel looks at a CPU timer at its ticks only; what expired after the last tick of a thread
/// never becomes a signal. Over many short threads that would be much. What is more than some ticks
/// has another cause, such as a signal that somebody else takes: that is not for the last stack to bear.
pub fn unsampled_periods(slot: &Slot, cpu_ns: u64) -> u64 {
    if slot.timer < 0 {
        return 0;
    }
    const TICKS: u64 = 4;
    let expired = periods_between(slot.first_expiry_ns, cpu_ns);
    let most = 1 + TICKS * sys::tick_ns() / period_ns().max(1);
    expired.saturating_sub(slot.accounted_weight).min(most)
}

/// How often a timer has expired at a thread's CPU time `cpu_ns`, if it expired first at `first_ns`.
pub fn periods_between(first_ns: u64, cpu_ns: u64) -> u64 {
    cpu_ns
        .checked_sub(first_ns)
        .map_or(0, |after| 1 + after / period_ns().max(1))
}

/// CPU time of the calling thread, which ends. Of one that was there for less time than its timer needs to expire once, that time
/// instead, which is no less and costs no system call.
pub fn cpu_ns_at_end(slot: &Slot, now_ns: u64) -> u64 {
    let there_ns = now_ns.saturating_sub(slot.not_before_ns);
    if slot.timer >= 0 && there_ns < slot.first_expiry_ns {
        return there_ns;
    }
    sys::thread_cpu_ns()
}

/// Silences a thread's clocks for the time being; any thread may do that.
pub fn pause(slot: &Slot) {
    if slot.timer >= 0 {
        sys::timer_arm(slot.timer, 0, 0);
    }
    if slot.perf >= 0 {
        perf::stop(slot.perf);
    }
}

/// Keeps perf from interrupting a sample of the calling thread, where there is no room for the signal's frame. False when that may not be.
///
/// # Signal safety
/// A system call where samples come as SIGTRAP, which nothing blocks; else none.
#[inline]
pub fn hold(slot: &Slot) -> bool {
    slot.perf < 0 || !perf::uses_traps() || stop_perf(slot.perf)
}

/// Ends what [`hold`] began.
///
/// # Signal safety
/// As [`hold`].
#[inline]
pub fn let_go(slot: &Slot) {
    if slot.perf >= 0 && perf::uses_traps() {
        start_perf(slot.perf);
    }
}

/// Leaves a thread to its timer alone whose stack for signals bears no second one: its samples have the resolution of the kernel's tick
/// from now on, and their weights are right.
///
/// # Signal safety
/// Two system calls, once in a thread.
#[inline]
pub fn without_traps(slot: &mut Slot) {
    if slot.perf >= 0 && slot.timer >= 0 && perf::uses_traps() {
        stop_perf(slot.perf);
        close_perf(slot.perf);
        slot.perf = -1;
    }
}

#[inline(never)]
fn close_perf(fd: c_int) {
    perf::close(fd);
}

#[inline(never)]
fn stop_perf(fd: c_int) -> bool {
    perf::stop(fd)
}

#[inline(never)]
fn start_perf(fd: c_int) {
    perf::start(fd);
}

/// Lets the calling thread's clocks go on, which were paused for a time that is not to be sampled.
pub fn go_on(slot: &mut Slot) {
    slot.first_expiry_ns = sys::thread_cpu_ns().saturating_add(period_ns());
    slot.accounted_weight = 0;
    resume(slot);
}

/// Lets paused clocks go on.
pub fn resume(slot: &Slot) {
    if slot.timer >= 0 {
        sys::timer_arm(slot.timer, period_ns(), period_ns());
    }
    if slot.perf >= 0 {
        perf::start(slot.perf);
    }
}

/// Stops and removes the thread's clocks.
pub fn stop(slot: &mut Slot) {
    if slot.timer >= 0 {
        sys::timer_delete(slot.timer);
        slot.timer = -1;
    }
    if slot.perf >= 0 {
        perf::stop(slot.perf);
        perf::close(slot.perf);
        slot.perf = -1;
    }
}

/// CPU time until a thread's timer expires first: anywhere in the first period.
pub fn phase_ns(tid: u32, now_ns: u64) -> u64 {
    let mut mixed = now_ns ^ u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 32) % period_ns().max(1)
}
