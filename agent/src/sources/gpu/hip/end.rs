//! The end of a process that has used HIP.
//!
//! HIP 5 hands records out only when the program synchronises, and HIP 6 keeps the last of them for a while: what a program leaves behind would
//! be lost with it. So at its end, and before it becomes another program, a thread of ours, which is there since there is work, synchronises the GPUs that
//! were used.
//! A kernel that hangs must not hold the end of the program: it waits for that no longer than [`PATIENCE_NS`] in all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::sources::gpu::handlers;
use crate::sources::gpu::helper::Work;
use crate::sources::gpu::hip::{ops, work};
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::words;
use crate::sys;

/// How long all ends of a process may be held together.
const PATIENCE_NS: u64 = 1_900_000_000;
/// Where nothing is known to be missing, records that are on their way get this long.
const LATE_NS: u64 = 20_000_000;
/// The same where graphs were launched: how many kernels those have is not known.
const LATE_GRAPH_NS: u64 = 60_000_000;
/// A graph launch without any operation reported within this time has no kernels.
const EMPTY_GRAPH_NS: u64 = 1_000_000_000;
const NAP_NS: u64 = 200_000;

/// Whether HIP may not be called any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// How long the end was held already.
static SPENT_NS: AtomicU64 = AtomicU64::new(0);
static IS_WAITING: AtomicBool = AtomicBool::new(false);

static WORK: Work = Work::new(synchronise);
/// Whether HIP's handlers of signals that are complete are to be waited for as well.
static MAY_CATCH_UP: AtomicBool = AtomicBool::new(false);

/// Notes whether HIP may be called no more.
pub fn set_over(over: bool) {
    IS_OVER.store(over, Ordering::Release);
}

/// CPU time of a thread of ours that waits for a GPU in vain.
pub fn cpu_ns() -> u64 {
    WORK.cpu_ns()
}

fn synchronise() {
    let (Some(set_device), Some(synchronise)) = (
        hip_functions::set_device::get(),
        hip_functions::synchronize::get(),
    ) else {
        return;
    };
    for ordinal in work::devices() {
        // SAFETY: any number may be asked for.
        if unsafe { set_device(ordinal) } == 0 {
            // SAFETY: no arguments.
            unsafe { synchronise() };
        }
    }
    // Now and then HIP 5 reports from there too, what the program has waited for itself.
    if MAY_CATCH_UP.load(Ordering::Acquire) {
        handlers::catch_up();
    }
}

/// Gets what HIP still has, as far as that is possible in time.
pub fn collect() {
    if IS_OVER.load(Ordering::Acquire)
        || !work::is_outstanding()
        || IS_WAITING.swap(true, Ordering::AcqRel)
    {
        return;
    }
    let begin = sys::boottime_ns();
    let left = PATIENCE_NS.saturating_sub(SPENT_NS.load(Ordering::Relaxed));
    if left > 0 {
        work::note_synchronised();
        let deadline = begin + left;
        MAY_CATCH_UP.store(!words::is_of_runtime(), Ordering::Release);
        // The caller may hold any lock: it may be a handler that ends the process.
        let idle = WORK.begin_parked() && WORK.wait_until(deadline);
        if idle {
            wait_for_records(deadline);
        } else {
            // A GPU that hangs does not recover: no second try.
            set_over(true);
        }
        account(idle);
        SPENT_NS.fetch_add(sys::boottime_ns().wrapping_sub(begin), Ordering::Relaxed);
    }
    IS_WAITING.store(false, Ordering::Release);
}

/// Whether HIP may not be called any more.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Acquire)
}

/// Counts operations that HIP will not report any more, without waiting.
pub fn at_abort() {
    let missing = ops::give_up();
    if missing > 0 {
        counters::count(Counter::GpuLostAtEnd, missing);
        events::fact(b"gpu end", b"the process aborted itself while GPUs worked");
    }
}

/// Another tool is about to take the place for HIP's tracer: gets what HIP is just telling, as HIP 6 does a moment after a synchronisation.
pub fn before_loss() {
    const PATIENCE_NS: u64 = 1_000_000_000;
    let since = sys::boottime_ns();
    while ops::outstanding() > 0 && sys::boottime_ns().wrapping_sub(since) < PATIENCE_NS {
        sys::nap(NAP_NS);
    }
}

/// A graph is about to be destroyed or to get other kernels. When HIP 7 reports a launch, it copies the names of the kernels from the graph, on a thread of
/// the runtime's and a moment after the program may know that the launch is over: with a tracer, it reads what is not there any more, and aborts.
/// (`tests/tests/gpu/hip.rs`: `graphs_that_are_destroyed_at_once_are_told`.)
pub fn before_graph_goes() {
    /// Launches that were not reported within the time they were waited for: they have no kernels, or take long.
    static NEVER_TOLD: AtomicU64 = AtomicU64::new(0);
    let missing = || ops::graphs().1;
    let never = NEVER_TOLD.load(Ordering::Relaxed);
    if !hip_functions::shares_names_of_graphs() || missing() <= never || words::is_of_runtime() {
        return;
    }
    let since = sys::boottime_ns();
    let mut seen = ops::records();
    loop {
        sys::nap(NAP_NS);
        let now_seen = ops::records();
        // A launch is reported in parts where the graph has branches.
        if missing() <= never && now_seen == seen {
            return;
        }
        seen = now_seen;
        if sys::boottime_ns().wrapping_sub(since) > EMPTY_GRAPH_NS {
            NEVER_TOLD.fetch_max(missing(), Ordering::Relaxed);
            return;
        }
    }
}

/// What HIP has not reported by now it reports to the other tool.
pub fn after_loss() {
    counters::count(Counter::GpuLostAtEnd, ops::give_up());
}

/// Waits until every launched kernel has been reported, and no more reports arrive.
fn wait_for_records(deadline: u64) {
    let mut seen = ops::records();
    // Counted in naps, not in wall time: while the machine is suspended or stolen from, the runtime reports nothing either.
    let mut quiet_ns = 0;
    let begin = sys::boottime_ns();
    loop {
        let now = sys::boottime_ns();
        if ops::records() != seen {
            seen = ops::records();
            quiet_ns = 0;
        }
        let (has_graphs, missing_graphs) = ops::graphs();
        let late_ns = if has_graphs { LATE_GRAPH_NS } else { LATE_NS };
        let is_quiet =
            quiet_ns > late_ns && (missing_graphs == 0 || now.wrapping_sub(begin) > EMPTY_GRAPH_NS);
        let is_told = !hip_functions::is_late() && missing_graphs == 0;
        if now > deadline || (ops::outstanding() == 0 && (is_quiet || is_told)) {
            return;
        }
        sys::nap(NAP_NS);
        quiet_ns += NAP_NS;
    }
}

/// What has not come by now does not come.
fn account(idle: bool) {
    let (_, missing_graphs) = ops::graphs();
    if missing_graphs > 0 {
        let mut text = [0; 20];
        let number = sys::decimal(missing_graphs, &mut text);
        events::fact(b"gpu graphs not told", number);
        events::note(
            b"HIP reported no kernel for some launches of graphs; the metadata say how many",
        );
    }
    let missing = ops::give_up();
    if missing == 0 {
        return;
    }
    counters::count(Counter::GpuLostAtEnd, missing);
    let why: &[u8] = if idle {
        b"the GPUs were idle, but HIP did not tell of all kernels"
    } else {
        b"the GPUs did not become idle within two seconds of the end of the process"
    };
    events::fact(b"gpu end", why);
    events::note(why);
}
