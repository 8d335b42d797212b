//! The threads of this process, as the kernel lists them. Not for signal handlers.

use std::ffi::CStr;

use crate::sys::text::Text;
use crate::sys::{address, calls, checked, close, open_at, read_file};

/// Does something with the id of each thread of this process; false when the kernel does not list them.
pub fn for_each_thread(mut what: impl FnMut(u32)) -> bool {
    let at = libc::AT_FDCWD;
    let Ok(folder) = open_at(at, c"/proc/self/task".as_ptr()) else {
        return false;
    };
    let mut buffer = [0_u64; 512];
    let complete = loop {
        let (place, bytes) = (address(buffer.as_mut_ptr()), size_of_val(&buffer) as u64);
        // SAFETY: a buffer with its length.
        let read = checked(unsafe { calls::getdents64(folder as u64, place, bytes) });
        let length = match read {
            Ok(0) => break true,
            Ok(length) => length as usize,
            Err(_) => break false,
        };
        // SAFETY: words are bytes, and the kernel has written this many.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), length) };
        for name in names(bytes) {
            if let Some(tid) = number(name) {
                what(tid);
            }
        }
    };
    close(folder);
    complete
}

/// The names in entries of `getdents64`: 19 bytes, of which the last three are the entry's length and kind, then a name with NUL (getdents(2)).
fn names(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_le_bytes([*bytes.get(16)?, *bytes.get(17)?]));
        let (entry, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        let name = entry.get(19..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        name.get(..end)
    })
}

fn number(name: &[u8]) -> Option<u32> {
    let digits = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    digits.then(|| {
        name.iter().fold(0_u32, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u32::from(digit.wrapping_sub(b'0')))
        })
    })
}

/// The name of any thread of this process, as [`crate::sys::thread_name`] has it; empty when it is gone.
pub fn name_of_thread(tid: u32) -> [u8; 16] {
    let (mut name, mut path) = ([0_u8; 16], [0_u8; 48]);
    let mut text = Text::new(&mut path);
    text.put(b"/proc/self/task/");
    text.number(u64::from(tid));
    text.put(b"/comm\0");
    let Ok(path) = CStr::from_bytes_until_nul(text.bytes()) else {
        return name;
    };
    let length = read_file(path, &mut name);
    // The kernel's line ends in a line feed.
    if let Some(end) = length.checked_sub(1).and_then(|last| name.get_mut(last)) {
        *end = 0;
    }
    name
}

/// Returns when all threads of this process have seen what this one wrote before. Takes milliseconds. False where the kernel has no such call.
pub fn barrier_of_all_threads() -> bool {
    /// MEMBARRIER_CMD_GLOBAL of linux/membarrier.h (Linux 4.3).
    const GLOBAL: u64 = 1;
    // SAFETY: numbers.
    unsafe { calls::membarrier(GLOBAL, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn the_calling_thread_is_among_all() {
        let (own, mut found) = (sys::gettid(), false);
        assert!(for_each_thread(|tid| found |= tid == own));
        assert!(found);
        assert_eq!(name_of_thread(own), sys::thread_name());
        assert!(barrier_of_all_threads());
    }
}
