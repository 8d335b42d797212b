//! The GPUs, as the HSA runtime lists them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rsys_wire::event::{Key, Labelled, Value};

use crate::events;
use crate::sources::gpu::devices;
use crate::sources::gpu::hsa::abi::{SUCCESS, Status, agent_info};
use crate::sources::gpu::hsa::table;

const MOST: usize = 64;
const GPU: u32 = 1;

#[derive(Debug)]
struct Entry {
    handle: AtomicU64,
    /// The driver's number of it.
    node: AtomicU32,
}

static GPUS: [Entry; MOST] = [const {
    Entry {
        handle: AtomicU64::new(0),
        node: AtomicU32::new(0),
    }
}; MOST];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A GPU.
#[derive(Debug, Clone, Copy)]
pub struct Gpu {
    /// What the runtime calls it.
    pub handle: u64,
    /// Its number in the trace.
    pub node: u32,
}

fn gpus() -> impl Iterator<Item = Gpu> {
    let count = COUNT.load(Ordering::Acquire) as usize;
    GPUS.iter().take(count).map(|entry| Gpu {
        handle: entry.handle.load(Ordering::Relaxed),
        node: entry.node.load(Ordering::Relaxed),
    })
}

/// Does something for each GPU.
pub fn for_each_gpu(what: impl FnMut(Gpu)) {
    gpus().for_each(what);
}

/// The GPU with this handle; `None` for CPUs.
pub fn find(handle: u64) -> Option<Gpu> {
    gpus().find(|gpu| gpu.handle == handle)
}

/// The GPU, if there is but one.
pub fn only() -> Option<Gpu> {
    let mut all = gpus();
    let first = all.next();
    first.filter(|_| all.next().is_none())
}

/// Lists the GPUs and records their names.
pub fn start() {
    COUNT.store(0, Ordering::Release);
    if let Some(iterate) = table::iterate_agents::get() {
        // SAFETY: the callback takes no data.
        unsafe { iterate(on_agent, std::ptr::null_mut()) };
    }
}

fn ask<T>(agent: u64, what: u32, mut value: T) -> Option<T> {
    let get = table::agent_get_info::get()?;
    // SAFETY: the callers give a value of the size that the runtime's headers give for what is asked.
    let asked = unsafe { get(agent, what, (&raw mut value).cast()) };
    (asked == SUCCESS).then_some(value)
}

fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

/// # Safety
/// As the runtime calls it, with an agent of its own.
unsafe extern "C" fn on_agent(agent: u64, _: *mut c_void) -> Status {
    if ask(agent, agent_info::DEVICE, 0_u32) != Some(GPU) {
        return SUCCESS;
    }
    let number = COUNT.load(Ordering::Relaxed);
    let Some(entry) = GPUS.get(number as usize) else {
        return SUCCESS;
    };
    let node = ask(agent, agent_info::DRIVER_NODE, 0_u32).unwrap_or(number);
    entry.handle.store(agent, Ordering::Relaxed);
    entry
        .node
        .store(devices::number_of_node(node), Ordering::Relaxed);
    COUNT.store(number.wrapping_add(1), Ordering::Release);
    tell(agent, node);
    SUCCESS
}

/// A GPU's address on PCI.
pub fn address(agent: u64) -> [u8; 12] {
    let bdf = ask(agent, agent_info::BDF, 0_u32).unwrap_or(0);
    let domain = ask(agent, agent_info::DOMAIN, 0_u32).unwrap_or(0);
    pci_address(domain, bdf)
}

fn tell(agent: u64, node: u32) {
    let target = ask(agent, agent_info::NAME, [0_u8; 64]).unwrap_or([0; 64]);
    let product = ask(agent, agent_info::PRODUCT, [0_u8; 64]).unwrap_or([0; 64]);
    // The runtime writes 21 bytes and a NUL.
    let uuid = ask(agent, agent_info::UUID, [0_u8; 64]).unwrap_or([0; 64]);
    let pci = address(agent);
    let name = if text(&product).is_empty() {
        text(&target)
    } else {
        text(&product)
    };
    events::label(
        Labelled::Device,
        u64::from(devices::number_of_node(node)),
        name,
        &[
            (Key::Node, Value::Uint(u64::from(node))),
            (Key::Pci, Value::Text(&pci)),
            (Key::Uuid, Value::Text(text(&uuid))),
            (Key::Target, Value::Text(text(&target))),
            (Key::Product, Value::Text(text(&product))),
        ],
    );
}

/// As `0000:08:00.0`.
fn pci_address(domain: u32, bdf: u32) -> [u8; 12] {
    let mut address = *b"0000:00:00.0";
    let digit = |value: u32, shift: u32| {
        let nibble = value.wrapping_shr(shift) as u8 & 15;
        if nibble < 10 {
            b'0'.wrapping_add(nibble)
        } else {
            b'a'.wrapping_add(nibble.wrapping_sub(10))
        }
    };
    let digits = [
        (0, domain, 12),
        (1, domain, 8),
        (2, domain, 4),
        (3, domain, 0),
        (5, bdf, 12),
        (6, bdf, 8),
        (8, bdf >> 3 & 31, 4),
        (9, bdf >> 3 & 31, 0),
        (11, bdf & 7, 0),
    ];
    for (place, value, shift) in digits {
        if let Some(byte) = address.get_mut(place) {
            *byte = digit(value, shift);
        }
    }
    address
}
