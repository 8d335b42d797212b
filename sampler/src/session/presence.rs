//! Tells the processes that are sampled when the sampler is gone, however it ends.
//!
//! A word in the first segment of each process is a robust futex (`set_robust_list(2)`) of the thread that called [`begin`]: when that
//! thread dies, also of SIGKILL, the kernel marks the word, and the agent leaves the process alone from then on. Who ends in good order marks it by itself.
//! The kernel follows the list through shared memory, which a program may have damaged. It bears that; our own changes go by a list of our own.

use std::mem::offset_of;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rsys_wire::layout::{SAMPLER_GONE, SegmentHeader};

/// The kernel follows no more (`ROBUST_LIST_LIMIT` in linux/futex.h). Further processes notice when they find no room in their rings.
const MOST_ENTRIES: usize = 2000;

/// `struct robust_list_head`: the first entry, where the futex is from an entry, and an entry that is being changed.
#[repr(C)]
struct Head {
    first: AtomicUsize,
    futex_offset: isize,
    pending: AtomicUsize,
}

static HEAD: Head = Head {
    first: AtomicUsize::new(0),
    futex_offset: offset_of!(SegmentHeader, sampler) as isize
        - offset_of!(SegmentHeader, robust_next) as isize,
    pending: AtomicUsize::new(0),
};

/// The thread that the words belong to; 0 before there is one.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The headers in the kernel's list, by their addresses, the last of which is its first.
static ENTRIES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// From now on the calling thread stands for the sampler: it must live as long.
pub fn begin() {
    HEAD.first.store(head_address(), Ordering::Release);
    // SAFETY: a list of static memory. (No library of ours uses robust mutexes, whose list this replaces.)
    let set = unsafe {
        libc::syscall(
            libc::SYS_set_robust_list,
            &raw const HEAD,
            size_of::<Head>(),
        )
    };
    if set == 0 {
        OWNER.store(
            nix::unistd::gettid().as_raw().unsigned_abs(),
            Ordering::Release,
        );
    }
}

fn head_address() -> usize {
    (&raw const HEAD).expose_provenance()
}

fn entry_of(header: &SegmentHeader) -> usize {
    (&raw const header.robust_next).expose_provenance()
}

/// The process with this header learns when the sampler is gone.
pub fn show(header: &SegmentHeader) {
    let owner = OWNER.load(Ordering::Acquire);
    let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    if owner == 0 || entries.len() >= MOST_ENTRIES {
        return;
    }
    header.sampler.store(owner, Ordering::Release);
    let first = HEAD.first.load(Ordering::Relaxed);
    header.robust_next.store(first as u64, Ordering::Release);
    HEAD.first.store(entry_of(header), Ordering::Release);
    entries.push(std::ptr::from_ref(header).expose_provenance());
}

/// The sampler reads no more of the process with this header, which is about to be unmapped.
pub fn take_leave(header: &SegmentHeader) {
    let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    let address = std::ptr::from_ref(header).addr();
    if let Some(at) = entries.iter().position(|known| *known == address) {
        let header_at = |at: usize| {
            let known = std::ptr::with_exposed_provenance::<SegmentHeader>(*entries.get(at)?);
            // SAFETY: what is on the list is mapped.
            Some(unsafe { &*known })
        };
        let next = at
            .checked_sub(1)
            .and_then(header_at)
            .map_or(head_address(), entry_of);
        match header_at(at + 1) {
            Some(before) => before.robust_next.store(next as u64, Ordering::Release),
            None => HEAD.first.store(next, Ordering::Release),
        }
        entries.remove(at);
    }
    header.sampler.store(SAMPLER_GONE, Ordering::Release);
}
