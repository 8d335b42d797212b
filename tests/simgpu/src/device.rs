//! Descriptors of the simulated devices: memory files, recognised by their inode.
//!
//! So descriptors may be copied, passed on and closed in any way without a table that would have to follow.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::{faults, process, simulation, sys};

/// A simulated device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The compute driver.
    Kfd,
    /// The render node of the GPU with this index.
    Render(usize),
}

impl Device {
    /// The GPU's index; none: it is of no single GPU.
    fn gpu(self) -> Option<usize> {
        match self {
            Self::Kfd => None,
            Self::Render(gpu) => Some(gpu),
        }
    }
}

/// Opens a device node; as `open`, returns a descriptor, or -1 with `errno`.
pub fn open(device: Device, flags: c_int) -> c_int {
    let Some(simulation) = simulation::get() else {
        return sys::fail(libc::ENODEV);
    };
    if let Some(error) = faults::of_open(simulation, device.gpu()) {
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
