//! The process that an SMI library lives in: this program, called [`NAME`].
//!
//! Its arguments are the library (`auto`, or a path) and what to read:
//! `0000:10:00.0=temp_edge+temp_junction`, one per counter, with the sensors of which the first
//! that answers counts. For each byte that it is sent it reads them all, and answers in lines:
//!
//! - `L library`: first of all, once it is loaded; or `N reason`, and that was all
//! - `V number time_ns value` or `E number reason`: the counter of that number, by CLOCK_BOOTTIME
//! - `T`: that was all for this byte

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{dup, dup2_stderr, dup2_stdout};

use super::library::Library;
use crate::os;

/// What it is called.
pub const NAME: &str = "rsys-smi-reader";

/// The library's name for whichever is found.
pub const AUTO: &str = "auto";

/// Whether this process is such a reader.
#[must_use]
pub fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Reads and answers until nobody asks any more.
pub fn serve() -> ! {
    let outcome = match set_up() {
        Ok(mut out) => answer(&mut out, std::env::args_os().skip(1)),
        Err(error) => writeln!(io::stdout(), "N its process cannot be set up: {error}"),
    };
    // Where lines cannot be written, the status is left for whoever waits.
    os::exit_at_once(i32::from(outcome.is_err()))
}

/// A counter that is asked for.
struct Wanted {
    device: Option<usize>,
    sensors: Vec<String>,
    /// The sensor that answered.
    found: Option<usize>,
}

/// Makes this process one that a library may do anything in. Returns where the answers go.
pub(crate) fn set_up() -> io::Result<File> {
    // A library that hangs must not outlive us; and the terminal's signals are not for it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    for one in [
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGTSTP,
    ] {
        // SAFETY: no handler is set.
        unsafe { signal(one, SigHandler::SigIgn) }?;
    }
    let out = File::from(dup(io::stdout().as_fd())?);
    // What libraries print is nobody's business.
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    dup2_stderr(&nowhere)?;
    dup2_stdout(&nowhere)?;
    Ok(out)
}

fn answer(out: &mut File, mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let choice = arguments.next().unwrap_or_default();
    let path = (choice != AUTO).then_some(choice.as_os_str());
    let library = match Library::open(path.map(OsStr::new)) {
        Ok(library) => library,
        Err(reason) => return writeln!(out, "N {}", one_line(&reason)),
    };
    writeln!(out, "L {}", one_line(&library.name))?;
    let mut wanted: Vec<Wanted> = arguments.map(|word| Wanted::new(&library, &word)).collect();
    let mut asked = [0];
    while io::stdin().read(&mut asked)? == 1 {
        let mut text = String::new();
        for (number, wanted) in wanted.iter_mut().enumerate() {
            match wanted.read(&library) {
                Ok(value) => text.push_str(&format!("V {number} {} {value}\n", os::boot_time_ns())),
                Err(reason) => text.push_str(&format!("E {number} {}\n", one_line(&reason))),
            }
        }
        text.push_str("T\n");
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

pub(crate) fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

impl Wanted {
    fn new(library: &Library, word: &OsStr) -> Self {
        let text = word.to_string_lossy();
        let (address, sensors) = text.split_once('=').unwrap_or((&text, ""));
        Self {
            device: library.device(address),
            sensors: sensors.split('+').map(str::to_owned).collect(),
            found: None,
        }
    }

    fn read(&mut self, library: &Library) -> Result<f64, String> {
        let device = self.device.ok_or("it does not know this GPU")?;
        if let Some(found) = self.found {
            return library.read(device, &self.sensors[found]);
        }
        let mut first = None;
        for (place, sensor) in self.sensors.iter().enumerate() {
            match library.read(device, sensor) {
                Ok(value) => {
                    self.found = Some(place);
                    return Ok(value);
                }
                Err(reason) => drop(first.get_or_insert(reason)),
            }
        }
        Err(first.unwrap_or_default())
    }
}
