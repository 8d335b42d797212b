//! Descriptors of the simulated devices: memory files, recognised by their inode.
//!
//! So descriptors may be copied, passed on and closed in any way without a table that would have to follow.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::interpose::Device;
use crate::{faults, process, simulation, sys};

/// Opens a device node; as `open`, returns a descriptor, or -1 with `errno`.
pub fn open(device: Device, flags: c_int) -> c_int {
    let Some(simulation) = simulation::get() else {
        return sys::fail(libc::ENODEV);
    };
    if let Some(error) = faults::of_open(simulation, device) {
        return sys::fail(error);
    }
    let path = match device {
        Device::Kfd => match process::current() {
            // A file of this process; opening it anew gives each caller a descriptor of its own.
            Some(process) => CString::new(format!("/proc/self/fd/{}", process.doorbells.fd())),
            None => return sys::fail(libc::ENOMEM),
        },
        Device::Render(index) => {
            CString::new(simulation.machine.gpus[index].memory.as_os_str().as_bytes())
        }
    };
    let Ok(path) = path else {
        return sys::fail(libc::ENODEV);
    };
    match sys::open(&path, libc::O_RDWR | (flags & libc::O_CLOEXEC)) {
        Ok(fd) => fd,
        Err(error) => sys::fail(match error.raw_os_error() {
            Some(error @ (libc::EMFILE | libc::ENFILE)) => error,
            _ => libc::ENODEV,
        }),
    }
}

/// Which device a descriptor is of; none: no simulated one.
pub fn of_descriptor(fd: c_int) -> Option<Device> {
    simulation::root()?;
    // Most processes never open a device: nothing to compare with.
    let process = process::existing();
    if process.is_none() && !simulation::is_loaded() {
        return None;
    }
    let identity = sys::identity(fd)?;
    if process.is_some_and(|process| process.doorbells.identity() == identity) {
        return Some(Device::Kfd);
    }
    let machine = &simulation::get()?.machine;
    let index = machine
        .gpus
        .iter()
        .position(|gpu| gpu.memory_identity == identity)?;
    Some(Device::Render(index))
}
