//! The folder that traces go to: whether it can be written, how fast, and how much room there is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use rsys_config::keys::{KeyValues, expand};
use rsys_config::{Environment, Resolved};
use rsys_machine::roots::Roots;

use super::finding::{Finding, Level};

const NAME: &str = "output folder";

/// As much is written, unless it takes too long, in pieces of this size.
const MOST_BYTES: usize = 32 << 20;
const PIECE_BYTES: usize = 1 << 20;
const LONGEST: Duration = Duration::from_millis(500);

/// Below this the sampler falls behind where many threads record (18.6 bytes a sample, docs/benchmarks.md), in bytes per second.
const SLOW: f64 = 20e6;
/// Below this a long run may fill it, in bytes.
const LITTLE: u64 = 1 << 30;

/// Those of the folder that the settings name. On another machine than this one nothing is said.
pub fn findings(roots: &Roots, resolved: &Resolved, program: Option<&Path>) -> Vec<Finding> {
    if roots.is_simulated() {
        return Vec::new();
    }
    let folder = folder(resolved, program);
    if folder == Path::new("/dev/null") {
        return vec![Finding::ok(NAME, "/dev/null: nothing is kept")];
    }
    // What is not there yet is made in the first folder above that is.
    let there = folder.ancestors().find(|folder| folder.exists());
    let there = there.unwrap_or(Path::new("/")).to_owned();
    let shown = folder.display();
    let speed = match write_speed(&there) {
        Ok(speed) => speed,
        Err(error) => {
            let finding = format!("{shown} cannot be written: {}: {error}", there.display());
            return vec![
                Finding::at(Level::Problem, NAME, finding)
                    .means("rsys-sample does not start the program")
                    .mend(
                        "rsys-sample -o FOLDER with one that can be written, such as -o /tmp/rsys",
                    ),
            ];
        }
    };
    let text = format!("{shown}: {:.0} MB/s", speed / 1e6);
    let mut found = vec![if speed < SLOW {
        Finding::at(Level::Warning, NAME, text)
            .means("the sampler may fall behind where many threads record much: records are dropped and counted")
            .mend("rsys-sample -o FOLDER on a local disk")
    } else {
        Finding::ok(NAME, text)
    }];
    found.extend(room(&there));
    found
}

/// The folder of the settings, its keys replaced as far as they are known before a run.
fn folder(resolved: &Resolved, program: Option<&Path>) -> PathBuf {
    let command = program.map(|program| program.display().to_string());
    let keys = KeyValues {
        pid: std::process::id(),
        command: vec![command.unwrap_or_else(|| "command".to_owned())],
        ..KeyValues::of_job(&Environment::of_this_process())
    };
    let folder = PathBuf::from(expand(&resolved.output_path, &keys));
    std::path::absolute(&folder).unwrap_or(folder)
}

/// A file without a name in a folder, or where the file system has none of these, one that is removed at once.
fn scratch_file(folder: &Path) -> io::Result<File> {
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    match nameless.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let path = folder.join(format!(".rsys-doctor-{}", std::process::id()));
            let file = File::create_new(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        _ => nameless,
    }
}

/// Bytes per second, down to the disk.
fn write_speed(folder: &Path) -> io::Result<f64> {
    let mut file = scratch_file(folder)?;
    let piece = vec![0x55; PIECE_BYTES];
    let start = Instant::now();
    let mut written = 0;
    while written < MOST_BYTES && start.elapsed() < LONGEST {
        file.write_all(&piece)?;
        written += PIECE_BYTES;
    }
    file.sync_data()?;
    Ok(written as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

fn room(folder: &Path) -> Option<Finding> {
    const NAME: &str = "free space";
    let system = statvfs(folder).ok()?;
    let bytes = system.blocks_available() * system.fragment_size();
    let text = format!("{:.1} GB", bytes as f64 / 1e9);
    Some(if bytes < LITTLE {
        Finding::at(Level::Warning, NAME, text)
            .means("a trace ends where the file system is full")
            .mend("rsys-sample -o FOLDER on another file system, or fewer samples: -f 100")
    } else {
        Finding::ok(NAME, text)
    })
}
