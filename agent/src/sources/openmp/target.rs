//! Offloading: target regions, what they move, and what they submit to a device.

use std::ffi::{c_int, c_uint, c_void};

use rsys_wire::event::{Key, Value};

use super::abi::{self, CodeAddress, Data};
use super::chain::{self, callbacks};
use super::{address, begin, end, mark};
use crate::events::texts::StaticText;

callbacks! {
    /// A target construct begins or ends.
    fn on_target_emi(kind: c_int, endpoint: c_int, device: c_int, task: Data, target_task: Data, target: Data, code: CodeAddress)
        = TARGET_EMI as TargetEmi, target_emi;
    /// Memory of a device is allocated, freed or copied.
    fn on_data_op_emi(endpoint: c_int, target_task: Data, target: Data, operation: *mut u64, kind: c_int, source: *const c_void,
        source_device: c_int, destination: *const c_void, destination_device: c_int, bytes: usize, code: CodeAddress)
        = TARGET_DATA_OP_EMI as TargetDataOpEmi, data_op_emi;
    /// A kernel is submitted.
    fn on_submit_emi(endpoint: c_int, target: Data, operation: *mut u64, teams: c_uint)
        = TARGET_SUBMIT_EMI as TargetSubmitEmi, submit_emi;
    /// The same of older runtimes.
    fn on_target(kind: c_int, endpoint: c_int, device: c_int, task: Data, target: u64, code: CodeAddress)
        = TARGET as Target, old_target;
    /// The same of older runtimes, once per operation.
    fn on_data_op(target: u64, operation: u64, kind: c_int, source: *const c_void, source_device: c_int, destination: *const c_void,
        destination_device: c_int, bytes: usize, code: CodeAddress) = TARGET_DATA_OP as TargetDataOp, old_data_op;
    /// The same of older runtimes, once per kernel.
    fn on_submit(target: u64, operation: u64, teams: c_uint) = TARGET_SUBMIT as TargetSubmit, old_submit;
}

/// Each new callback, the old one in its place, and ours for both.
static PAIRS: [(c_int, c_int); 3] = [
    (abi::TARGET_EMI, abi::TARGET),
    (abi::TARGET_DATA_OP_EMI, abi::TARGET_DATA_OP),
    (abi::TARGET_SUBMIT_EMI, abi::TARGET_SUBMIT),
];

fn ours(event: c_int) -> *const () {
    match event {
        abi::TARGET_EMI => on_target_emi as *const (),
        abi::TARGET_DATA_OP_EMI => on_data_op_emi as *const (),
        abi::TARGET_SUBMIT_EMI => on_submit_emi as *const (),
        abi::TARGET => on_target as *const (),
        abi::TARGET_DATA_OP => on_data_op as *const (),
        _ => on_submit as *const (),
    }
}

/// Sets our callbacks: the newer ones where the runtime has them.
pub fn set() {
    for (new, old) in PAIRS {
        if !chain::set_ours(new, ours(new)) {
            chain::set_ours(old, ours(old));
        }
    }
}

/// Another tool wants an event. Runtimes call the older callbacks only where the newer ones are not set.
pub fn make_way(event: c_int) {
    let pair = PAIRS.iter().find(|(_, old)| *old == event);
    if let Some((new, old)) = pair.filter(|(new, _)| chain::has_ours(*new)) {
        chain::forget_ours(*new);
        chain::set_ours(*old, ours(*old));
    }
}

/// By `ompt_target_t`, where `nowait` is 8 more.
static TARGETS: [StaticText; 5] = [
    StaticText::new("target"),
    StaticText::new("target"),
    StaticText::new("target enter data"),
    StaticText::new("target exit data"),
    StaticText::new("target update"),
];

/// By `ompt_target_data_op_t`, where those that do not wait are 16 more.
static DATA_OPS: [StaticText; 7] = [
    StaticText::new("data operation"),
    StaticText::new("allocate on device"),
    StaticText::new("copy to device"),
    StaticText::new("copy from device"),
    StaticText::new("free on device"),
    StaticText::new("associate"),
    StaticText::new("disassociate"),
];

static SUBMIT: StaticText = StaticText::new("submit kernel");

fn by_number(texts: &'static [StaticText], number: c_int) -> &'static StaticText {
    let found = usize::try_from(number).ok().and_then(|at| texts.get(at));
    found.unwrap_or(&texts[0])
}

fn old_target(
    kind: c_int,
    endpoint: c_int,
    device: c_int,
    _task: Data,
    _target: u64,
    code: CodeAddress,
) {
    target(kind, endpoint, device, code);
}

fn target_emi(
    kind: c_int,
    endpoint: c_int,
    device: c_int,
    _task: Data,
    _target_task: Data,
    _target: Data,
    code: CodeAddress,
) {
    target(kind, endpoint, device, code);
}

fn target(kind: c_int, endpoint: c_int, device: c_int, code: CodeAddress) {
    if endpoint == abi::BEGIN {
        let args = [(Key::Device, Value::Int(i64::from(device)))];
        begin(by_number(&TARGETS, kind & 7), address(code), &args);
    } else if endpoint == abi::END {
        end();
    }
}

#[allow(clippy::too_many_arguments, reason = "the interface's signature")]
fn data_op_emi(
    endpoint: c_int,
    _target_task: Data,
    _target: Data,
    _operation: *mut u64,
    kind: c_int,
    source: *const c_void,
    source_device: c_int,
    destination: *const c_void,
    destination_device: c_int,
    bytes: usize,
    code: CodeAddress,
) {
    if endpoint == abi::END {
        end();
        return;
    }
    let args = [
        (Key::Bytes, Value::Uint(bytes as u64)),
        (Key::Source, Value::Pointer(source.addr() as u64)),
        (Key::Destination, Value::Pointer(destination.addr() as u64)),
        (
            Key::Device,
            Value::Int(device_of(kind, source_device, destination_device)),
        ),
    ];
    let what = by_number(&DATA_OPS, kind & 15);
    if endpoint == abi::BEGIN {
        begin(what, address(code), &args);
    } else {
        mark(what, address(code), &args);
    }
}

/// The device that is not the host: where data comes from is one only when they are copied from there, or freed.
fn device_of(kind: c_int, source: c_int, destination: c_int) -> i64 {
    let is_at_source = matches!(kind & 15, 3 | 4);
    i64::from(if is_at_source { source } else { destination })
}

#[allow(clippy::too_many_arguments, reason = "the interface's signature")]
fn old_data_op(
    _target: u64,
    _operation: u64,
    kind: c_int,
    source: *const c_void,
    source_device: c_int,
    destination: *const c_void,
    destination_device: c_int,
    bytes: usize,
    code: CodeAddress,
) {
    let args = [
        (Key::Bytes, Value::Uint(bytes as u64)),
        (Key::Source, Value::Pointer(source.addr() as u64)),
        (Key::Destination, Value::Pointer(destination.addr() as u64)),
        (
            Key::Device,
            Value::Int(device_of(kind, source_device, destination_device)),
        ),
    ];
    mark(by_number(&DATA_OPS, kind & 15), address(code), &args);
}

fn submit_emi(endpoint: c_int, _target: Data, _operation: *mut u64, teams: c_uint) {
    if endpoint == abi::BEGIN {
        begin(&SUBMIT, 0, &[(Key::Teams, Value::Uint(u64::from(teams)))]);
    } else if endpoint == abi::END {
        end();
    }
}

fn old_submit(_target: u64, _operation: u64, teams: c_uint) {
    mark(&SUBMIT, 0, &[(Key::Teams, Value::Uint(u64::from(teams)))]);
}
