//! Damaged files of every format: a reader must come to the end without a panic, and no record may end before it begins.
//!
//! Files are damaged at random, but the same way for the same number: what fails says its numbers. `RSYS_MUTATIONS=100000` asks for so many files of
//! each kind, `RSYS_MUTATIONS_FROM` begins at another number, `RSYS_MUTATIONS_OF=kineto` damages this kind only.

mod damage;
mod seeds;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rsys_analysis::model::{Batch, Kinds, Model};
use rsys_analysis::read;
use rsys_databases::OPENER;

/// Files of each kind where nothing else is asked for.
const COUNT: u64 = 2000;
/// A file of some kilobytes that takes longer is taken for one that never ends.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Memory that reading such files must not need.
const MEMORY_MAX_KIB: u64 = 1 << 20;

/// A number from the environment.
fn asked(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The most memory that this program has had.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Reads a file to its end. How many records it has.
fn read_all(path: &Path) -> usize {
    let Ok(mut reader) = read::open(path, Kinds::ALL) else {
        return 0;
    };
    let (mut model, mut batch) = (Model::default(), Batch::default());
    while reader.read(&mut model, &mut batch) {}
    assert!(batch.gpu.iter().all(|one| one.start_ns <= one.end_ns));
    assert!(batch.host.iter().all(|one| one.start_ns <= one.end_ns));
    batch.len()
}

#[test]
fn damaged_files_are_read_to_their_end() {
    read::understand(&[OPENER]);
    // Readers have threads, whose panics do not reach the one that waits for them.
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        HAS_PANICKED.store(true, Ordering::Relaxed);
        before(panic);
    }));
    let (begun, watched) = mpsc::channel::<(&str, u64)>();
    std::thread::spawn(move || {
        let mut file = None;
        loop {
            match watched.recv_timeout(HANGS_AFTER) {
                Ok(next) => file = Some(next),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("does not end: {file:?}");
                    std::process::abort();
                }
            }
        }
    });

    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        env::temp_dir()
    };
    let scratch = folder.join(format!("rsys-mutations-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let (count, from) = (
        asked("RSYS_MUTATIONS").unwrap_or(COUNT),
        asked("RSYS_MUTATIONS_FROM").unwrap_or(0),
    );
    let only = env::var("RSYS_MUTATIONS_OF").unwrap_or_default();
    let all = seeds::all(&scratch);
    for seed in all.iter().filter(|seed| seed.name.contains(&only)) {
        let path = scratch.join(seed.file);
        fs::write(&path, &seed.bytes).unwrap();
        let whole = read_all(&path);
        assert!(whole > 0, "{} has no records", seed.name);
        let mut records = 0;
        for number in from..from + count {
            begun.send((seed.name, number)).unwrap();
            let bytes = damage::damaged(seed, &all, number);
            fs::write(&path, bytes).unwrap();
            let result = std::panic::catch_unwind(|| read_all(&path));
            let is_fine = result.is_ok() && !HAS_PANICKED.load(Ordering::Relaxed);
            assert!(is_fine, "{} number {number}: {}", seed.name, path.display());
            records += result.unwrap();
        }
        fs::remove_file(&path).unwrap();
        // Most damage costs a record, not the file: otherwise the readers behind the first bytes were not tried.
        assert!(
            count < COUNT || records > 0,
            "{}: nothing of {count} files was read",
            seed.name
        );
        assert!(
            peak_kib() < MEMORY_MAX_KIB,
            "{}: {} KiB of memory",
            seed.name,
            peak_kib()
        );
        println!(
            "{}: {count} files of {} bytes, {records} records of {}",
            seed.name,
            seed.bytes.len(),
            count * whole as u64
        );
    }
    fs::remove_dir_all(&scratch).unwrap();
}
