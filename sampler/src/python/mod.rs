//! Python frames: which function and line stand behind a word ([`codes`], [`lines`]), and how they
//! go together with the native frames of the same sample ([`merge`]).

pub mod codes;
pub mod lines;
pub mod merge;

/// What the user wants to see of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonView {
    /// The interpreter's own functions as well.
    pub interpreter: bool,
    /// Nothing else than Python frames.
    pub only: bool,
}

/// A version as a user knows it.
#[must_use]
pub fn version_name(version: u32, free_threaded: bool) -> String {
    let [micro, level] = [(version >> 8) as u8, version as u8];
    let name = match version >> 16 {
        0 => "CPython older than 3.7".to_owned(),
        // Known by its symbols only.
        minor if micro == 0 && level == 0 => format!("CPython {}.{}", minor >> 8, minor & 0xff),
        minor => format!("CPython {}.{}.{micro}", minor >> 8, minor & 0xff),
    };
    match free_threaded {
        true => name + " (free-threaded)",
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_names() {
        for (version, name) in [
            ((0, false), "CPython older than 3.7"),
            ((0x030a_0000, false), "CPython 3.10"),
            ((0x030b_02f0, false), "CPython 3.11.2"),
            ((0x030f_00a1, false), "CPython 3.15.0"),
            ((0x030e_00f0, true), "CPython 3.14.0 (free-threaded)"),
        ] {
            let (version, free_threaded) = version;
            assert_eq!(version_name(version, free_threaded), name);
        }
    }
}
