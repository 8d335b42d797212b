//! Which source records GPU operations, and why.

use rsys_wire::gpu::{self, Hip, Recorder};
use rsys_wire::release::{self, Release};

use crate::events;
use crate::interpose::libraries;
use crate::sources::gpu::hsa::table::Tables;
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
    let settings = state::settings();
    let hip = if owner::is_hip() {
        Hip::Ready
    } else if libraries::is_loaded(HIP) {
        Hip::Mute
    } else {
        Hip::Absent
    };
    let choice = gpu::choose(settings.gpu_source, settings.gpu_level, hip);
    if choice.recorder != Recorder::Hsa {
        return Choice::Elsewhere;
    }
    events::fact(b"gpu source", choice.why.as_bytes());
    Choice::Here
}

/// Whether this runtime may be shown only few packets at once.
pub fn may_break(tables: &Tables) -> bool {
    release::may_break(tables.amd_bytes, release_of_runtime())
}

/// The release of ROCm, as far as the names of the runtime's file tell: that which the link names, or that of the link.
fn release_of_runtime() -> Option<Release> {
    let mut path = [0; libraries::MOST_PATH];
    let path = libraries::path_of(RUNTIME, &mut path)?;
    let mut target = [0_u8; libraries::MOST_PATH];
    let bytes = sys::readlink(path, &mut target);
    target
        .get(..bytes)
        .and_then(release::release_of_path)
        .or_else(|| release::release_of_path(path.to_bytes()))
}
