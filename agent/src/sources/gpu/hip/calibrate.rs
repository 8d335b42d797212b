//! Where HIP's record of a call has the two functions that HIP calls before and after it.
//!
//! That depends on the size of the arguments of HIP's largest call, and so on its version. HIP's record lies uninitialised on the
//! stack when we are asked about a call. So on a thread of our own the stack is filled with addresses of numbered functions, one call is
//! made, and HIP calls the function at the place from which it takes its own: its number is the place ([`painted`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::events;
use crate::sources::gpu::devices;
use crate::sources::gpu::helper::Work;
use crate::sources::gpu::hip::painted;
use crate::sources::gpu::hip_functions;
use crate::sys;
use crate::sys::text::Text;

/// How long first calls wait for the answer. They get it in a millisecond, unless they hold a lock of the loader's, which the thread needs:
/// then they go on without us, and later calls are recorded.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Where the first function is in HIP 5.3 to 5.7, and from HIP 6 on. The largest arguments lie in front, those of `hipChooseDevice`, which hold
/// a `hipDeviceProp_t`: of 792 bytes, and of 1472 since HIP 6 (headers of 5.2.3 to 7.2.4). They have only grown.
const PLACES: [usize; 2] = [856, 1536];
/// HIP 6.0, as HIP counts versions.
const HIP_6: u32 = 60_000_000;

/// Where the two functions are, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Called before the call, with its arguments.
    pub enter: usize,
    /// Called after it.
    pub exit: usize,
}

impl Layout {
    /// What is known of a version.
    fn of_version(version: u32) -> Option<Layout> {
        let [small, large] = PLACES;
        let enter = match version / 100_000 {
            503..=507 => small,
            600..=604 | 700..=702 => large,
            _ => return None,
        };
        Some(Layout {
            enter,
            exit: enter + 8,
        })
    }
}

const UNKNOWN: u32 = 0;
const UNDER_WAY: u32 = 1;
const FOUND: u32 = 2;
const FAILED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static ENTER: AtomicUsize = AtomicUsize::new(0);
static EXIT: AtomicUsize = AtomicUsize::new(0);
/// Whether a caller has waited in vain: no other waits.
static IS_IMPATIENT: AtomicBool = AtomicBool::new(false);
static WORK: Work = Work::new(work);

/// The layout. The first who asks, by a first call, waits until it was found; `None` when it cannot be.
#[inline]
pub fn layout() -> Option<Layout> {
    if STATE.load(Ordering::Acquire) != FOUND && !find() {
        return None;
    }
    Some(Layout {
        enter: ENTER.load(Ordering::Relaxed),
        exit: EXIT.load(Ordering::Relaxed),
    })
}

#[cold]
fn find() -> bool {
    let first = STATE
        .compare_exchange(UNKNOWN, UNDER_WAY, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if first && !WORK.begin() {
        fail(0);
        STATE.store(FAILED, Ordering::Release);
    }
    if STATE.load(Ordering::Acquire) == UNDER_WAY && !IS_IMPATIENT.load(Ordering::Relaxed) {
        let deadline = sys::boottime_ns().saturating_add(PATIENCE_NS);
        if !WORK.wait_until(deadline) {
            IS_IMPATIENT.store(true, Ordering::Relaxed);
        }
    }
    STATE.load(Ordering::Acquire) == FOUND
}

fn work() {
    let version = hip_functions::ask_version();
    let known = Layout::of_version(version);
    let [small, large] = PLACES;
    let least = if version < HIP_6 { small } else { large };
    let measured = painted::measure(known, least);
    if let Some(layout) = measured.or(known) {
        ENTER.store(layout.enter, Ordering::Relaxed);
        EXIT.store(layout.exit, Ordering::Relaxed);
        let mut buffer = [0_u8; 128];
        let mut fact = Text::new(&mut buffer);
        fact.put(if measured.is_some() {
            b"measured: functions at " as &[u8]
        } else {
            b"not measured: functions at "
        });
        fact.number(layout.enter as u64);
        fact.put(b" and ");
        fact.number(layout.exit as u64);
        fact.put(match known {
            Some(known) if known == layout => b", as expected of this version" as &[u8],
            Some(_) => b", not as expected of this version",
            None => b"; nothing was known of this version",
        });
        events::fact(FACT, fact.bytes());
    } else {
        fail(version);
    }
    devices::tell_of_hip(version);
    let state = if measured.or(known).is_some() {
        FOUND
    } else {
        FAILED
    };
    STATE.store(state, Ordering::Release);
}

const FACT: &[u8] = b"hip calibration";

/// Says that the layout of this version cannot be found, and what is missing therefore.
fn fail(version: u32) {
    events::fact(
        FACT,
        b"failed: HIP's calls are not recorded, its GPU operations have no calls",
    );
    let mut buffer = [0_u8; 256];
    let mut note = Text::new(&mut buffer);
    note.put(b"HIP's calls are not recorded, and its kernels have neither streams nor launch stacks: the layout of its records could not be found (HIP ");
    devices::put_hip_version(&mut note, version);
    note.put(b")");
    events::note(note.bytes());
}
