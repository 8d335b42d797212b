//! The interface for tools of OpenMP (OMPT), as far as it is used here: OpenMP 5.1 specification, chapter 4 and section 19 of 5.2; checked against
//! the runtimes of LLVM 14 and 19 and Intel's. All of it is stable since OpenMP 5.0; the `_emi` callbacks came with 5.1.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A word that a runtime keeps for the tool with a thread, region or task (`ompt_data_t`).
pub type Data = *mut u64;
/// The address that the construct's call into the runtime returns to.
pub type CodeAddress = *const c_void;
/// Any callback or entry point.
pub type Function = *const ();

/// `ompt_function_lookup_t`.
pub type Lookup = unsafe extern "C" fn(*const c_char) -> Function;
/// `ompt_set_callback_t`.
pub type SetCallback = unsafe extern "C" fn(c_int, Function) -> c_int;
/// `ompt_get_callback_t`.
pub type GetCallback = unsafe extern "C" fn(c_int, *mut Function) -> c_int;
/// `ompt_initialize_t`.
pub type Initialize = unsafe extern "C" fn(Lookup, c_int, Data) -> c_int;
/// `ompt_finalize_t`.
pub type Finalize = unsafe extern "C" fn(Data);
/// `ompt_start_tool`.
pub type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *mut StartResult;

/// What `ompt_start_tool` returns (`ompt_start_tool_result_t`).
#[derive(Debug)]
#[repr(C)]
pub struct StartResult {
    /// Called when the runtime starts.
    pub initialize: Option<Initialize>,
    /// Called when it ends.
    pub finalize: Option<Finalize>,
    /// The tool's own word.
    pub tool_data: u64,
}

// Callbacks, by their numbers (`ompt_callbacks_t`).
pub const PARALLEL_BEGIN: c_int = 3;
pub const PARALLEL_END: c_int = 4;
pub const TASK_CREATE: c_int = 5;
pub const TASK_SCHEDULE: c_int = 6;
pub const IMPLICIT_TASK: c_int = 7;
pub const TARGET: c_int = 8;
pub const TARGET_DATA_OP: c_int = 9;
pub const TARGET_SUBMIT: c_int = 10;
pub const MUTEX_RELEASED: c_int = 17;
pub const WORK: c_int = 20;
pub const MASKED: c_int = 21;
pub const SYNC_REGION: c_int = 23;
pub const MUTEX_ACQUIRE: c_int = 26;
pub const MUTEX_ACQUIRED: c_int = 27;
pub const NEST_LOCK: c_int = 28;
pub const CANCEL: c_int = 30;
pub const REDUCTION: c_int = 31;
pub const TARGET_EMI: c_int = 33;
pub const TARGET_DATA_OP_EMI: c_int = 34;
pub const TARGET_SUBMIT_EMI: c_int = 35;
/// One more than the highest number that is known.
pub const CALLBACKS: usize = 64;

/// `ompt_set_error`, `_never`, `_impossible` are 0 to 2; from here on the event is reported.
pub const SET_SOMETIMES: c_int = 3;

// `ompt_scope_endpoint_t`.
pub const BEGIN: c_int = 1;
pub const END: c_int = 2;

// `ompt_task_flag_t`.
pub const TASK_INITIAL: c_int = 1;

// `ompt_task_status_t`.
pub const TASK_COMPLETE: c_int = 1;
pub const TASK_CANCEL: c_int = 3;
pub const TASK_DETACH: c_int = 4;

// `ompt_mutex_t`; 1 and 3 are locks.
pub const TEST_LOCK: c_int = 2;
pub const TEST_NEST_LOCK: c_int = 4;
pub const CRITICAL: c_int = 5;
pub const ATOMIC: c_int = 6;
pub const ORDERED: c_int = 7;

pub type ParallelBegin =
    unsafe extern "C" fn(Data, *const c_void, Data, c_uint, c_int, CodeAddress);
pub type ParallelEnd = unsafe extern "C" fn(Data, Data, c_int, CodeAddress);
pub type TaskCreate = unsafe extern "C" fn(Data, *const c_void, Data, c_int, c_int, CodeAddress);
pub type TaskSchedule = unsafe extern "C" fn(Data, c_int, Data);
pub type ImplicitTask = unsafe extern "C" fn(c_int, Data, Data, c_uint, c_uint, c_int);
pub type Work = unsafe extern "C" fn(c_int, c_int, Data, Data, u64, CodeAddress);
pub type Masked = unsafe extern "C" fn(c_int, Data, Data, CodeAddress);
pub type SyncRegion = unsafe extern "C" fn(c_int, c_int, Data, Data, CodeAddress);
pub type MutexAcquire = unsafe extern "C" fn(c_int, c_uint, c_uint, u64, CodeAddress);
pub type Mutex = unsafe extern "C" fn(c_int, u64, CodeAddress);
pub type NestLock = unsafe extern "C" fn(c_int, u64, CodeAddress);
pub type Cancel = unsafe extern "C" fn(Data, c_int, CodeAddress);
pub type Target = unsafe extern "C" fn(c_int, c_int, c_int, Data, u64, CodeAddress);
pub type TargetDataOp = unsafe extern "C" fn(
    u64,
    u64,
    c_int,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    usize,
    CodeAddress,
);
pub type TargetSubmit = unsafe extern "C" fn(u64, u64, c_uint);
pub type TargetEmi = unsafe extern "C" fn(c_int, c_int, c_int, Data, Data, Data, CodeAddress);
pub type TargetDataOpEmi = unsafe extern "C" fn(
    c_int,
    Data,
    Data,
    *mut u64,
    c_int,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    usize,
    CodeAddress,
);
pub type TargetSubmitEmi = unsafe extern "C" fn(c_int, Data, *mut u64, c_uint);
