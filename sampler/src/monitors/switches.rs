//! Context switches of a process: the kernel counts them by thread.

use std::collections::HashMap;
use std::path::Path;

use super::file::KeptFile;
use super::numbers::field;

/// Shortest time between two looks at the threads; longer when there are many, since each costs a
/// file.
const LOOK_NS: u64 = 1_000_000_000;
const LOOK_NS_PER_THREAD: u64 = 5_000_000;

/// What was seen of the threads of a process.
#[derive(Debug, Default)]
pub struct Switches {
    threads: HashMap<u32, u64>,
    /// Those of threads that are gone.
    ended: u64,
    next_ns: u64,
}

impl Switches {
    /// The context switches of all threads that were ever seen; nothing when it is not time to
    /// look.
    pub fn read(&mut self, folder: &Path, time_ns: u64, scratch: &mut [u8]) -> Option<u64> {
        if time_ns < self.next_ns {
            return None;
        }
        let mut seen = HashMap::with_capacity(self.threads.len());
        for entry in std::fs::read_dir(folder.join("task")).ok()?.flatten() {
            let name = entry.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let Ok(file) = KeptFile::open(&entry.path().join("status")) else {
                continue;
            };
            let Ok(status) = file.read(scratch) else {
                continue;
            };
            let count = |key| field(status, key).unwrap_or(0);
            let own = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
            seen.insert(tid, own);
        }
        for (tid, last) in &self.threads {
            // Fewer than before: another thread has the number now.
            if seen.get(tid).is_none_or(|now| now < last) {
                self.ended += last;
            }
        }
        self.next_ns = time_ns + LOOK_NS.max(LOOK_NS_PER_THREAD * seen.len() as u64);
        self.threads = seen;
        Some(self.ended + self.threads.values().sum::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_end_keep_counting() {
        let folder = std::env::temp_dir().join(format!("rsys-switches-{}", std::process::id()));
        let put = |tid: u32, voluntary: u64, other: u64| {
            let task = folder.join(format!("task/{tid}"));
            std::fs::create_dir_all(&task).unwrap();
            let text = format!(
                "Threads:\t2\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{other}\n"
            );
            std::fs::write(task.join("status"), text).unwrap();
        };
        let mut scratch = vec![0; 4096];
        let mut switches = Switches::default();
        put(1, 10, 1);
        put(2, 5, 0);
        assert_eq!(switches.read(&folder, 0, &mut scratch), Some(16));
        assert_eq!(switches.read(&folder, 1, &mut scratch), None, "too early");
        std::fs::remove_dir_all(folder.join("task/2")).unwrap();
        put(1, 20, 2);
        put(3, 1, 1);
        assert_eq!(
            switches.read(&folder, 2_000_000_000, &mut scratch),
            Some(29)
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
