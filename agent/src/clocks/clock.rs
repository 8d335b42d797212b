//! The clocks that interrupt a thread.
//!
//! * The **timer**: a POSIX timer on the thread's CPU clock. It follows the thread wherever it runs,
//!   needs no descriptor and interrupts no system call (but a wait for io_uring, within which the kernel
//!   does what waits for the return to the program), but the kernel looks at it only once per
//!   tick. The expirations in between come as overruns, so the weights are right at any frequency.
//! * **perf** `cpu-clock`, with a signal to the thread ([`perf`]): as fine as asked for. It counts
//!   user mode only (a signal raised in kernel mode could make a system call return `EINTR`), and
//!   signals that coincide are merged. Therefore the timer runs beside it as the accountant: what
//!   perf did not deliver, mostly time in the kernel, is the weight of the timer's samples at ticks that came there ([`Missing`]).

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::counting::Overflow;
use rsys_wire::handshake::ClockChoice;
use rsys_wire::layout::Counter;
use rsys_wire::record::Clock;

use crate::channel::counters;
use crate::clocks::dither::Dither;
use crate::clocks::missing::Missing;
use crate::clocks::perf;
use crate::state;
use crate::sys;

/// The period of the samples in nanoseconds.
pub fn period_ns() -> u64 {
    (1e9 / state::settings().frequency_hz) as u64
}

/// Whether threads shall have perf beside the timer.
pub fn wants_perf() -> bool {
    if state::settings().overflow.is_some() {
        return true;
    }
    match state::settings().clock {
        ClockChoice::Timer => false,
        ClockChoice::Perf => true,
        // Below the tick, the timer's samples say more of the kernel's time than perf's would.
        ClockChoice::Auto => {
            is_above_the_tick() && (!FEW_PERF.load(Ordering::Relaxed) || is_far_above_the_tick())
        }
    }
}

/// Whether perf may be a clock here, alone or beside the timer.
pub fn may_use_perf() -> bool {
    wants_perf() || avoids_timers()
}

/// Whether only few signals may be pending. The kernel counts each timer as one.
pub fn are_signals_few() -> bool {
    /// Programs with more threads than that, and timers, have a limit for them.
    const FEW: u64 = 256;
    sys::pending_signals_limit() < FEW
}

/// Whether timers are left to the program where perf can do without.
pub fn avoids_timers() -> bool {
    state::settings().clock != ClockChoice::Timer && are_signals_few()
}

/// Whether a sample is due at each of the kernel's ticks.
fn is_above_the_tick() -> bool {
    period_ns() <= sys::tick_ns()
}

/// Whether more than 1.5 samples are due at each tick.
fn is_far_above_the_tick() -> bool {
    period_ns().saturating_mul(3) < sys::tick_ns().saturating_mul(2)
}

/// Timer samples of a thread before perf is opened for it, at rates of up to 1.5 samples per tick. A timer expires at ticks: programs that go in step with
/// them are always met at the same places.
const SAMPLES_BEFORE_PERF: u8 = 3;

/// Timer samples without one of perf's after which its descriptor is checked: a program that becomes a daemon closes all that it does not know.
const SILENT: u8 = 16;

/// Processes of a build or a script, most of which live for less than a sample: perf's clock costs each of them more than that.
static FEW_PERF: AtomicBool = AtomicBool::new(false);

/// This is a process of a build or a script, as far as that is known.
pub fn is_one_of_many() {
    FEW_PERF.store(true, Ordering::Relaxed);
}

/// The clocks of one thread, and what they have accounted for.
#[derive(Debug, Default)]
pub struct ThreadClock {
    /// The kernel's id of the thread.
    pub tid: u32,
    /// What the clocks' signals carry.
    value: u64,
    /// The kernel's id of the timer, if there is one.
    timer: Option<i32>,
    /// perf's descriptor, if there is one.
    perf: Option<c_int>,
    /// What perf and the timer have counted.
    missing: Missing,
    /// CPU time in user mode at the timer's last signal, and the kernel's tick, where perf is beside it and has more periods than the
    /// kernel has ticks.
    user_ns: u64,
    tick_ns: Option<u64>,
    dither: Dither,
    /// Samples of the timer until perf begins beside it, if it is still to.
    samples_to_perf: u8,
    /// Samples of the timer since perf's last one.
    silent: u8,
    /// Periods that the samples so far stand for, recorded or dropped.
    accounted_weight: u64,
    /// CPU time that the thread had used when its recording began.
    pub cpu_base_ns: u64,
    /// CPU time of the thread at which the timer expires first.
    first_expiry_ns: u64,
    /// When the thread was not there yet (CLOCK_BOOTTIME); 0 when that is not known.
    pub not_before_ns: u64,
}

impl ThreadClock {
    /// No clock yet. `value` is what the signals will carry.
    pub fn new(value: u64) -> Self {
        ThreadClock {
            value,
            ..ThreadClock::default()
        }
    }

    /// Makes the thread's clocks without starting them; returns which it has.
    pub fn prepare(&mut self) -> Clock {
        if let Some(overflow) = state::settings().overflow {
            return self.prepare_overflow(&overflow);
        }
        match self.prepare_timer() {
            Clock::Perf => Clock::Perf,
            clock => self.prepare_perf(clock),
        }
    }

    /// Makes what the thread wants beside its timer; returns which clocks it has.
    pub fn prepare_perf(&mut self, clock: Clock) -> Clock {
        if !wants_perf() {
            return clock;
        }
        if self.timer.is_some()
            && state::settings().clock == ClockChoice::Auto
            && !is_far_above_the_tick()
        {
            self.samples_to_perf = SAMPLES_BEFORE_PERF;
            return clock;
        }
        self.open_perf(clock)
    }

    /// Counts a sample of the timer. A thread that has taken some gets perf beside it, where that would have been too dear for a short one, and again
    /// where the program has closed its descriptor.
    ///
    /// # Signal safety
    /// System calls, now and then.
    #[inline]
    pub fn count_timer(&mut self) {
        if self.samples_to_perf == 0 {
            if self.perf.is_some() {
                self.silent += 1;
                if self.silent == SILENT {
                    self.silent = 0;
                    join_perf(self);
                }
            }
            return;
        }
        self.samples_to_perf -= 1;
        if self.samples_to_perf == 0 {
            join_perf(self);
        }
    }

    /// Begins perf that was still to begin, while the process has one thread: the table of descriptors grows for it, for which the kernel waits for all
    /// processors (ten milliseconds) where threads share the table.
    pub fn join_before_threads(&mut self) {
        if self.samples_to_perf != 0 {
            self.samples_to_perf = 0;
            join_perf(self);
        }
    }

    fn open_perf(&mut self, clock: Clock) -> Clock {
        match perf::open(self.tid, &perf::Clock::of_time(period_ns()), self.value) {
            Ok(fd) => {
                self.perf = Some(fd);
                self.tick_ns = is_above_the_tick().then(sys::tick_ns);
                // perf's period ends after the timer's, and by less than one: a tick between them is not to count what perf will
                // deliver.
                self.missing.ahead(1);
                Clock::PerfAndTimer
            }
            Err(error) => {
                self.note_no_perf(error);
                clock
            }
        }
    }

    fn note_no_perf(&self, error: i32) {
        counters::count(Counter::ThreadsWithoutPerf, 1);
        counters::set_counter(Counter::LastError, error as u64);
    }

    /// Makes a clock of an event: there is no CPU time to account for, and so no timer.
    fn prepare_overflow(&mut self, overflow: &Overflow) -> Clock {
        let clock = perf::Clock {
            event: overflow.event,
            period: overflow.period,
        };
        match perf::open(self.tid, &clock, self.value) {
            Ok(fd) => {
                self.perf = Some(fd);
                Clock::Overflow
            }
            Err(error) => {
                counters::count(Counter::ThreadsWithoutPerf, 1);
                counters::set_counter(Counter::LastError, error as u64);
                Clock::None
            }
        }
    }

    /// Makes the thread's timer alone, or what stands in for it.
    pub fn prepare_timer(&mut self) -> Clock {
        if let Some(overflow) = state::settings().overflow {
            return self.prepare_overflow(&overflow);
        }
        if avoids_timers() {
            match perf::open(self.tid, &perf::Clock::of_time(period_ns()), self.value) {
                Ok(fd) => {
                    self.perf = Some(fd);
                    return Clock::Perf;
                }
                Err(error) => self.note_no_perf(error),
            }
        }
        match sys::timer_create(self.tid, SAMPLE_SIGNAL, self.value) {
            Ok(timer) => {
                self.timer = Some(timer);
                Clock::Timer
            }
            // Another thread, which has ended meanwhile.
            Err(libc::EINVAL) if self.tid != sys::gettid() => Clock::None,
            Err(error) => {
                counters::count(Counter::ThreadsWithoutTimer, 1);
                counters::set_counter(Counter::LastError, error as u64);
                Clock::None
            }
        }
    }

    /// Takes over a timer that runs: it expires first at `first_expiry_ns` of the thread's CPU time, and `reported` periods of it were
    /// accounted for.
    pub fn take_over(&mut self, timer: i32, first_expiry_ns: u64, reported: u64) {
        self.timer = (timer >= 0).then_some(timer);
        self.first_expiry_ns = first_expiry_ns;
        self.account_ahead(reported);
    }

    /// Starts the clocks. The first expiry is anywhere in the first period, so that threads do
    /// not go in lock-step and short threads are neither favoured nor missed on average.
    pub fn start(&mut self, now_ns: u64) {
        let period = period_ns();
        if let Some(timer) = self.timer {
            let phase = phase_ns(self.tid, now_ns);
            self.first_expiry_ns = self.cpu_base_ns + phase;
            sys::timer_arm(timer, phase, period);
            self.begin_perf_at(phase);
        }
        self.start_perf();
    }

    /// Lets perf's first period end where the timer expires first, or just behind: else a thread of little more than a period would always be met
    /// near its end. The first sample turns the length of the next ones ([`ThreadClock::vary`]).
    fn begin_perf_at(&self, phase: u64) {
        if let Some(fd) = self.perf
            && !state::is_confined()
        {
            perf::set_period(fd, phase.max(period_ns() / 64));
        }
    }

    /// Starts perf's clock alone, where the timer runs already.
    pub fn start_perf(&self) {
        if let Some(fd) = self.perf {
            perf::start(fd);
        }
    }

    /// Stops perf's clock alone, until [`ThreadClock::start_perf`].
    pub fn pause_perf(&self) {
        if let Some(fd) = self.perf {
            perf::stop(fd);
        }
    }

    /// Whether the thread has a timer.
    pub fn has_timer(&self) -> bool {
        self.timer.is_some()
    }

    /// Whether the signal of the timer with this id comes from this clock.
    #[inline]
    pub fn is_timer(&self, timer: i32) -> bool {
        self.timer == Some(timer)
    }

    /// Whether the signal of this descriptor comes from this clock.
    #[inline]
    pub fn is_perf(&self, fd: c_int) -> bool {
        self.perf == Some(fd)
    }

    /// Notes the periods that a sample stands for, recorded or dropped.
    #[inline]
    pub fn account(&mut self, periods: u64) {
        self.accounted_weight = self.accounted_weight.wrapping_add(periods);
    }

    /// Notes periods that were accounted for before the timer counts them.
    pub fn account_ahead(&mut self, periods: u64) {
        self.accounted_weight = self.accounted_weight.saturating_add(periods);
        self.missing.ahead(periods);
    }

    /// Notes periods of perf's clock.
    #[inline]
    pub fn count_perf(&mut self, periods: u64) {
        self.silent = 0;
        self.missing.deliver(periods);
    }

    /// How many of the timer's periods nothing accounts for yet and the sample at hand shall stand for, when `ticks` of them have ended.
    #[inline]
    pub fn missing_ticks(&mut self, ticks: u64) -> u64 {
        if self.perf.is_none() && self.missing.is_even() {
            return ticks;
        }
        match (self.perf, self.tick_ns) {
            (Some(_), Some(tick_ns)) => {
                let of_a_tick = tick_ns / period_ns().max(1);
                let in_kernel = self.was_in_kernel(tick_ns);
                self.missing.share(ticks, in_kernel, of_a_tick.max(1))
            }
            _ => self.missing.all(ticks),
        }
    }

    /// Whether the kernel's tick came while the thread was in the kernel: it counts as a whole as time in user mode or none of it.
    #[inline]
    fn was_in_kernel(&mut self, tick_ns: u64) -> bool {
        let user_ns = sys::thread_user_ns(self.tid);
        let used_ns = user_ns.saturating_sub(self.user_ns);
        self.user_ns = user_ns;
        used_ns < tick_ns / 2
    }

    /// Dithers perf's sampling phase across the period, so that a program in lock-step with the clock is not sampled at the same few
    /// places. To be called once for each sample; every thirteenth time or so it makes two system calls.
    ///
    /// The timer stands where it is. perf stays behind it, and by less than a period, as [`ThreadClock::prepare_perf`] has it: so all
    /// is counted once.
    #[inline]
    pub fn vary(&mut self) {
        if self.dither.left > 1 {
            self.dither.left -= 1;
        } else {
            turn(self);
        }
    }

    /// Ends the dithering of [`ThreadClock::vary`]: no system call may follow that would change the period again.
    pub fn steady(&self) {
        if let (Some(fd), Some(_)) = (self.perf, self.timer) {
            perf::set_period(fd, period_ns());
        }
    }

    /// Periods that ended since the thread's last sample, when its CPU time is `cpu_ns`.
    ///
    /// The kernel looks at a CPU timer at its ticks only; what expired after the last tick of a thread
    /// never becomes a signal. Over many short threads that would be much. What is more than 16 ticks
    /// has another cause, such as a signal that another thread takes: that is not counted for the last stack.
    pub fn unsampled_periods(&self, cpu_ns: u64) -> u64 {
        // Among hundreds of threads that share a processor, one runs for this long between two ticks now and then.
        const TICKS: u64 = 16;
        if self.timer.is_none() {
            return 0;
        }
        let expired = periods_between(self.first_expiry_ns, cpu_ns);
        let most = 1 + TICKS * sys::tick_ns() / period_ns().max(1);
        expired.saturating_sub(self.accounted_weight).min(most)
    }

    /// CPU time of the calling thread, which ends. Of one that was there for less time than its timer needs to expire once, that time
    /// instead, which is no less and costs no system call.
    pub fn cpu_ns_at_end(&self, now_ns: u64) -> u64 {
        let there_ns = now_ns.saturating_sub(self.not_before_ns);
        if self.timer.is_some() && there_ns < self.first_expiry_ns {
            return there_ns;
        }
        sys::thread_cpu_ns()
    }

    /// Silences the clocks for the time being; any thread may do that.
    pub fn pause(&self) {
        if let Some(timer) = self.timer {
            sys::timer_arm(timer, 0, 0);
        }
        if let Some(fd) = self.perf {
            perf::stop(fd);
        }
    }

    /// Keeps perf from interrupting a sample of the calling thread, where there is no room for the signal's frame. False when that may
    /// not be.
    ///
    /// # Signal safety
    /// A system call where samples come as SIGTRAP, which nothing blocks; else none.
    #[inline]
    pub fn hold(&self) -> bool {
        match self.perf {
            Some(fd) if perf::uses_traps() => stop_perf(fd),
            _ => true,
        }
    }

    /// Ends what [`ThreadClock::hold`] began.
    ///
    /// # Signal safety
    /// As [`ThreadClock::hold`].
    #[inline]
    pub fn let_go(&self) {
        if let Some(fd) = self.perf
            && perf::uses_traps()
        {
            start_perf(fd);
        }
    }

    /// Leaves a thread to its timer alone whose stack for signals bears no second one: its samples have the resolution of the kernel's
    /// tick from now on, and their weights are right.
    ///
    /// # Signal safety
    /// Two system calls, once in a thread.
    #[inline]
    pub fn without_traps(&mut self) {
        if perf::uses_traps() {
            self.samples_to_perf = 0;
        }
        if let (Some(fd), Some(_)) = (self.perf, self.timer)
            && perf::uses_traps()
        {
            stop_perf(fd);
            close_perf(fd);
            self.perf = None;
        }
    }

    /// Lets the calling thread's clocks go on, which were paused for a time that is not to be sampled.
    pub fn go_on(&mut self) {
        self.first_expiry_ns = sys::thread_cpu_ns().saturating_add(period_ns());
        self.accounted_weight = 0;
        self.missing.forget();
        self.resume();
    }

    /// Lets paused clocks go on.
    pub fn resume(&self) {
        if let Some(timer) = self.timer {
            sys::timer_arm(timer, period_ns(), period_ns());
        }
        self.start_perf();
    }

    /// Stops and removes the clocks.
    pub fn stop(&mut self) {
        self.samples_to_perf = 0;
        if let Some(timer) = self.timer.take() {
            sys::timer_delete(timer);
        }
        if let Some(fd) = self.perf.take() {
            perf::stop(fd);
            perf::close(fd);
        }
    }

    /// Removes the clocks of any thread, which may be running: it will remove them once more at its end, when they are not there any more.
    ///
    /// # Signal safety
    /// System calls.
    pub fn give_back(&self) {
        if let Some(timer) = self.timer {
            sys::timer_delete(timer);
        }
        if let Some(fd) = self.perf {
            perf::stop(fd);
            perf::close(fd);
        }
    }

    /// Closes what the child of a fork has inherited of its parent's clocks: timers it has none.
    pub fn forget_parents(&mut self) {
        if let Some(fd) = self.perf.take() {
            perf::close(fd);
        }
    }
}

/// Perf begins beside a timer that runs, for the first time or again.
#[cold]
fn join_perf(clock: &mut ThreadClock) {
    if !state::is_confined() {
        if let Some(fd) = clock.perf {
            if perf::is_open(fd) {
                return;
            }
            clock.perf = None;
            clock.dither = Dither::default();
        }
        clock.open_perf(Clock::Timer);
        clock.start_perf();
    }
}

/// The dithered phase turns round.
#[cold]
fn turn(clock: &mut ThreadClock) {
    /// Samples until system calls may be permitted again.
    const LATER: u32 = 1000;
    // A clock of an event has no timer beside it.
    let (Some(fd), Some(_), false) = (clock.perf, clock.timer, state::is_confined()) else {
        clock.dither.left = LATER;
        return;
    };
    let cpu_ns = sys::thread_cpu_ns();
    let behind_ns = cpu_ns.saturating_sub(clock.first_expiry_ns);
    let length = clock.dither.turn(behind_ns, period_ns(), cpu_ns);
    if !perf::set_period(fd, length) {
        // A filter forbids it: the period would stay a little wrong. The timer alone is right.
        if perf::is_open(fd) {
            perf::close(fd);
            clock.perf = None;
        }
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

/// How often a timer has expired at a thread's CPU time `cpu_ns`, if it expired first at `first_ns`.
pub fn periods_between(first_ns: u64, cpu_ns: u64) -> u64 {
    cpu_ns
        .checked_sub(first_ns)
        .map_or(0, |after| 1 + after / period_ns().max(1))
}

/// CPU time until a thread's timer expires first: anywhere in the first period.
pub fn phase_ns(tid: u32, now_ns: u64) -> u64 {
    let mut mixed = now_ns ^ u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 32) % period_ns().max(1)
}
