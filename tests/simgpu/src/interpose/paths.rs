//! Which paths are simulated, and where they are instead.

use std::ffi::{CStr, c_char};

use crate::device::Device;
use crate::settings::FIRST_RENDER_MINOR;
use crate::{simulation, sys};

/// Paths that are simulated as a whole, with what is below them.
const REPLACED: &[&[u8]] = &[
    b"/sys/devices/virtual/kfd",
    b"/sys/class/kfd",
    b"/sys/class/drm",
    b"/sys/module/amdgpu",
    b"/sys/dev/char/226:",
    b"/proc/modules",
    b"/dev/kfd",
    b"/dev/dri",
];

/// Folders in which the simulated files stand beside the real ones.
const SHARED: &[&[u8]] = &[b"/sys/bus/pci/devices/", b"/sys/devices/pci"];

/// A path in the simulated tree.
#[derive(Debug)]
pub struct TreePath {
    bytes: [u8; TreePath::CAPACITY],
}

impl TreePath {
    const CAPACITY: usize = 1024;

    /// For the C library.
    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    fn new(root: &CStr, path: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::CAPACITY];
        let root = root.to_bytes();
        let whole = root.len() + path.len();
        // One byte stays zero.
        let target = bytes.get_mut(..whole).filter(|_| whole < Self::CAPACITY)?;
        let (front, back) = target.split_at_mut(root.len());
        front.copy_from_slice(root);
        back.copy_from_slice(path);
        Some(Self { bytes })
    }
}

/// Where this path is in the simulated tree; none: it is not simulated.
///
/// # Safety
/// The path must be null or NUL-terminated.
pub unsafe fn in_tree(path: *const c_char) -> Option<TreePath> {
    let root = simulation::root()?;
    // SAFETY: the caller says so.
    let path = unsafe { interesting(path) }?;
    if REPLACED.iter().any(|start| is_below(path, start)) {
        return TreePath::new(root, path);
    }
    if SHARED.iter().any(|start| path.starts_with(start)) {
        return TreePath::new(root, path).filter(|there| sys::exists(there.as_c_str()));
    }
    None
}

/// The device that this path names.
///
/// # Safety
/// The path must be null or NUL-terminated.
pub unsafe fn device(path: *const c_char) -> Option<Device> {
    simulation::root()?;
    // SAFETY: the caller says so.
    let path = unsafe { interesting(path) }?;
    if path == b"/dev/kfd" {
        return Some(Device::Kfd);
    }
    let number = path.strip_prefix(b"/dev/dri/renderD")?;
    let minor: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    let index = minor.checked_sub(FIRST_RENDER_MINOR)? as usize;
    (index < simulation::get()?.machine.gpus.len()).then_some(Device::Render(index))
}

/// The path, if it is one that could be simulated.
///
/// # Safety
/// The path must be null or NUL-terminated.
unsafe fn interesting<'a>(path: *const c_char) -> Option<&'a [u8]> {
    if path.is_null() {
        return None;
    }
    // SAFETY: NUL-terminated, says the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    [b"/dev/".as_slice(), b"/sys/", b"/proc/modules"]
        .iter()
        .any(|start| path.starts_with(start))
        .then_some(path)
}

fn is_below(path: &[u8], start: &[u8]) -> bool {
    path.strip_prefix(start)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || start.ends_with(b":"))
}

/// Removes the folder of the simulation from the front of an absolute path, in place.
///
/// # Safety
/// The path must be null or a NUL-terminated string that may be changed.
pub unsafe fn strip_root(path: *mut c_char) {
    let Some(root) = simulation::root() else {
        return;
    };
    if path.is_null() {
        return;
    }
    // SAFETY: NUL-terminated, says the caller.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if let Some(rest) = bytes
        .strip_prefix(root.to_bytes())
        .filter(|rest| rest.starts_with(b"/"))
    {
        // SAFETY: both lie in the same string, the rest with its NUL is shorter than the whole; `copy` may overlap.
        unsafe { std::ptr::copy(rest.as_ptr(), path.cast(), rest.len() + 1) };
    }
}
