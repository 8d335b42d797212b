use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_unwind::{End, Engine, FrameBuffer, FramePointerEngine, Registers};
use rsys_wire::handshake::UnwinderChoice;
use rsys_wire::record::{self};

use crate::code::rules;
use crate::sampling::framehop;
use crate::sampling::seen::{self, Seen};
use crate::sampling::stack_room::{ROOM_FOR_FRAMEHOP, ROOM_FOR_OURS, fault_bytes};
use crate::state;
use crate::sys::guard::Guarded;

/// The stack of a thread in which a fault or the walk itself would kill the process: the leaf has to do.
#[inline]
pub fn leaf(registers: &Registers, frames: &mut FrameBuffer<'_>) -> End {
    match frames.push(registers.pc(), rsys_unwind::EXACT) {
        Ok(()) => End::Broken(rsys_unwind::Broken::UnreadableStack),
        Err(_) => End::Truncated,
    }
}

static ONLY_TABLES: AtomicBool = AtomicBool::new(false);

/// From now on nothing is read but where tables say that the stack is: the program serves faults of its own pages (userfaultfd), and the thread that
/// is interrupted may be the one that does.
pub fn guess_no_more() {
    ONLY_TABLES.store(true, Ordering::Relaxed);
}

/// Walks the stack of the thread that is interrupted, with the engine that was chosen; `framehop` is the thread's own one, if any.
///
/// # Signal safety
/// Guarded reads, and stores into `frames` and into what `seen` notes.
#[inline]
pub fn walk(
    framehop: *mut c_void,
    registers: &Registers,
    seen: &Seen,
    room: usize,
    frames: &mut FrameBuffer<'_>,
) -> End {
    let only_tables = ONLY_TABLES.load(Ordering::Relaxed);
    let choice = match state::settings().unwinder {
        _ if only_tables => UnwinderChoice::Cfi,
        // Ours is content with a tenth of the room.
        UnwinderChoice::Framehop if room < ROOM_FOR_FRAMEHOP + fault_bytes() => UnwinderChoice::Cfi,
        choice => choice,
    };
    let engine = rules::cfi_engine();
    // Guesses read in vain now and then.
    let mut engine = match only_tables || room < ROOM_FOR_OURS + fault_bytes() {
        true => engine.by_tables_only(),
        false => engine,
    };
    match choice {
        UnwinderChoice::Cfi => {
            let end = engine.walk(registers, &Guarded, seen, frames);
            if seen::some_unreported() {
                note_all(seen, frames);
            }
            end
        }
        UnwinderChoice::FramePointer => {
            let end = FramePointerEngine::new(engine).walk(registers, &Guarded, seen, frames);
            note_all(seen, frames);
            end
        }
        UnwinderChoice::Framehop => {
            let end = framehop::walk(framehop, registers, seen, frames);
            note_all(seen, frames);
            end
        }
    }
}

/// The CFI engine asks for the module of every address it does not know; the others do not.
pub fn note_all(seen: &Seen, frames: &FrameBuffer<'_>) {
    for word in frames.words() {
        seen.note(word & record::FRAME_ADDRESS);
    }
}

#[inline]
pub fn registers(machine: &libc::ucontext_t) -> Registers {
    Registers::from_gregs(&machine.uc_mcontext.gregs)
}
