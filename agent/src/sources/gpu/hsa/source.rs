//! Which source records GPU operations, and why.

use rsys_wire::handshake::GpuSource;

use crate::events;
use crate::interpose::libraries;
use crate::sources::gpu::hsa::table::Tables;
use crate::sources::gpu::hsa::version::{self, Release};
use crate::sources::gpu::owner;
use crate::state;
use crate::sys;

/// Where GPU operations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// From the HSA runtime's queues and copies.
    Here,
    /// From HIP, or from nowhere.
    Elsewhere,
}

const RUNTIME: &[u8] = b"/libhsa-runtime64.so";
const HIP: &[u8] = b"/libamdhip64.so";

/// Says why something is not recorded, in the trace and on standard error.
pub fn refuse(reason: &[u8]) {
    events::fact(b"gpu source", reason);
    events::note(reason);
}

/// Chooses. A program that uses HIP has loaded it by now: HIP is who sets this runtime up.
pub fn choose() -> Choice {
    let wish = state::settings().gpu_source;
    let hip = libraries::is_loaded(HIP);
    let reason: &[u8] = match wish {
        GpuSource::Off | GpuSource::Hip => return Choice::Elsewhere,
        _ if owner::is_hip() => return Choice::Elsewhere,
        GpuSource::Auto if hip => b"HSA queues: HIP does not tell of its operations",
        GpuSource::Auto => b"HSA queues: the program does not use HIP",
        GpuSource::Hsa => b"HSA queues: chosen",
    };
    events::fact(b"gpu source", reason);
    Choice::Here
}

/// Whether this runtime may be shown only few packets at once.
pub fn may_break(tables: &Tables) -> bool {
    version::may_break(tables.amd_bytes, release())
}

/// The release of ROCm, as far as the names of the runtime's file tell: that which the link names, or that of the link.
fn release() -> Option<Release> {
    let mut path = [0; libraries::MOST_PATH];
    let path = libraries::path_of(RUNTIME, &mut path)?;
    let mut target = [0_u8; libraries::MOST_PATH];
    let bytes = sys::readlink(path, &mut target);
    target
        .get(..bytes)
        .and_then(version::release_of_path)
        .or_else(|| version::release_of_path(path.to_bytes()))
}
