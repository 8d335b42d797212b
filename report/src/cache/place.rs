//! Where files of the cache are: in a hidden folder beside the traces, else in the user's cache folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// The folder beside the traces. Hidden folders are never looked into for traces.
const FOLDER: &str = ".rsys-cache";
/// The folder below the user's cache folder.
const OF_USER: &str = "answers";
/// So many files of a kind stay; the oldest go.
const FILES_MAX: usize = 8;
/// A draft this old was left by a process that died.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Bytes for which a folder must have room before it gets a file without a name.
const ROOM_BYTES: usize = 1 << 16;

/// The folders for what is found out about some input.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// In the order in which they are tried.
    folders: Vec<PathBuf>,
    /// Whose files are trusted, beside our own.
    owner: Option<u32>,
}

impl Place {
    /// The place for these inputs: beside the first of them.
    pub(super) fn of(inputs: &[PathBuf]) -> Self {
        let first = inputs.first().map_or(Path::new("."), PathBuf::as_path);
        let beside = match first.is_dir() {
            true => first,
            false => first.parent().unwrap_or(first),
        };
        let of_user = user_folder().map(|folder| folder.join(OF_USER));
        let folders = [Some(beside.join(FOLDER)), of_user];
        Self {
            folders: folders.into_iter().flatten().collect(),
            owner: fs::metadata(first).ok().map(|about| about.uid()),
        }
    }

    /// Opens the files of this name, in the order of the folders. Whoever can write the traces can make answers say anything; nobody else
    /// is believed.
    pub(crate) fn open(&self, name: &str) -> impl Iterator<Item = File> {
        let owner = self.owner;
        let files = self.folders.iter().map(move |folder| folder.join(name));
        files.filter_map(move |path| {
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(path)
                .ok()?;
            let about = file.metadata().ok()?;
            let is_known = Some(about.uid()) == owner || Some(about.uid()) == own_user();
            (about.is_file() && is_known).then_some(file)
        })
    }

    /// Starts a file of this name; `None` where nothing can be written.
    pub(crate) fn draft(&self, name: &str) -> Option<Draft> {
        let mut folders = self.folders.iter();
        folders.find_map(|folder| Draft::new(folder, name).ok())
    }
}

/// Who we are: whoever owns what `/proc` says of us.
fn own_user() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|about| about.uid())
}

/// The folder of this user for what can be made or fetched again.
pub(crate) fn user_folder() -> Option<PathBuf> {
    // The standard says that relative paths in these variables are to be ignored.
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("rsys"))
}

/// An empty file without a name, which is removed when it is closed: in this folder if that has room, else in that of temporary files, else in memory.
///
/// # Errors
/// When none can be made.
pub(crate) fn unnamed(folder: Option<&Path>) -> io::Result<File> {
    let temporary = std::env::temp_dir();
    let mut folders = folder.into_iter().chain([temporary.as_path()]);
    if let Some(file) = folders.find_map(|folder| unnamed_in(folder).ok()) {
        return Ok(file);
    }
    Ok(File::from(memfd_create(c"rsys", MFdFlags::MFD_CLOEXEC)?))
}

/// Such a file in a folder that is there.
fn unnamed_in(folder: &Path) -> io::Result<File> {
    let file = match folder.as_os_str().is_empty() {
        true => tempfile::tempfile_in("."),
        false => tempfile::tempfile_in(folder),
    }?;
    // In a full folder files can be made, but not written.
    file.write_all_at(&[0; ROOM_BYTES], 0)?;
    file.set_len(0)?;
    Ok(file)
}

/// A file that is being written. It goes away unless it is kept.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Where to write, and to read what was written.
    pub(crate) file: File,
    /// Where it is, until it has its name.
    path: Option<PathBuf>,
    folder: PathBuf,
    name: String,
}

impl Draft {
    fn new(folder: &Path, name: &str) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let is_new = !folder.is_dir();
        let mut builder = DirBuilder::new();
        // What is beside the traces is for whoever may read those; the user's own folder is nobody else's.
        let is_beside = folder.ends_with(FOLDER);
        builder.recursive(!is_beside);
        builder.mode(if is_beside { 0o777 } else { 0o700 });
        if is_new && let Err(error) = builder.create(folder) {
            // Another asker may have been quicker.
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
        }
        // Process ids repeat across machines that share the folder; the time makes up for it, `create_new` for the rest.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let path = folder.join(format!(
            ".{}-{:x}-{}.tmp",
            std::process::id(),
            now.unwrap_or_default().as_nanos(),
            COUNTER.fetch_add(1, Ordering::Relaxed)
        ));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self {
            file,
            path: Some(path),
            folder: folder.to_path_buf(),
            name: name.to_owned(),
        })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When that fails; it is gone then.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, self.folder.join(&self.name))?;
            self.path = None;
            prune(&self.folder, &self.name);
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            fs::remove_file(path).ok();
        }
    }
}

/// Removes the oldest files of the kind of `name`, and what processes that died have left.
fn prune(folder: &Path, name: &str) {
    let kind = name.split('-').next().unwrap_or(name);
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        let Some(written) = entry
            .metadata()
            .ok()
            .and_then(|about| about.modified().ok())
        else {
            continue;
        };
        let age = written.elapsed().unwrap_or_default();
        if other.ends_with(".tmp") && age > ABANDONED_AFTER {
            fs::remove_file(entry.path()).ok();
        } else if other != name && other.split('-').next() == Some(kind) {
            files.push((written, entry.path()));
        }
    }
    files.sort();
    for (_, path) in files.iter().rev().skip(FILES_MAX - 1) {
        fs::remove_file(path).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn folder(name: &str) -> (Folder, Place) {
        let path = std::env::temp_dir().join(format!("rsys-place-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        let place = Place {
            folders: vec![path.join(FOLDER)],
            owner: None,
        };
        (Folder(path), place)
    }

    #[test]
    fn a_file_is_there_when_it_is_kept() {
        let (_folder, place) = folder("kept");
        let write = |text: &str| {
            let mut draft = place.draft("answers-1").expect("a draft");
            draft.file.write_all(text.as_bytes()).expect("written");
            draft
        };
        let read = || {
            let mut text = String::new();
            let mut file = place.open("answers-1").next()?;
            file.read_to_string(&mut text).ok().map(|_| text)
        };
        drop(write("lost"));
        assert_eq!(read(), None);
        let (first, second) = (write("first"), write("second"));
        second.keep().expect("renamed");
        assert_eq!(read().as_deref(), Some("second"));
        first.keep().expect("renamed");
        assert_eq!(read().as_deref(), Some("first"));
        let left = fs::read_dir(&place.folders[0]).expect("the folder").count();
        assert_eq!(left, 1);
    }

    #[test]
    fn the_oldest_files_of_a_kind_go() {
        let (_folder, place) = folder("oldest");
        for number in 0..FILES_MAX + 3 {
            let draft = place.draft(&format!("answers-{number}")).expect("a draft");
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
            draft.file.set_modified(time).expect("a time");
            draft.keep().expect("renamed");
        }
        place
            .draft("tables-1")
            .expect("a draft")
            .keep()
            .expect("renamed");
        let mut names: Vec<_> = fs::read_dir(&place.folders[0])
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names.len(), FILES_MAX + 1, "{names:?}");
        assert!(place.open("answers-0").next().is_none());
        assert!(place.open("answers-10").next().is_some());
    }

    #[test]
    fn a_file_without_a_name_is_where_there_is_a_folder_for_it() {
        let (_folder, place) = folder("unnamed");
        let path = place.folders[0].parent().expect("its folder").to_owned();
        let links = |file: &File| {
            let about = file.metadata().expect("a file");
            (about.dev(), about.nlink(), about.len())
        };
        let in_folder = unnamed(Some(&path)).expect("a file");
        let device = fs::metadata(&path).expect("a folder").dev();
        assert_eq!(links(&in_folder), (device, 0, 0));
        assert_eq!(fs::read_dir(&path).expect("the folder").count(), 0);
        // A folder that is not there is not made, and one that takes nothing is left.
        let none = path.join("none");
        for other in [none.as_path(), Path::new("/proc/self")] {
            let file = unnamed(Some(other)).expect("a file");
            file.write_all_at(b"rows", 0).expect("written");
            assert_eq!((links(&file).1, links(&file).2), (0, 4));
        }
        assert!(!none.exists());
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_kept() {
        let place = Place {
            folders: vec![PathBuf::from("/proc/self/.rsys-cache")],
            owner: None,
        };
        assert!(place.draft("answers-1").is_none());
    }
}
