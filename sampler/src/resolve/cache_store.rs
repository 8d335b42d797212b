//! The directory of cache files: one per build-id, and copies of unpacked debug information, shared by all runs and all processes of the
//! user.
//!
//! Many samplers may write at once (one per MPI rank, on a shared file system). A file is written
//! under a name of its own and renamed over the old one, so that a reader sees a whole file, old or
//! new. Two writers of one file may lose what one of them added; it is found again in a later run.
//! Whatever goes wrong here costs speed only, so it is never an error of the run.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::cache_file::{self, CacheContent};
use super::debug_copy::{CopyPlace, touch};
use super::locate::hex;
use super::types::CacheLocation;

/// Larger files are not read, and a module stops growing beyond this many addresses.
const FILE_BYTES_MAX: u64 = 128 << 20;
const ADDRESSES_MAX: usize = 1 << 20;

/// Build-ids outside these lengths are not trusted to name a file: one byte says nothing, and a
/// note may claim any length.
const BUILD_ID_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// A temporary file this old was left behind by a process that died.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

const EXTENSION: &str = "sym";
/// Of a copy of debug information; see [`CopyPlace`].
const COPY_EXTENSION: &str = "debug";
/// One copy takes at most this part of what all files may take.
const COPY_SHARE: u64 = 8;

/// What came of reading a cache file.
#[derive(Debug)]
pub(super) enum Loaded {
    /// There is none.
    Absent,
    /// It is damaged, or of another version.
    Rejected,
    /// Its content, and the file that holds it.
    Content(CacheContent, CacheFile),
}

/// A cache file that was read.
#[derive(Debug)]
pub(super) struct CacheFile(File);

impl CacheFile {
    /// Marks the file as used, so that it is not among the oldest. Returns which one that is.
    pub fn mark_used(&self) -> Option<FileVersion> {
        touch(&self.0);
        FileVersion::of(&self.0.metadata().ok()?)
    }
}

/// Which version of a cache file this is: a save makes a new file (another inode), and a reader sets the time of its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: SystemTime,
}

impl FileVersion {
    fn of(metadata: &fs::Metadata) -> Option<Self> {
        Some(Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok()?,
        })
    }
}

/// The cache directory.
#[derive(Debug)]
pub(super) struct CacheStore {
    directory: PathBuf,
    bytes_max: u64,
}

impl CacheStore {
    /// The store at a location; `None` when there is to be none or no place for it is known.
    pub fn new(location: &CacheLocation, bytes_max: u64) -> Option<Self> {
        let directory = match location {
            CacheLocation::Disabled => return None,
            CacheLocation::Directory(directory) => directory.clone(),
            CacheLocation::User => user_directory()?,
        };
        Some(Self {
            directory: directory.join("symbols"),
            bytes_max,
        })
    }

    fn path(&self, build_id: &[u8]) -> Option<PathBuf> {
        BUILD_ID_BYTES.contains(&build_id.len()).then(|| {
            self.directory
                .join(format!("{}.{EXTENSION}", hex(build_id)))
        })
    }

    /// Reads what is known about a build-id.
    pub fn load(&self, build_id: &[u8], intern: impl FnMut(&str) -> Arc<str>) -> Loaded {
        let Some(path) = self.path(build_id) else {
            return Loaded::Absent;
        };
        let (file, bytes) = match read(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Absent,
            Err(_) => return Loaded::Rejected,
        };
        match cache_file::decode(&bytes, build_id, intern) {
            Some(content) => Loaded::Content(content, CacheFile(file)),
            None => Loaded::Rejected,
        }
    }

    /// Adds what was found to what the file holds, if that is about the same files; ours wins. `known` is the file whose content is part of
    /// what was found: where it is still there, it is not read again.
    pub fn save(
        &self,
        build_id: &[u8],
        mut content: CacheContent,
        known: Option<FileVersion>,
    ) -> io::Result<()> {
        let Some(path) = self.path(build_id) else {
            return Ok(());
        };
        content.addresses.sort_unstable_by_key(|(vaddr, _)| *vaddr);
        let version = || FileVersion::of(&fs::metadata(&path).ok()?);
        if (known.is_none() || known != version())
            && let Loaded::Content(older, _) = self.load(build_id, |text| Arc::from(text))
            && older.fingerprint == content.fingerprint
        {
            content.addresses = merge(older.addresses, content.addresses);
        }
        content.addresses.truncate(ADDRESSES_MAX);
        let bytes = cache_file::encode(build_id, &content);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        self.replace(&path, &bytes)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Process ids repeat across machines that share the directory; the time makes up for it,
        // `create_new` for the rest.
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let temporary = self.directory.join(format!(
            ".{}-{:x}-{}.tmp",
            std::process::id(),
            now.as_nanos(),
            COUNTER.fetch_add(1, Ordering::Relaxed)
        ));
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // Nothing is left to do if this fails too; `prune` removes it later.
            fs::remove_file(&temporary).unwrap_or_default();
        }
        written
    }

    /// The place of a copy with `bytes` of the debug information of a file, which its build-id and a number distinguish; `None` where it would be
    /// too large.
    pub fn copies(&self, build_id: &[u8], number: u64, bytes: u64) -> Option<CopyPlace<'_>> {
        let is_kept = BUILD_ID_BYTES.contains(&build_id.len())
            && bytes <= FILE_BYTES_MAX.min(self.bytes_max / COPY_SHARE);
        is_kept.then(|| CopyPlace {
            directory: &self.directory,
            name: format!("{}-{number:016x}.{COPY_EXTENSION}", hex(build_id)),
            bytes,
        })
    }

    /// Removes files until the rest takes three quarters of the limit, copies before names, which are small and save most, and of each the oldest; and
    /// what dead writers left behind.
    pub fn prune(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else {
                continue; // another sampler removed it
            };
            let modified = metadata.modified().unwrap_or(now);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(extension @ (EXTENSION | COPY_EXTENSION)) if metadata.is_file() => {
                    files.push((extension == EXTENSION, modified, metadata.len(), path))
                }
                Some("tmp")
                    if now.duration_since(modified).unwrap_or_default() > ABANDONED_AFTER =>
                {
                    fs::remove_file(&path).unwrap_or_default();
                }
                _ => {}
            }
        }
        let mut total: u64 = files.iter().map(|(.., bytes, _)| bytes).sum();
        if total <= self.bytes_max {
            return Ok(());
        }
        files.sort();
        for (.., bytes, path) in files {
            if total <= self.bytes_max / 4 * 3 {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
}

/// The user's cache directory for this program.
fn user_directory() -> Option<PathBuf> {
    // The standard says that relative paths in these variables are to be ignored.
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("rsys"))
}

fn read(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no cache file"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    (&file).take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

type Addresses = Vec<(u64, cache_file::Frames)>;

fn merge(older: Addresses, newer: Addresses) -> Addresses {
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let mut older = older.into_iter().peekable();
    for entry in newer {
        while let Some(before) = older.next_if(|(vaddr, _)| *vaddr < entry.0) {
            merged.push(before);
        }
        older.next_if(|(vaddr, _)| *vaddr == entry.0);
        merged.push(entry);
    }
    merged.extend(older);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::types::Symbolized;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("rsys-cache-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn store(&self, bytes_max: u64) -> CacheStore {
            CacheStore::new(&CacheLocation::Directory(self.0.clone()), bytes_max).unwrap()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn content(fingerprint: u64, entries: &[(u64, &str)]) -> CacheContent {
        CacheContent {
            fingerprint,
            addresses: entries
                .iter()
                .map(|&(vaddr, name)| (vaddr, Some([Symbolized::from_name(name)].into())))
                .collect(),
        }
    }

    fn loaded(store: &CacheStore, build_id: &[u8]) -> Option<CacheContent> {
        match store.load(build_id, |text| Arc::from(text)) {
            Loaded::Content(content, _) => Some(content),
            _ => None,
        }
    }

    fn used(store: &CacheStore, build_id: &[u8]) -> Option<FileVersion> {
        match store.load(build_id, |text| Arc::from(text)) {
            Loaded::Content(_, file) => file.mark_used(),
            _ => None,
        }
    }

    #[test]
    fn later_saves_add_to_earlier_ones() {
        let directory = Directory::new("merge");
        let store = directory.store(1 << 20);
        let id = [7; 20];
        assert!(matches!(
            store.load(&id, |text| Arc::from(text)),
            Loaded::Absent
        ));
        store
            .save(&id, content(1, &[(3, "c"), (1, "a")]), None)
            .unwrap();
        store
            .save(&id, content(1, &[(2, "b"), (3, "C")]), None)
            .unwrap();
        assert_eq!(
            loaded(&store, &id),
            Some(content(1, &[(1, "a"), (2, "b"), (3, "C")]))
        );
        // Names of other files are dropped.
        store.save(&id, content(2, &[(9, "z")]), None).unwrap();
        assert_eq!(loaded(&store, &id), Some(content(2, &[(9, "z")])));
    }

    #[test]
    fn a_file_that_is_known_is_not_read_again() {
        let directory = Directory::new("known");
        let store = directory.store(1 << 20);
        let id = [6; 20];
        store.save(&id, content(1, &[(1, "a")]), None).unwrap();
        let known = used(&store, &id);
        assert!(known.is_some());
        // All of it is in what is saved: to be seen by what is not.
        store.save(&id, content(1, &[(2, "b")]), known).unwrap();
        assert_eq!(loaded(&store, &id), Some(content(1, &[(2, "b")])));
        // Somebody has written it since.
        store.save(&id, content(1, &[(3, "c")]), known).unwrap();
        assert_eq!(loaded(&store, &id), Some(content(1, &[(2, "b"), (3, "c")])));
        // Also if that was after it was read, and before it was marked as used.
        let Loaded::Content(_, read) = store.load(&id, |text| Arc::from(text)) else {
            panic!("there is a file");
        };
        store.save(&id, content(1, &[(6, "f")]), None).unwrap();
        let known = read.mark_used();
        store.save(&id, content(1, &[(7, "g")]), known).unwrap();
        let all = [(2, "b"), (3, "c"), (6, "f"), (7, "g")];
        assert_eq!(loaded(&store, &id), Some(content(1, &all)));
        // Somebody has removed it: nothing is known of none.
        fs::remove_file(store.path(&id).unwrap()).unwrap();
        assert_eq!(used(&store, &id), None);
        store.save(&id, content(1, &[(4, "d")]), known).unwrap();
        store.save(&id, content(1, &[(5, "e")]), None).unwrap();
        assert_eq!(loaded(&store, &id), Some(content(1, &[(4, "d"), (5, "e")])));
    }

    #[test]
    fn a_damaged_file_is_rejected_and_written_anew() {
        let directory = Directory::new("damaged");
        let store = directory.store(1 << 20);
        let id = [8; 20];
        store.save(&id, content(1, &[(1, "a")]), None).unwrap();
        fs::write(store.path(&id).unwrap(), b"RSYSSYM\nrubbish").unwrap();
        assert!(matches!(
            store.load(&id, |text| Arc::from(text)),
            Loaded::Rejected
        ));
        store.save(&id, content(1, &[(2, "b")]), None).unwrap();
        assert_eq!(loaded(&store, &id), Some(content(1, &[(2, "b")])));
    }

    #[test]
    fn many_writers_leave_a_whole_file() {
        let directory = Directory::new("writers");
        let store = directory.store(1 << 20);
        let id = [9; 20];
        std::thread::scope(|scope| {
            for writer in 0..8_u64 {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..50 {
                        store
                            .save(&id, content(1, &[(writer * 100 + round, "x")]), None)
                            .unwrap();
                        assert!(matches!(
                            store.load(&id, |text| Arc::from(text)),
                            Loaded::Content(..)
                        ));
                    }
                });
            }
        });
        let left = fs::read_dir(&store.directory).unwrap().count();
        assert_eq!(left, 1, "temporary files are gone");
    }

    #[test]
    fn the_oldest_files_go_first() {
        let directory = Directory::new("prune");
        let store = directory.store(4_000);
        for index in 0..10_u8 {
            let id = [index; 20];
            store
                .save(&id, content(1, &[(1, &"n".repeat(900))]), None)
                .unwrap();
            let file = File::options()
                .append(true)
                .open(store.path(&id).unwrap())
                .unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(1_000 - u64::from(index)))
                .unwrap();
        }
        assert!(used(&store, &[0; 20]).is_some());
        store.prune().unwrap();
        let kept: Vec<u8> = (0..10_u8)
            .filter(|&index| loaded(&store, &[index; 20]).is_some())
            .collect();
        assert_eq!(kept, [0, 8, 9]);
    }

    #[test]
    fn copies_are_kept_and_pruned() {
        let directory = Directory::new("copies");
        let store = directory.store(8_000);
        let source = directory.0.join("source");
        fs::write(&source, [7; 1_000]).unwrap();
        let place = store.copies(&[1; 20], 5, 1_000).unwrap();
        assert!(place.open().is_none());
        place.keep(&File::open(&source).unwrap()).unwrap();
        let mut bytes = Vec::new();
        place.open().unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 1_000]);
        // Of another size, of another file, too large, of a file without a build-id.
        assert!(store.copies(&[1; 20], 5, 999).unwrap().open().is_none());
        assert!(store.copies(&[1; 20], 6, 1_000).unwrap().open().is_none());
        assert!(store.copies(&[1; 20], 5, 1_001).is_none());
        assert!(store.copies(&[], 5, 1_000).is_none());
        // While another process writes it.
        let other = store.copies(&[2; 20], 5, 1_000).unwrap();
        let temporary = store.directory.join(format!(".{}.tmp", other.name));
        File::create(&temporary).unwrap();
        assert!(other.keep(&File::open(&source).unwrap()).is_err());
        assert!(temporary.exists() && other.open().is_none());
        directory.store(100).prune().unwrap();
        assert!(place.open().is_none());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_and_no_more() {
        let store = CacheStore::new(&CacheLocation::Directory("/proc/no/such".into()), 1).unwrap();
        assert!(store.save(&[1; 20], content(1, &[(1, "a")]), None).is_err());
        assert!(matches!(
            store.load(&[1; 20], |text| Arc::from(text)),
            Loaded::Absent
        ));
        assert!(store.prune().is_err());
    }
}
