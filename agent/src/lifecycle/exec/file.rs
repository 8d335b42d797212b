//! Finding and opening a program, as the function that was called will find it.

use std::ffi::{CStr, c_char, c_int};

use rsys_wire::program::DEFAULT_PATH;

use crate::lifecycle::exec::call::{File, variables};
use crate::signals::faults;
use crate::sys;
use crate::target::environment::{c_string, pointers, rest_of};

/// Longer paths are not judged.
const MOST_PATH: usize = 1024;

/// A path that is put together.
pub struct Path {
    bytes: [u8; MOST_PATH],
    length: usize,
}

impl Path {
    pub fn new() -> Self {
        Path {
            bytes: [0; MOST_PATH],
            length: 0,
        }
    }

    /// Whether there was room for all parts.
    pub fn set(&mut self, parts: &[&[u8]]) -> bool {
        self.length = 0;
        for byte in parts.iter().copied().flatten() {
            // One stays free for the NUL.
            if self.length + 1 >= MOST_PATH {
                self.length = 0;
                break;
            }
            if let Some(to) = self.bytes.get_mut(self.length) {
                *to = *byte;
            }
            self.length += 1;
        }
        if let Some(end) = self.bytes.get_mut(self.length) {
            *end = 0;
        }
        self.length > 0
    }

    /// Takes what a symbolic link says; "a program" if nothing.
    fn read_link(&mut self, link: &Path) {
        let room = self.bytes.get_mut(..MOST_PATH - 1).unwrap_or(&mut []);
        self.length = sys::readlink(link.c_string(), room);
        if self.length == 0 {
            self.set(&[b"a program"]);
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    pub fn c_string(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// An open file of a program.
pub struct Opened {
    pub fd: c_int,
    /// Whether it is the caller's, and stays open.
    is_callers: bool,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.is_callers {
            sys::close(self.fd);
        }
    }
}

/// Opens the program, and says in `place` how it is called.
pub fn open(file: &File, place: &mut Path) -> Option<Opened> {
    match *file {
        File::Descriptor(fd) => {
            let mut link = Path::new();
            let mut digits = [0; 20];
            let number = sys::decimal(u64::from(fd.cast_unsigned()), &mut digits);
            link.set(&[b"/proc/self/fd/", number]);
            place.read_link(&link);
            // It may be open for nothing but to be executed; without /proc it may be open for reading.
            let opened = open_at(libc::AT_FDCWD, &link);
            Some(opened.unwrap_or(Opened {
                fd,
                is_callers: true,
            }))
        }
        File::At(fd, path, flags)
            if flags & libc::AT_EMPTY_PATH != 0
                && faults::read_u8(path.addr() as u64) == Some(0) =>
        {
            open(&File::Descriptor(fd), place)
        }
        File::At(folder, path, _) => open_given(folder, path, place),
        File::Path(path) => open_given(libc::AT_FDCWD, path, place),
        File::Searched(name) => search(c_string(name)?.to_bytes(), place),
    }
}

/// Opens what the program names. The kernel looks at the name first.
fn open_given(folder: c_int, path: *const c_char, place: &mut Path) -> Option<Opened> {
    let fd = sys::open_at(folder, path).ok()?;
    place.set(&[c_string(path)?.to_bytes()]);
    Some(Opened {
        fd,
        is_callers: false,
    })
}

/// Opens a file for reading; the error number if that fails.
pub fn open_at(folder: c_int, place: &Path) -> Result<Opened, i32> {
    let fd = match place.bytes() {
        [] => return Err(libc::ENAMETOOLONG),
        _ => sys::open_at(folder, place.c_string().as_ptr())?,
    };
    Ok(Opened {
        fd,
        is_callers: false,
    })
}

/// Finds a program as `execvp` does.
fn search(name: &[u8], place: &mut Path) -> Option<Opened> {
    if name.contains(&b'/') {
        place.set(&[name]);
        return open_at(libc::AT_FDCWD, place).ok();
    }
    let path = pointers(variables()).find_map(|entry| rest_of(entry?, b"PATH="));
    let folders = path.map_or(DEFAULT_PATH.as_bytes(), CStr::to_bytes);
    folders.split(|byte| *byte == b':').find_map(|folder| {
        let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        if !place.set(&[folder, slash, name])
            || sys::access(place.c_string().as_ptr(), libc::X_OK).is_err()
        {
            return None;
        }
        open_at(libc::AT_FDCWD, place).ok()
    })
}
