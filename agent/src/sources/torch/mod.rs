//! PyTorch: its operators, from a callback of its observer interface (`at::addGlobalCallback`, ATen/record_function.h).
//!
//! There are no headers of PyTorch here: the few functions that are needed are found by their names in the library that runs. From 1.12 on
//! an observer is a structure of two functions and some flags, whose layout did not change up to 2.15; before, it was another class. What came
//! with that change (`RecordFunction(StepCallbacks&&)`) must be there, or nothing is registered.
//!
//! PyTorch is opened when the program pleases. One function that it calls from its first moment on, `at::globalContext()`, is exported here in front of it: its
//! first call registers, and all others jump on.

mod shapes;

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use rsys_wire::event::{Arg, Category, Key, Value};

use crate::events;
use crate::events::texts;
use crate::interpose::symbols;
use crate::sources::source::Source;
use crate::state;
use crate::state::pause;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Torch],
    ..Source::NONE
};

/// An operator while it runs, `at::RecordFunction`.
type Operator = *const c_void;
/// `std::unique_ptr<at::ObserverContext>`: returned through a place that the caller has.
type Start = unsafe extern "C" fn(*mut *const Recorded, Operator) -> *mut *const Recorded;
type End = unsafe extern "C" fn(Operator, *const Recorded);

/// `at::RecordScope`: how many there are.
const SCOPES: usize = 10;
/// Operators, backward functions, functions of TorchScript, what the program marks, and the static runtime's: the others are no spans of time.
const OBSERVED: [usize; 6] = [0, 1, 2, 7, 8, 9];

/// `at::RecordFunctionCallback`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Callback {
    start: Start,
    end: End,
    sampling_probability: f64,
    scopes: [bool; SCOPES],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

/// What the end of an operator is handed when its beginning was recorded: an object of C++ that is never destroyed.
#[derive(Debug)]
#[repr(C)]
struct Recorded(&'static [unsafe extern "C" fn(*const Recorded); 2]);

/// Its destructors: the one in place, and the one that would free it.
static DESTRUCTORS: [unsafe extern "C" fn(*const Recorded); 2] = [nothing, nothing];
static RECORDED: Recorded = Recorded(&DESTRUCTORS);

/// # Safety
/// None.
unsafe extern "C" fn nothing(_recorded: *const Recorded) {}

/// The real `at::globalContext()`, from the first call on.
static CONTEXT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static NAME: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static IS_ASYNCHRONOUS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// # Safety
/// As PyTorch's function.
#[cfg_attr(not(test), unsafe(export_name = "_ZN2at13globalContextEv"))]
#[unsafe(naked)]
pub unsafe extern "C" fn global_context() -> *mut c_void {
    std::arch::naked_asm!(
        "mov rax, qword ptr [rip + {context}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "jmp {first}",
        context = sym CONTEXT,
        first = sym first_use,
    );
}

/// # Safety
/// As PyTorch's function.
#[cold]
unsafe extern "C" fn first_use() -> *mut c_void {
    let real = symbols::next(c"_ZN2at13globalContextEv");
    // SAFETY: the function of this name; null is None.
    let function = unsafe {
        std::mem::transmute::<*mut (), Option<unsafe extern "C" fn() -> *mut c_void>>(real)
    };
    let Some(function) = function else {
        return std::ptr::null_mut();
    };
    if CONTEXT.swap(real, Ordering::AcqRel).is_null() && events::records(Category::Torch) {
        register(real);
    }
    // SAFETY: no arguments.
    unsafe { function() }
}

/// Registers with the library that has this function.
fn register(function: *const ()) {
    let find = |name: &CStr| symbols::beside(function, name);
    let add = find(c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    let needed = [
        find(c"_ZNK2at14RecordFunction4nameEv"),
        find(c"_ZNK2at14RecordFunction7isAsyncEv"),
        // Not called: the structures are as they are known here.
        find(c"_ZN2at14RecordFunctionC1EONS_13StepCallbacksE"),
    ];
    let [name, is_asynchronous, _] = needed;
    // SAFETY: a function of this name takes the structure by value and returns its number; null is None.
    let add = unsafe {
        std::mem::transmute::<*mut (), Option<unsafe extern "C" fn(Callback) -> u64>>(add)
    };
    let is_known = needed.iter().all(|found| !found.is_null());
    let (Some(add), true) = (add, is_known) else {
        events::note(
            b"operators of PyTorch are not recorded: it has no interface for observers that rsys knows (version 1.12 and later)",
        );
        return;
    };
    NAME.store(name, Ordering::Release);
    IS_ASYNCHRONOUS.store(is_asynchronous, Ordering::Release);
    let with_shapes = state::settings().torch_shapes && shapes::begin(function);
    let mut scopes = [false; SCOPES];
    for scope in OBSERVED {
        if let Some(to) = scopes.get_mut(scope) {
            *to = true;
        }
    }
    // SAFETY: PyTorch's own function, with functions of ours that stay.
    unsafe {
        add(Callback {
            start: on_start,
            end: on_end,
            sampling_probability: 1.0,
            scopes,
            needs_inputs: with_shapes,
            needs_outputs: false,
            needs_ids: false,
        });
    }
}

/// An operator begins.
///
/// # Safety
/// As PyTorch calls it: a place for the result, and an operator.
unsafe extern "C" fn on_start(
    result: *mut *const Recorded,
    operator: Operator,
) -> *mut *const Recorded {
    // SAFETY: the caller's place.
    unsafe { *result = std::ptr::null() };
    if !events::records(Category::Torch) || pause::is_caller_paused() {
        return result;
    }
    // SAFETY: functions of these names, of an operator.
    let (name, is_asynchronous) = unsafe {
        let name = std::mem::transmute::<
            *mut (),
            Option<unsafe extern "C" fn(Operator) -> *const c_char>,
        >(NAME.load(Ordering::Acquire));
        let is_asynchronous = std::mem::transmute::<
            *mut (),
            Option<unsafe extern "C" fn(Operator) -> bool>,
        >(IS_ASYNCHRONOUS.load(Ordering::Acquire));
        match (name, is_asynchronous) {
            (Some(name), Some(is_asynchronous)) => (name(operator), is_asynchronous(operator)),
            _ => return result,
        }
    };
    // Such a one may end on another thread.
    if is_asynchronous {
        return result;
    }
    let mut room = [0; shapes::ROOM];
    let shapes = shapes::of(operator, &mut room);
    let args: [Arg<'_>; 1] = [(Key::Shapes, Value::Known(texts::key_of(shapes)))];
    let args = args.get(..usize::from(!shapes.is_empty())).unwrap_or(&[]);
    let name = texts::key_of(texts::bytes_of(name));
    if events::begin(Category::Torch, name, 0, args) {
        // SAFETY: as above.
        unsafe { *result = &raw const RECORDED };
    }
    result
}

/// An operator ends, on the thread where it began.
///
/// # Safety
/// As PyTorch calls it: with what [`on_start`] has returned.
unsafe extern "C" fn on_end(_operator: Operator, recorded: *const Recorded) {
    if !recorded.is_null() {
        events::end(Category::Torch, &[]);
    }
}
