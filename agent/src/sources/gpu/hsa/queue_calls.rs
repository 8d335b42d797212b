//! Making and destroying queues whose packets are seen.
//!
//! A queue of the program's becomes an intercept queue of the runtime ([`create`]): each packet comes to [`packets`] on the thread that
//! submits it and goes on from there.
//!
//! Where no other tool makes queues, we ask the runtime for an intercept queue. A tool that was loaded before us is called as it would be without us, and
//! what it makes gets our handler as well. One that was loaded after us takes the place of our `hsa_queue_create`; the intercept queues that it
//! asks the runtime for come by here, too. In each case all handlers see all packets.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::event::{Key, Labelled, Value};

use crate::events;
use crate::sources::gpu::hsa::abi::{GENERIC_ERROR, Layout, Queue, QueueCallback, SUCCESS, Status};
use crate::sources::gpu::hsa::agents::{self, Gpu};
use crate::sources::gpu::hsa::collector;
use crate::sources::gpu::hsa::faults;
use crate::sources::gpu::hsa::kernel_counters;
use crate::sources::gpu::hsa::layout;
use crate::sources::gpu::hsa::packets;
use crate::sources::gpu::hsa::queue_depth;
use crate::sources::gpu::hsa::queues::{NUMBERS, State, claim, find};
use crate::sources::gpu::hsa::source;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::threads;
use crate::sources::gpu::words;
use crate::sys::text::Text;

/// What a program wishes a queue to be: the arguments of `hsa_queue_create`, but for the place of the result.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The GPU or processor.
    pub agent: u64,
    /// Packets that it holds.
    pub size: u32,
    /// Who may submit.
    pub kind: u32,
    /// Told when the queue fails.
    pub callback: QueueCallback,
    /// What the callback gets.
    pub data: *mut c_void,
    /// Scratch memory of a work-item.
    pub private_bytes: u32,
    /// Memory that a group shares.
    pub group_bytes: u32,
}

/// A function that makes a queue.
type Make = table::queue_create::Signature;

impl Wish {
    /// Has a function make it.
    ///
    /// # Safety
    /// The wish and `queue` must be as the function requires it.
    unsafe fn call(&self, make: Option<Make>, queue: *mut *mut Queue) -> Status {
        let Some(make) = make else {
            return GENERIC_ERROR;
        };
        // SAFETY: the caller's promise.
        unsafe {
            make(
                self.agent,
                self.size,
                self.kind,
                self.callback,
                self.data,
                self.private_bytes,
                self.group_bytes,
                queue,
            )
        }
    }
}

/// An earlier tool makes queues that cannot be seen.
static ARE_OTHERS_PLAIN: AtomicBool = AtomicBool::new(false);

/// Makes a queue that is seen; where that cannot be, an ordinary one.
///
/// # Safety
/// As `hsa_queue_create`.
pub unsafe fn create(wish: &Wish, queue: *mut *mut Queue) -> Status {
    let before = table::queue_create::get();
    let by_other = before.is_some_and(|before| is_of_tool(before as *const ()));
    // SAFETY: the caller's own arguments; so below.
    let plain = || unsafe { wish.call(before, queue) };
    if by_other && ARE_OTHERS_PLAIN.load(Ordering::Relaxed) {
        return plain();
    }
    let make = if by_other {
        before
    } else {
        table::queue_intercept_create::get()
    };
    let Some((gpu, state)) = claim_for(wish) else {
        return plain();
    };
    renew_events();
    // SAFETY: as above.
    let status = unsafe { state.make(wish, make, gpu, queue) };
    if status != SUCCESS {
        state.used.store(false, Ordering::Release);
        // What the other tool refuses stays refused.
        return if by_other { status } else { plain() };
    }
    // SAFETY: it was just made.
    let made = unsafe { *queue };
    // SAFETY: as above.
    if unsafe { state.observe(gpu, made) } {
        return SUCCESS;
    }
    if by_other {
        // The place stays taken: the queue knows it.
        if !ARE_OTHERS_PLAIN.swap(true, Ordering::Relaxed) {
            source::refuse(b"off: another tool makes the program's queues, and not as queues whose packets others can see; kernels are not recorded");
        }
        return SUCCESS;
    }
    state.used.store(false, Ordering::Release);
    if let Some(destroy) = table::queue_destroy::get() {
        // SAFETY: it was not handed out yet.
        unsafe { destroy(made) };
    }
    plain()
}

/// Makes the intercept queue that another tool asks for, and sees it as well.
///
/// # Safety
/// As `hsa_amd_queue_intercept_create`.
pub unsafe fn create_intercepted(wish: &Wish, queue: *mut *mut Queue) -> Status {
    let make = table::queue_intercept_create::get();
    // What an earlier tool asks for on our behalf is seen when we get it.
    let on_our_behalf = words::is_making_queue();
    let claimed = (!on_our_behalf).then(|| claim_for(wish)).flatten();
    let Some((gpu, state)) = claimed else {
        // SAFETY: the caller's own arguments; so below.
        return unsafe { wish.call(make, queue) };
    };
    renew_events();
    // SAFETY: as above.
    let status = unsafe { state.make(wish, make, gpu, queue) };
    if status == SUCCESS {
        // SAFETY: it was just made.
        unsafe { state.observe(gpu, *queue) };
    } else {
        state.used.store(false, Ordering::Release);
    }
    status
}

/// A place for a queue of a GPU, if there is one.
fn claim_for(wish: &Wish) -> Option<(Gpu, &'static State)> {
    let gpu = agents::find(wish.agent)?;
    Some((gpu, claim()?))
}

/// Whether a function is not the runtime's own.
fn is_of_tool(function: *const ()) -> bool {
    let address = function.addr() as u64;
    threads::knows_hsa() && !threads::is_in_hsa(address)
}

impl State {
    /// Has a function make the queue that is to have this place.
    ///
    /// # Safety
    /// As for [`Wish::call`]; the place must be the caller's.
    unsafe fn make(
        &'static self,
        wish: &Wish,
        make: Option<Make>,
        gpu: Gpu,
        queue: *mut *mut Queue,
    ) -> Status {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.agent.store(wish.agent, Ordering::Relaxed);
        self.device.store(gpu.node, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        // SAFETY: the place is the caller's, and the queue does not exist yet.
        unsafe { *self.callback.get() = wish.callback };
        self.callback_data.store(wish.data, Ordering::Relaxed);
        let [size, second_size] = queue_depth::sizes(wish.size);
        let ours = Wish {
            size,
            // Without a callback the runtime ends the process: that stays so.
            callback: wish.callback.map(|_| on_error as _),
            data: self.as_data(),
            ..*wish
        };
        words::set_making_queue(true);
        // SAFETY: the caller's own arguments, but for the callback, which passes on to theirs.
        let mut status = unsafe { ours.call(make, queue) };
        if status != SUCCESS && second_size != size {
            let smaller = Wish {
                size: second_size,
                ..ours
            };
            // SAFETY: as above.
            status = unsafe { smaller.call(make, queue) };
        }
        words::set_making_queue(false);
        status
    }

    fn as_data(&'static self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }

    /// Sees the packets of the queue that was made from now on. False where that cannot be: it is no intercept queue.
    ///
    /// # Safety
    /// The queue must exist.
    unsafe fn observe(&'static self, gpu: Gpu, made: *mut Queue) -> bool {
        let Some(register) = table::queue_intercept_register::get() else {
            return false;
        };
        // SAFETY: the queue exists, as the caller says; so below.
        let size = unsafe { (*made).size };
        self.depth.reset(size);
        self.tags.reset(size);
        let counters = kernel_counters::of_gpu(gpu.handle);
        if !counters.is_null() {
            collector::register_end_of_counting(collector::LibraryUse::Commands);
        }
        self.counters.store(counters, Ordering::Release);
        self.queue.store(made, Ordering::Release);
        // SAFETY: as above.
        let doorbell = unsafe { (*made).doorbell };
        self.doorbell.store(doorbell, Ordering::Release);
        if let Some(enable) = table::profiling_set_profiler_enabled::get() {
            // SAFETY: as above.
            unsafe { enable(made, 1) };
        }
        // SAFETY: the state lives for ever.
        if unsafe { register(made, packets::on_packets, self.as_data()) } != SUCCESS {
            self.doorbell.store(0, Ordering::Release);
            self.queue.store(std::ptr::null_mut(), Ordering::Release);
            return false;
        }
        let number = u64::from(self.number.load(Ordering::Relaxed));
        let mut buffer = [0_u8; 32];
        let mut name = Text::new(&mut buffer);
        name.put(b"Queue ");
        name.number(number);
        events::label(
            Labelled::Queue,
            number,
            name.bytes(),
            &[(Key::Device, Value::Uint(u64::from(gpu.node)))],
        );
        true
    }
}

/// Sees to it that the runtime makes an intercept queue with an event that was never raised.
///
/// The thread of ROCr 6.4 that waits for signals forgets, at each look, how often the events behind two equal neighbours were raised, as
/// those of every queue are; one that was raised before keeps it awake for good. Events of signals that are gone are used again, the last
/// first. So as many signals as take all of them are made, and destroyed in that order.
fn renew_events() {
    /// More than a program has left over when it makes queues.
    const SIGNALS: usize = 64;
    let (Some(make), Some(destroy)) = (table::signal_create::get(), table::signal_destroy::get())
    else {
        return;
    };
    if layout() == Layout::UpTo55 {
        return;
    }
    let mut signals = [0_u64; SIGNALS];
    for signal in &mut signals {
        // SAFETY: no consumers are named, and there is room for the handle.
        if unsafe { make(0, 0, std::ptr::null(), &raw mut *signal) } != SUCCESS {
            *signal = 0;
        }
    }
    for signal in signals.into_iter().filter(|signal| *signal != 0) {
        // SAFETY: made above, and not handed out.
        unsafe { destroy(signal) };
    }
}

/// # Safety
/// As the runtime calls it, with the [`State`] that was given to it, which lives for ever.
unsafe extern "C" fn on_error(status: Status, source: *mut Queue, data: *mut c_void) {
    // SAFETY: `create` passes its state, which lives for ever.
    let state = unsafe { &*data.cast::<State>() };
    faults::queue_failed(state.number.load(Ordering::Relaxed), status);
    collector::flush(false);
    // SAFETY: written before the queue existed.
    let callback = unsafe { *state.callback.get() };
    let known = state.queue.load(Ordering::Acquire);
    // The program knows the queue in front of the one that failed.
    let queue = if known.is_null() { source } else { known };
    if let Some(callback) = callback {
        // SAFETY: the program's own callback and data.
        unsafe { callback(status, queue, state.callback_data.load(Ordering::Relaxed)) };
    }
}

/// Destroys a queue.
///
/// # Safety
/// As `hsa_queue_destroy`.
pub unsafe fn destroy(queue: *mut Queue) -> Status {
    let Some(real) = table::queue_destroy::get() else {
        return GENERIC_ERROR;
    };
    let seen = find(queue);
    if let Some((_, state)) = seen {
        collector::flush(false);
        state.doorbell.store(0, Ordering::Release);
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
    }
    // SAFETY: the caller's own argument.
    let status = unsafe { real(queue) };
    if let Some((place, state)) = seen {
        if status == SUCCESS {
            collector::give_up(place);
            state.used.store(false, Ordering::Release);
        } else {
            state.queue.store(queue, Ordering::Release);
            // SAFETY: it was not destroyed.
            let doorbell = unsafe { (*queue).doorbell };
            state.doorbell.store(doorbell, Ordering::Release);
        }
    }
    status
}
