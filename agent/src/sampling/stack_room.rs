use std::sync::atomic::{AtomicUsize, Ordering};

/// The room on the stack that a sample takes, in bytes: of the leaf alone, with a walk by our engines, and with one by framehop.
pub const ROOM_FOR_A_LEAF: usize = 1280;

pub const ROOM_FOR_OURS: usize = 3584;

pub const ROOM_FOR_FRAMEHOP: usize = rsys_unwind::FRAMEHOP_STACK_BYTES + 1024;

/// What the handler has taken when it holds perf's clock, and what a signal takes that finds a sample under way.
pub const ROOM_FOR_AN_INTERRUPTION: usize = 512;

/// The most of these.
pub const ROOM_FOR_ANY: usize = ROOM_FOR_FRAMEHOP;

/// What the kernel and our handler take of the same stack for a fault in a guarded read, in bytes.
pub static FAULT_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Asks how large the registers are that the kernel saves for a handler; kernels before 5.14 do not say.
pub fn learn_frame_size() {
    // SAFETY: reads the vector that the kernel passed.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if frame != 0 {
        FAULT_BYTES.store(frame + 256, Ordering::Relaxed);
    }
}

pub fn fault_bytes() -> usize {
    FAULT_BYTES.load(Ordering::Relaxed)
}

/// How many bytes of the program's alternate stack are left for the handler, if it runs there; else more than it can take.
#[inline]
pub fn stack_room(machine: &libc::ucontext_t) -> usize {
    let here = (&raw const *machine).addr();
    let stack = &machine.uc_stack;
    let room = here.wrapping_sub(stack.ss_sp.addr());
    // Elsewhere, the difference is larger than the stack.
    if stack.ss_flags & libc::SS_DISABLE == 0 && room < stack.ss_size {
        room
    } else {
        usize::MAX
    }
}
