//! The GPUs of the machine, as its driver numbers them.
//!
//! HIP and HSA number the GPUs that a process may use; variables like `HIP_VISIBLE_DEVICES` change what each number means. A GPU's number in
//! a trace is its place among the GPUs of the machine, in the order of the driver's nodes: the same in all processes.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rsys_wire::event::{Arg, Key, Labelled, Value};

use crate::events;
use crate::sources::gpu::hip_functions as hip;
use crate::sys::text::Text;
use crate::target::environment::Environment;

const MOST_GPUS: usize = 64;
const MOST_NODES: u32 = 256;

/// One GPU, as far as the driver reports it.
#[derive(Debug, Clone, Copy, Default)]
struct Gpu {
    node: u32,
    domain: u32,
    location: u32,
    target: u32,
    unique: u64,
}

#[derive(Debug)]
struct Gpus(UnsafeCell<[Gpu; MOST_GPUS]>);

// SAFETY: written once, before `COUNT` says that there is something to read.
unsafe impl Sync for Gpus {}

static GPUS: Gpus = Gpus(UnsafeCell::new(
    [Gpu {
        node: 0,
        domain: 0,
        location: 0,
        target: 0,
        unique: 0,
    }; MOST_GPUS],
));
static COUNT: AtomicUsize = AtomicUsize::new(0);
static IS_LEARNT: AtomicBool = AtomicBool::new(false);

fn gpus() -> &'static [Gpu] {
    // SAFETY: see `Gpus`.
    let all = unsafe { &*GPUS.0.get() };
    all.get(..COUNT.load(Ordering::Acquire)).unwrap_or(&[])
}

/// Reads what the driver reports, once.
pub fn learn() {
    if IS_LEARNT.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: see `Gpus`; the swap lets one in.
    let all = unsafe { &mut *GPUS.0.get() };
    let mut count = 0;
    let mut text = [0_u8; 4096];
    for node in 0..MOST_NODES {
        // A processor's node has the id 0; the id of a GPU that this process may not use cannot be read.
        let id = match read(node, b"gpu_id", &mut text) {
            Read::Absent => break,
            Read::Forbidden => None,
            Read::Bytes(bytes) => Some(number(text.get(..bytes).unwrap_or(&[]).trim_ascii())),
        };
        if id == Some(0) {
            continue;
        }
        let Some(gpu) = all.get_mut(count) else {
            break;
        };
        count += 1;
        *gpu = Gpu {
            node,
            ..Gpu::default()
        };
        let Read::Bytes(bytes) = read(node, b"properties", &mut text) else {
            continue;
        };
        for line in text
            .get(..bytes)
            .unwrap_or(&[])
            .split(|byte| *byte == b'\n')
        {
            let mut words = line.split(|byte| *byte == b' ');
            let (Some(name), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            match name {
                b"domain" => gpu.domain = number(value) as u32,
                b"location_id" => gpu.location = number(value) as u32,
                b"gfx_target_version" => gpu.target = number(value) as u32,
                b"unique_id" => gpu.unique = number(value),
                _ => {}
            }
        }
    }
    COUNT.store(count, Ordering::Release);
}

fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_u64, |sum, byte| {
            sum.wrapping_mul(10).wrapping_add(u64::from(*byte - b'0'))
        })
}

enum Read {
    Absent,
    Forbidden,
    Bytes(usize),
}

/// Reads a file of a node. By the C library, not past it: what stands between a program and its devices stands between us and them, too.
fn read(node: u32, file: &[u8], buffer: &mut [u8]) -> Read {
    let mut path = [0_u8; 96];
    let mut text = Text::new(&mut path);
    text.put(b"/sys/class/kfd/kfd/topology/nodes/");
    text.number(u64::from(node));
    text.put(b"/");
    text.put(file);
    text.put(b"\0");
    let Ok(path) = CStr::from_bytes_with_nul(text.bytes()) else {
        return Read::Absent;
    };
    // SAFETY: a NUL-terminated path, and a buffer with its size; the descriptor is ours. errno stays as it was.
    unsafe {
        let errno = *libc::__errno_location();
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            *libc::__errno_location() = errno;
            return Read::Absent;
        }
        let bytes = libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(fd);
        *libc::__errno_location() = errno;
        usize::try_from(bytes).map_or(Read::Forbidden, Read::Bytes)
    }
}

/// The number of the GPU that the driver calls a node. That of the node where it is not known.
pub fn number_of_node(node: u32) -> u32 {
    gpus()
        .iter()
        .position(|gpu| gpu.node == node)
        .map_or(node, |place| place as u32)
}

/// The node of the GPU with a PCI address, as `0000:c3:00.0`.
fn node_of_address(address: &[u8]) -> Option<u32> {
    gpus().iter().find_map(|gpu| {
        let mut text = [0_u8; 32];
        (gpu.address(&mut text).eq_ignore_ascii_case(address)).then_some(gpu.node)
    })
}

impl Gpu {
    fn address<'a>(&self, buffer: &'a mut [u8; 32]) -> &'a [u8] {
        let mut text = Text::new(buffer);
        text.hex(u64::from(self.domain), 4);
        text.put(b":");
        text.hex(u64::from(self.location >> 8 & 0xff), 2);
        text.put(b":");
        text.hex(u64::from(self.location >> 3 & 0x1f), 2);
        text.put(b".");
        text.hex(u64::from(self.location & 7), 1);
        text.into_bytes()
    }

    /// As compilers call it: 90010 is gfx90a.
    fn target<'a>(&self, buffer: &'a mut [u8; 32]) -> &'a [u8] {
        let mut text = Text::new(buffer);
        text.put(b"gfx");
        text.number(u64::from(self.target / 10_000));
        text.hex(u64::from(self.target / 100 % 100), 1);
        text.hex(u64::from(self.target % 100), 1);
        text.into_bytes()
    }
}

/// Names a GPU in the trace, by its node, what it is sold as (may be empty) and HIP's number of it.
fn label(node: u32, product: &[u8], ordinal: u32) {
    let Some(gpu) = gpus().iter().find(|gpu| gpu.node == node) else {
        return;
    };
    let (mut address, mut target, mut unique) = ([0; 32], [0; 32], [0; 32]);
    let address = gpu.address(&mut address);
    let target = gpu.target(&mut target);
    let mut uuid = Text::new(&mut unique);
    uuid.put(b"GPU-");
    uuid.hex(gpu.unique, 16);
    let name = if product.is_empty() { target } else { product };
    let all: [Arg<'_>; 6] = [
        (Key::Node, Value::Uint(u64::from(node))),
        (Key::Pci, Value::Text(address)),
        (Key::Target, Value::Text(target)),
        (Key::Product, Value::Text(name)),
        (Key::Ordinal, Value::Uint(u64::from(ordinal))),
        (Key::Uuid, Value::Text(uuid.bytes())),
    ];
    // A GPU without an id of its own reports 0.
    let known = if gpu.unique == 0 { 5 } else { 6 };
    events::label(
        Labelled::Device,
        u64::from(number_of_node(node)),
        name,
        all.get(..known).unwrap_or(&all),
    );
}

/// The variables that choose which GPUs a process sees.
const VARIABLES: [(&str, &[u8]); 4] = [
    ("HIP_VISIBLE_DEVICES", b"gpu HIP_VISIBLE_DEVICES"),
    ("ROCR_VISIBLE_DEVICES", b"gpu ROCR_VISIBLE_DEVICES"),
    ("CUDA_VISIBLE_DEVICES", b"gpu CUDA_VISIBLE_DEVICES"),
    ("GPU_DEVICE_ORDINAL", b"gpu GPU_DEVICE_ORDINAL"),
];

/// Whether HIP's numbers of GPUs are ours, because the process sees all of them.
pub fn sees_all() -> bool {
    let environment = Environment::current();
    VARIABLES
        .iter()
        .all(|(name, _)| environment.get(name).is_none())
}

/// Adds a version of HIP, as HIP counts it: 60443484 is 6.4.43484.
pub fn put_hip_version(text: &mut Text<'_>, version: u32) {
    text.number(u64::from(version / 10_000_000));
    text.put(b".");
    text.number(u64::from(version / 100_000 % 100));
    text.put(b".");
    text.number(u64::from(version % 100_000));
}

/// Tells of HIP's version and GPUs. HIP must be up; not on a thread of the program's.
pub fn tell_of_hip(version: u32) {
    let mut buffer = [0_u8; 192];
    let mut text = Text::new(&mut buffer);
    put_hip_version(&mut text, version);
    events::fact(b"hip version", text.bytes());
    tell_of_variables();
    let (Some(count_of), Some(address_of), Some(name_of)) = (
        hip::device_count::get(),
        hip::pci_address::get(),
        hip::device_name::get(),
    ) else {
        return;
    };
    let mut count: c_int = 0;
    // SAFETY: a valid place.
    if unsafe { count_of(&raw mut count) } != 0 {
        return;
    }
    for ordinal in 0..count.min(MOST_GPUS as c_int) {
        let (mut address, mut name) = ([0_u8; 64], [0_u8; 128]);
        // SAFETY: buffers with their sizes, of which the last byte stays 0.
        let told = unsafe {
            address_of(address.as_mut_ptr().cast(), 63, ordinal) == 0
                && name_of(name.as_mut_ptr().cast(), 127, ordinal) == 0
        };
        let (address, name) = (until_nul(&address), until_nul(&name));
        if !told {
            continue;
        }
        let mut key = [0_u8; 32];
        let mut key = Text::new(&mut key);
        key.put(b"hip device ");
        key.number(ordinal.unsigned_abs().into());
        let mut buffer = [0_u8; 192];
        let mut text = Text::new(&mut buffer);
        if let Some(node) = node_of_address(address) {
            label(node, name, ordinal.unsigned_abs());
            text.put(b"GPU ");
            text.number(u64::from(number_of_node(node)));
            text.put(b", ");
        }
        text.put(name);
        text.put(b", ");
        text.put(address);
        events::fact(key.bytes(), text.bytes());
    }
}

fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Tells the variables that choose GPUs, as the program was started with.
fn tell_of_variables() {
    for (name, key) in VARIABLES {
        if let Some(value) = Environment::current().get(name) {
            events::fact(key, value.to_bytes());
        }
    }
}
