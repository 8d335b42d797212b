//! The functions that Kokkos calls, under the names of its interface for tools.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rsys_wire::event::{Arg, ArgWords, Key, Value};

use super::chain::Other;
use super::{SpaceHandle, begin, begin_known, device, end, mark, sections};
use crate::events::texts::{self, StaticText};
use crate::state;

/// Defines functions of the interface: what we do, then what the other tool does.
macro_rules! hooks {
    ($(fn $name:ident($($argument:ident: $type:ty),*) = $body:path;)*) => {
        $(
            /// # Safety
            /// As Kokkos calls it.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) {
                static OTHER: Other = Other::new(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                });
                type Function = unsafe extern "C" fn($($type),*);
                // SAFETY: tools declare the function of this name so; null is None.
                let other = unsafe { std::mem::transmute::<*mut (), Option<Function>>(OTHER.get()) };
                $body($($argument,)* || {
                    if let Some(other) = other {
                        // SAFETY: Kokkos's own arguments.
                        unsafe { other($($argument),*) };
                    }
                    other.is_some()
                });
            }
        )*
    };
}

hooks! {
    fn kokkosp_init_library(sequence: i32, version: u64, devices: u32, infos: *mut c_void) = init;
    fn kokkosp_finalize_library() = finalize;
    fn kokkosp_request_tool_settings(count: u32, settings: *mut ToolSettings) = request_settings;
    fn kokkosp_begin_parallel_for(name: *const c_char, device: u32, id: *mut u64) = begin_for;
    fn kokkosp_end_parallel_for(id: u64) = end_kernel;
    fn kokkosp_begin_parallel_reduce(name: *const c_char, device: u32, id: *mut u64) = begin_reduce;
    fn kokkosp_end_parallel_reduce(id: u64) = end_kernel;
    fn kokkosp_begin_parallel_scan(name: *const c_char, device: u32, id: *mut u64) = begin_scan;
    fn kokkosp_end_parallel_scan(id: u64) = end_kernel;
    fn kokkosp_begin_fence(name: *const c_char, device: u32, id: *mut u64) = begin_fence;
    fn kokkosp_end_fence(id: u64) = end_kernel;
    fn kokkosp_push_profile_region(name: *const c_char) = push_region;
    fn kokkosp_pop_profile_region() = pop_region;
    fn kokkosp_create_profile_section(name: *const c_char, number: *mut u32) = create_section;
    fn kokkosp_destroy_profile_section(number: u32) = destroy_section;
    fn kokkosp_start_profile_section(number: u32) = start_section;
    fn kokkosp_stop_profile_section(number: u32) = stop_section;
    fn kokkosp_profile_event(name: *const c_char) = event;
    fn kokkosp_allocate_data(space: SpaceHandle, label: *const c_char, address: *const c_void, bytes: u64) = allocate;
    fn kokkosp_deallocate_data(space: SpaceHandle, label: *const c_char, address: *const c_void, bytes: u64) = deallocate;
    fn kokkosp_begin_deep_copy(to: SpaceHandle, to_label: *const c_char, to_address: *const c_void, from: SpaceHandle,
        from_label: *const c_char, from_address: *const c_void, bytes: u64) = begin_deep_copy;
    fn kokkosp_end_deep_copy() = end_deep_copy;
    fn kokkosp_dual_view_sync(label: *const c_char, address: *const c_void, is_device: bool) = pass_on_view;
    fn kokkosp_dual_view_modify(label: *const c_char, address: *const c_void, is_device: bool) = pass_on_view;
    fn kokkosp_declare_metadata(key: *const c_char, value: *const c_char) = pass_on_metadata;
}

static PARALLEL_FOR: StaticText = StaticText::new("parallel_for");
static PARALLEL_REDUCE: StaticText = StaticText::new("parallel_reduce");
static PARALLEL_SCAN: StaticText = StaticText::new("parallel_scan");
static FENCE: StaticText = StaticText::new("fence");
static REGION: StaticText = StaticText::new("region");
static EVENT: StaticText = StaticText::new("event");
static ALLOCATE: StaticText = StaticText::new("allocate");
static DEALLOCATE: StaticText = StaticText::new("deallocate");
static DEEP_COPY: StaticText = StaticText::new("deep_copy");

/// Fences that Kokkos makes only because a tool asks for them.
const FENCE_OF_TOOL: &[u8] = b"Kokkos Profile Tool Fence";

/// `Kokkos_Tools_ToolSettings`: room for 256 bytes, of which the first is in use.
#[derive(Debug)]
#[repr(C)]
pub struct ToolSettings {
    requires_global_fencing: bool,
    reserved: [u8; 255],
}

/// Whether Kokkos has started us, in this process or in its parent.
static IS_STARTED: AtomicBool = AtomicBool::new(false);
static NEXT_KERNEL: AtomicU64 = AtomicU64::new(1);

/// Whether Kokkos has started us.
pub fn is_started() -> bool {
    IS_STARTED.load(Ordering::Acquire)
}

fn init(
    _sequence: i32,
    _version: u64,
    _devices: u32,
    _infos: *mut c_void,
    other: impl FnOnce() -> bool,
) {
    IS_STARTED.store(true, Ordering::Release);
    other();
}

fn finalize(other: impl FnOnce() -> bool) {
    other();
}

/// Without an answer Kokkos waits for the device around every kernel. Another tool has the last word; one that says nothing wants that.
fn request_settings(_count: u32, settings: *mut ToolSettings, other: impl FnOnce() -> bool) {
    let has_other = !super::chain::find(c"kokkosp_init_library").is_null();
    // SAFETY: null, or Kokkos's own, for us to fill in.
    if let Some(settings) = unsafe { settings.as_mut() }.filter(|_| !has_other) {
        settings.requires_global_fencing = false;
    }
    other();
}

fn arguments(what: &'static StaticText, id: u32) -> [Arg<'static>; 4] {
    let [space, number, instance] = device(id);
    [
        (Key::Operation, Value::Known(what.key())),
        space,
        number,
        instance,
    ]
}

/// A kernel gets its number from the other tool, if there is one.
fn number(id: *mut u64, other: impl FnOnce() -> bool) {
    if !other()
        // SAFETY: null, or where Kokkos wants the number.
        && let Some(id) = unsafe { id.as_mut() }
    {
        *id = NEXT_KERNEL.fetch_add(1, Ordering::Relaxed);
    }
}

fn begin_for(name: *const c_char, device: u32, id: *mut u64, other: impl FnOnce() -> bool) {
    number(id, other);
    begin(name, false, &arguments(&PARALLEL_FOR, device));
}

fn begin_reduce(name: *const c_char, device: u32, id: *mut u64, other: impl FnOnce() -> bool) {
    number(id, other);
    begin(name, false, &arguments(&PARALLEL_REDUCE, device));
}

fn begin_scan(name: *const c_char, device: u32, id: *mut u64, other: impl FnOnce() -> bool) {
    number(id, other);
    begin(name, false, &arguments(&PARALLEL_SCAN, device));
}

fn begin_fence(name: *const c_char, device: u32, id: *mut u64, other: impl FnOnce() -> bool) {
    number(id, other);
    let is_of_tool = texts::bytes_of(name)
        .windows(FENCE_OF_TOOL.len())
        .any(|part| part == FENCE_OF_TOOL);
    begin(name, is_of_tool, &arguments(&FENCE, device));
}

fn end_kernel(_id: u64, other: impl FnOnce() -> bool) {
    end();
    other();
}

fn push_region(name: *const c_char, other: impl FnOnce() -> bool) {
    begin(name, false, &[(Key::Operation, Value::Known(REGION.key()))]);
    other();
}

fn pop_region(other: impl FnOnce() -> bool) {
    end();
    other();
}

fn create_section(name: *const c_char, number: *mut u32, other: impl FnOnce() -> bool) {
    let is_numbered = other();
    // SAFETY: null, or where Kokkos wants the number.
    if let Some(number) = unsafe { number.as_mut() } {
        if !is_numbered {
            *number = sections::next_number();
        }
        sections::create(name, *number);
    }
}

fn destroy_section(number: u32, other: impl FnOnce() -> bool) {
    sections::destroy(number);
    other();
}

fn start_section(number: u32, other: impl FnOnce() -> bool) {
    sections::start(number);
    other();
}

fn stop_section(number: u32, other: impl FnOnce() -> bool) {
    sections::stop(number);
    other();
}

fn event(name: *const c_char, other: impl FnOnce() -> bool) {
    mark(name, &[(Key::Operation, Value::Known(EVENT.key()))]);
    other();
}

fn memory(
    what: &'static StaticText,
    space: SpaceHandle,
    label: *const c_char,
    address: *const c_void,
    bytes: u64,
) {
    let args = [
        (Key::Operation, Value::Known(what.key())),
        (Key::Space, Value::Known(space.key())),
        (Key::Address, Value::Pointer(address.addr() as u64)),
        (Key::Bytes, Value::Uint(bytes)),
    ];
    mark(label, &args);
}

fn allocate(
    space: SpaceHandle,
    label: *const c_char,
    address: *const c_void,
    bytes: u64,
    other: impl FnOnce() -> bool,
) {
    memory(&ALLOCATE, space, label, address, bytes);
    other();
}

fn deallocate(
    space: SpaceHandle,
    label: *const c_char,
    address: *const c_void,
    bytes: u64,
    other: impl FnOnce() -> bool,
) {
    memory(&DEALLOCATE, space, label, address, bytes);
    other();
}

#[allow(clippy::too_many_arguments, reason = "the interface's signature")]
fn begin_deep_copy(
    to: SpaceHandle,
    to_label: *const c_char,
    to_address: *const c_void,
    from: SpaceHandle,
    from_label: *const c_char,
    from_address: *const c_void,
    bytes: u64,
    other: impl FnOnce() -> bool,
) {
    if state::settings().kokkos_deep_copy {
        let mut args = ArgWords::new();
        args.extend(&[
            (Key::Bytes, Value::Uint(bytes)),
            (Key::DestinationSpace, Value::Known(to.key())),
            (
                Key::DestinationLabel,
                Value::Known(texts::key_of(texts::bytes_of(to_label))),
            ),
            (Key::Destination, Value::Pointer(to_address.addr() as u64)),
            (Key::SourceSpace, Value::Known(from.key())),
            (
                Key::SourceLabel,
                Value::Known(texts::key_of(texts::bytes_of(from_label))),
            ),
            (Key::Source, Value::Pointer(from_address.addr() as u64)),
        ]);
        begin_known(&DEEP_COPY, &args);
    }
    other();
}

fn end_deep_copy(other: impl FnOnce() -> bool) {
    if state::settings().kokkos_deep_copy {
        end();
    }
    other();
}

fn pass_on_view(
    _label: *const c_char,
    _address: *const c_void,
    _is_device: bool,
    other: impl FnOnce() -> bool,
) {
    other();
}

fn pass_on_metadata(_key: *const c_char, _value: *const c_char, other: impl FnOnce() -> bool) {
    other();
}
