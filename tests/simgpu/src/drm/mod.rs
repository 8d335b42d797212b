//! The graphics driver: what `ioctl` on a render node does. The runtimes ask it for descriptions, and those from ROCm 7 on have it map
//! memory that the compute driver made.

mod buffers;

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::sync::atomic::Ordering;

use self::buffers::Outcome;
use crate::process;
use crate::simulation::{self, Simulation};
use crate::{clock, sys};

const VERSION: u8 = 0x00;
const GET_CLIENT: u8 = 0x05;
const GEM_CLOSE: u8 = 0x09;
const GET_CAP: u8 = 0x0c;
const PRIME_HANDLE_TO_FD: u8 = 0x2d;
const PRIME_FD_TO_HANDLE: u8 = 0x2e;
const AMDGPU_GEM_MMAP: u8 = 0x41;
const AMDGPU_INFO: u8 = 0x45;
const AMDGPU_GEM_METADATA: u8 = 0x46;
const AMDGPU_GEM_VA: u8 = 0x48;
const AMDGPU_GEM_OP: u8 = 0x50;

/// Questions of `AMDGPU_INFO`, as in the kernel's `amdgpu_drm.h`.
mod query {
    pub const ACCEL_WORKING: u32 = 0x00;
    pub const HW_IP_COUNT: u32 = 0x03;
    pub const TIMESTAMP: u32 = 0x05;
    pub const FW_VERSION: u32 = 0x0e;
    pub const VRAM_USAGE: u32 = 0x10;
    pub const GTT_USAGE: u32 = 0x11;
    pub const VRAM_GTT: u32 = 0x14;
    pub const READ_MMR_REG: u32 = 0x15;
    pub const DEV_INFO: u32 = 0x16;
    pub const VISIBLE_VRAM_USAGE: u32 = 0x17;
    pub const MEMORY: u32 = 0x19;
}

/// `drm_version`
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    name_bytes: usize,
    name: *mut c_char,
    date_bytes: usize,
    date: *mut c_char,
    description_bytes: usize,
    description: *mut c_char,
}

/// `drm_client`
#[repr(C)]
struct Client {
    index: c_int,
    authenticated: c_int,
    process: c_ulong,
    user: c_ulong,
    magic: c_ulong,
    iocs: c_ulong,
}

/// `drm_get_cap`
#[repr(C)]
struct Cap {
    capability: u64,
    value: u64,
}

/// `drm_amdgpu_info`, as far as the questions that are answered need it
#[repr(C)]
struct Info {
    answer: u64,
    answer_bytes: u32,
    query: u32,
}

/// Answers a call; as `ioctl`, 0 or -1 with `errno`.
///
/// # Safety
/// `argument` must point to the structure that belongs to the call.
pub unsafe fn call(gpu: usize, request: c_ulong, argument: *mut c_void) -> c_int {
    let (Some(simulation), Some(process)) = (simulation::get(), process::current()) else {
        return sys::fail(libc::ENODEV);
    };
    // SAFETY: the caller passes the structure that belongs to the number, and nobody else uses it meanwhile.
    let answer = unsafe {
        match request as u8 {
            VERSION => version(&mut *argument.cast()),
            GET_CLIENT => {
                (*argument.cast::<Client>()).authenticated = 1;
                Ok(())
            }
            GET_CAP => get_cap(&mut *argument.cast()),
            GEM_CLOSE => buffers::close(process, gpu, &*argument.cast()),
            PRIME_FD_TO_HANDLE => buffers::import(process, gpu, &mut *argument.cast()),
            PRIME_HANDLE_TO_FD => buffers::export(process, gpu, &mut *argument.cast()),
            AMDGPU_GEM_MMAP => buffers::map(process, gpu, &mut *argument.cast()),
            AMDGPU_GEM_METADATA => buffers::metadata(process, gpu, &mut *argument.cast()),
            AMDGPU_GEM_OP => buffers::describe(process, gpu, &*argument.cast()),
            AMDGPU_GEM_VA => buffers::address(process, gpu, &*argument.cast()),
            AMDGPU_INFO => info(simulation, gpu, &*argument.cast()),
            _ => Err(libc::EINVAL),
        }
    };
    match answer {
        Ok(()) => 0,
        Err(error) => {
            let number = request as u8;
            simulation::log(&format!(
                "graphics call {number:#04x} fails with error {error}"
            ));
            sys::fail(error)
        }
    }
}

/// What the driver can do besides: dma-bufs in and out.
fn get_cap(cap: &mut Cap) -> Outcome {
    const PRIME: u64 = 5;
    cap.value = if cap.capability == PRIME { 3 } else { 0 };
    Ok(())
}

/// # Safety
/// The structure must name places of the lengths that it tells.
unsafe fn version(version: &mut Version) -> Outcome {
    (version.major, version.minor, version.patch) = (3, 57, 0);
    for (text, place, bytes) in [
        ("amdgpu", version.name, &mut version.name_bytes),
        ("20150101", version.date, &mut version.date_bytes),
        (
            "AMD GPU",
            version.description,
            &mut version.description_bytes,
        ),
    ] {
        // Callers ask for the lengths first.
        if !place.is_null() {
            let fitting = text.len().min(*bytes);
            // SAFETY: the place has that many bytes.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), fitting) };
        }
        *bytes = text.len();
    }
    Ok(())
}

/// # Safety
/// The structure must name a place of the length that it tells.
unsafe fn info(simulation: &Simulation, gpu: usize, info: &Info) -> Outcome {
    let mut answer = Answer::default();
    let settings = &simulation.machine.gpus[gpu];
    let used = simulation.board.gpus[gpu]
        .used_bytes
        .load(Ordering::Relaxed);
    match info.query {
        query::ACCEL_WORKING => answer.u32(0, 1),
        query::HW_IP_COUNT | query::FW_VERSION | query::READ_MMR_REG | query::GTT_USAGE => {}
        query::TIMESTAMP => answer.u64(0, simulation.clock.ticks(clock::boottime_ns())),
        query::VRAM_USAGE | query::VISIBLE_VRAM_USAGE => answer.u64(0, used),
        query::VRAM_GTT => {
            for offset in [0, 8, 16] {
                answer.u64(offset, settings.vram_bytes);
            }
        }
        query::MEMORY => {
            // Device memory, the part of it that the host can access, and host memory.
            for (heap, used) in [(0, used), (32, used), (64, 0)] {
                answer.u64(heap, settings.vram_bytes);
                answer.u64(heap + 8, settings.vram_bytes);
                answer.u64(heap + 16, used);
                answer.u64(heap + 24, settings.vram_bytes);
            }
        }
        query::DEV_INFO => device_info(simulation, gpu, &mut answer),
        _ => return Err(libc::EINVAL),
    }
    let bytes = (info.answer_bytes as usize).min(answer.0.len());
    let place: *mut u8 = std::ptr::with_exposed_provenance_mut(info.answer as usize);
    // SAFETY: the caller says so.
    unsafe { std::ptr::copy_nonoverlapping(answer.0.as_ptr(), place, bytes) };
    Ok(())
}

/// `drm_amdgpu_info_device`: what is not here is zero.
fn device_info(simulation: &Simulation, gpu: usize, answer: &mut Answer) {
    let settings = &simulation.machine.gpus[gpu];
    answer.u32(0, settings.device_id);
    answer.u32(16, settings.family);
    answer.u32(20, settings.shader_engines);
    answer.u32(24, 1);
    answer.u32(28, (simulation.machine.clock.frequency_hz / 1000) as u32);
    answer.u64(32, u64::from(settings.clock_mhz) * 1000);
    answer.u64(40, u64::from(settings.memory_clock_mhz) * 1000);
    answer.u32(48, settings.compute_units);
    // Addresses that may be mapped: all of a process, below the hole and above it.
    answer.u64(144, 0x20_0000);
    answer.u64(152, 0x8000_0000_0000);
    answer.u32(160, 4096);
    answer.u32(164, 0x20_0000);
    answer.u32(168, 4096);
    answer.u32(240, 64);
    answer.u64(336, 0xffff_8000_0000_0000);
    answer.u64(344, 0xffff_ffff_ffe0_0000);
}

struct Answer([u8; 512]);

impl Default for Answer {
    fn default() -> Self {
        Self([0; 512])
    }
}

impl Answer {
    fn u32(&mut self, offset: usize, value: u32) {
        self.0[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, offset: usize, value: u64) {
        self.0[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }
}
