//! Damaged files of every format: a reader must come to the end without a panic, and no record may end before it begins.
//!
//! Files are damaged at random, but the same way for the same number: what fails says its numbers. `RSYS_MUTATIONS=100000` asks for so many files of
//! each kind, `RSYS_MUTATIONS_FROM` begins at another number, `RSYS_MUTATIONS_OF=kineto` damages the kinds only whose names have this in them.

mod damage;
mod seeds;

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rsys_databases::OPENER;
use rsys_traces::model::{Batch, Kinds, Model};
use rsys_traces::read::{self, BytesRead};

/// Files of each kind where nothing else is asked for.
const COUNT: u64 = 2000;
/// Every 64th file is read as users have it: ahead, by a thread of its own, and with a look for the other files that its name promises, which costs more
/// than the rest.
const AS_USED_ONE_IN: u64 = 64;
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
fn read_all(path: &Path, is_ahead: bool) -> usize {
    let opened = read::open_counted(path, Kinds::ALL, &BytesRead::default(), is_ahead);
    let Ok(mut reader) = opened else {
        return 0;
    };
    let (mut model, mut batch) = (Model::default(), Batch::default());
    while reader.read(&mut model, &mut batch) {}
    assert!(batch.gpu.iter().all(|one| one.start_ns <= one.end_ns));
    assert!(batch.host.iter().all(|one| one.start_ns <= one.end_ns));
    batch.len()
}

/// Kind and number of the file that is read now, for the thread that watches for hangs: a message for each file would cost more than reading it.
static KIND: Mutex<&str> = Mutex::new("");
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Ends the program if a file is read for too long, until the sender is gone.
fn watch(ends: &mpsc::Receiver<()>) {
    let mut before = ("", 0);
    while let Err(RecvTimeoutError::Timeout) = ends.recv_timeout(HANGS_AFTER) {
        let kind = *KIND.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (kind, NUMBER.load(Ordering::Relaxed));
        if now == before {
            eprintln!("does not end: {} number {}", now.0, now.1);
            std::process::abort();
        }
        before = now;
    }
}

/// A file whose content is replaced again and again.
struct Scratch {
    file: File,
    path: PathBuf,
    /// Another name of it, which promises no other files.
    alone: PathBuf,
}

impl Scratch {
    fn new(path: PathBuf) -> Self {
        let file = File::create_new(&path).unwrap();
        let alone = path.with_file_name("alone");
        fs::hard_link(&path, &alone).unwrap();
        Self { file, path, alone }
    }

    fn put(&self, bytes: &[u8]) {
        self.file.write_all_at(bytes, 0).unwrap();
        self.file.set_len(bytes.len() as u64).unwrap();
    }
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
    let (ended, ends) = mpsc::channel();
    let watching = std::thread::spawn(move || watch(&ends));

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
        let file = Scratch::new(scratch.join(seed.file));
        let path = file.path.as_path();
        *KIND.lock().unwrap_or_else(PoisonError::into_inner) = seed.name;
        file.put(&seed.bytes);
        let whole = read_all(path, true);
        assert!(whole > 0, "{} has no records", seed.name);
        let (mut records, mut bytes) = (0, Vec::new());
        for number in from..from + count {
            NUMBER.store(number, Ordering::Relaxed);
            damage::damaged(seed, &all, number, &mut bytes);
            file.put(&bytes);
            let result = std::panic::catch_unwind(|| match number % AS_USED_ONE_IN {
                0 => read_all(path, true),
                _ => read_all(&file.alone, false),
            });
            let is_fine = result.is_ok() && !HAS_PANICKED.load(Ordering::Relaxed);
            assert!(is_fine, "{} number {number}: {}", seed.name, path.display());
            records += result.unwrap();
        }
        fs::remove_file(path).unwrap();
        fs::remove_file(&file.alone).unwrap();
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
    drop(ended);
    watching.join().unwrap();
    fs::remove_dir_all(&scratch).unwrap();
}
