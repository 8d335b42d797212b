use rsys_unwind::{Engine, FrameBuffer, Registers};
use rsys_wire::layout::Counter;
use rsys_wire::record::{self, SAMPLE_TAIL};
use rsys_wire::ring::DropCause;

use crate::channel::counters;
use crate::code::rules;
use crate::sampling::seen::Seen;
use crate::sampling::slots::Slot;
use crate::signals::faults;
use crate::state::pause;
use crate::sys;
use crate::sys::guard::Guarded;

/// Records what a thread did between its last tick and its end: with the stack of its last sample,
/// or, if it had none, as its start routine. `bottom` are the registers of the trampoline that called
/// that routine. The first thread starts at the program's entry. Runs when the thread's clocks have stopped or are blocked, not in the handler.
pub fn account_for_tail(slot: &mut Slot, periods: u64, bottom: Option<Registers>) {
    if periods == 0 {
        return;
    }
    if pause::is_paused(slot.clock.tid) {
        return counters::count(Counter::Paused, periods);
    }
    let time_ns = sys::boottime_ns();
    if time_ns < counters::quiet_until_ns() {
        return counters::count(Counter::NotWanted, 1);
    }
    let weight = u32::try_from(periods).unwrap_or(u32::MAX);
    let mut words = [0_u64; 16];
    let sampled = slot.stacks.previous_frames() > 0 || slot.python.flags != 0;
    let (shared, frames): (u16, &[u64]) = if sampled {
        (slot.stacks.previous_frames() as u16, &[])
    } else if let Some(bottom) = bottom {
        let seen = Seen::new(slot.new_modules);
        let mut frames = FrameBuffer::new(&mut words);
        faults::while_open(|| rules::cfi_engine().walk(&bottom, &Guarded, &seen, &mut frames));
        let length = frames.len();
        // In the trampoline's place, what it called.
        if let Some(innermost) = words.first_mut() {
            *innermost = slot.start.addr() as u64 | record::FRAME_EXACT;
        }
        seen.note(slot.start.addr() as u64);
        seen.report(slot.ring(), time_ns);
        (0, words.get(..length).unwrap_or(&[]))
    } else {
        let entry = match slot.start.addr() as u64 {
            0 => sys::program_entry(),
            routine => routine,
        };
        let seen = Seen::new(slot.new_modules);
        seen.note(entry);
        seen.report(slot.ring(), time_ns);
        words[0] = entry | record::FRAME_EXACT;
        (0, &words[..1])
    };
    let flags = SAMPLE_TAIL | slot.python.flags | if sampled { slot.stack_flags } else { 0 };
    if !record::put_sample(slot.ring(), time_ns, weight, flags, shared, frames) {
        slot.ring()
            .header()
            .count_drop(DropCause::RingFull, periods);
    }
}
