//! Finding the file that a process has mapped, and its separate debug file.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use object::elf::{ET_EXEC, FileHeader64, NT_GNU_BUILD_ID, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, ReadCache, ReadRef};

use super::types::{Mapped, ModuleDesc, ModuleProblem};
use super::vdso;

/// A file that is known to be the one that the process has mapped.
#[derive(Debug)]
pub(super) struct Located {
    /// The module itself.
    pub path: PathBuf,
    /// Its size.
    pub file_bytes: u64,
    /// A separate debug file with the same build-id.
    pub debug_path: Option<PathBuf>,
    /// What its head says.
    pub head: ElfHead,
    /// Keeps `path` valid where that is a descriptor's.
    pub _memory_file: Option<File>,
}

/// What names need to know of the head of an ELF file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ElfHead {
    /// Where a program begins.
    pub entry: Option<u64>,
    /// Go's linker made it.
    pub is_go: bool,
}

/// What the head of an ELF file says about it.
#[derive(Debug, Default)]
struct ElfIdentity {
    build_id: Option<Vec<u8>>,
    has_debug_info: bool,
    head: ElfHead,
}

/// Finds the file of a module: in the roots of the processes that map it, then in ours, and where they have it, if it was removed or replaced.
pub(super) fn locate(
    desc: &ModuleDesc,
    roots: &[PathBuf],
    mapped: &[Mapped],
    debug_dirs: &[PathBuf],
) -> Result<Located, ModuleProblem> {
    if vdso::is_vdso(&desc.path) {
        return locate_vdso(desc);
    }
    let mut problem = None;
    let located = |path, (identity, file_bytes): (ElfIdentity, u64), kept| Located {
        path,
        file_bytes,
        debug_path: match identity.has_debug_info {
            true => None,
            false => debug_file(&desc.build_id, roots, debug_dirs),
        },
        head: identity.head,
        _memory_file: kept,
    };
    for path in candidates(&desc.path, roots) {
        match check(&path, &desc.build_id) {
            Ok(checked) => return Ok(located(path, checked, None)),
            // A file that is there says more than one that is not.
            Err(ModuleProblem::FileMissing { .. }) if problem.is_some() => {}
            Err(found) => problem = Some(found),
        }
    }
    // Only by its build-id is a mapped file known: a process may run another program by now.
    for mapped in mapped.iter().rev().filter(|_| !desc.build_id.is_empty()) {
        let Some(file) = mapped.path().and_then(|path| open_regular(&path).ok()) else {
            continue;
        };
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if let Ok(checked) = check(&path, &desc.build_id) {
            return Ok(located(path, checked, Some(file)));
        }
    }
    // The file is gone, but its debug file has the symbols as well.
    if let Some(debug_path) = debug_file(&desc.build_id, roots, debug_dirs) {
        let file_bytes = std::fs::metadata(&debug_path).map_or(0, |metadata| metadata.len());
        return Ok(Located {
            path: debug_path,
            file_bytes,
            debug_path: None,
            head: ElfHead::default(),
            _memory_file: None,
        });
    }
    Err(problem.unwrap_or_else(|| ModuleProblem::FileMissing {
        path: desc.path.display().to_string(),
    }))
}

impl Mapped {
    /// The link to the file, which the kernel keeps as long as it is mapped. Those of libraries may be followed with `CAP_CHECKPOINT_RESTORE`.
    fn path(&self) -> Option<PathBuf> {
        let process = PathBuf::from(format!("/proc/{}", self.host_pid));
        let Some(address) = self.address else {
            return Some(process.join("exe"));
        };
        let begin = format!("{address:x}-");
        let mut entries = process.join("map_files").read_dir().ok()?.flatten();
        let entry =
            entries.find(|entry| entry.file_name().as_bytes().starts_with(begin.as_bytes()));
        Some(entry?.path())
    }
}

fn locate_vdso(desc: &ModuleDesc) -> Result<Located, ModuleProblem> {
    let (file, path) = vdso::copy_to_memory_file().map_err(|error| ModuleProblem::Unreadable {
        path: desc.path.display().to_string(),
        error: error.to_string(),
    })?;
    let (_, file_bytes) = check(&path, &desc.build_id)?;
    Ok(Located {
        path,
        file_bytes,
        debug_path: None,
        head: ElfHead::default(),
        _memory_file: Some(file),
    })
}

/// The paths at which a module's file may be found, best first.
pub(super) fn candidates(path: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    // The kernel marks the path of a file that was removed; another one may have come in its place.
    let path = path
        .as_os_str()
        .as_bytes()
        .strip_suffix(b" (deleted)")
        .map_or(path, |kept| Path::new(OsStr::from_bytes(kept)));
    // A relative or empty path, or `[heap]`, is no file: it would be taken from our own working
    // directory.
    let Ok(inner) = path.strip_prefix("/") else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = roots.iter().map(|root| root.join(inner)).collect();
    paths.push(path.to_path_buf());
    paths
}

fn check(path: &Path, expected: &[u8]) -> Result<(ElfIdentity, u64), ModuleProblem> {
    let shown = || path.display().to_string();
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ModuleProblem::FileMissing { path: shown() }
        }
        _ => ModuleProblem::Unreadable {
            path: shown(),
            error: error.to_string(),
        },
    };
    let file = open_regular(path).map_err(unreadable)?;
    let file_bytes = file.metadata().map_err(unreadable)?.len();
    let identity = identity(&ReadCache::new(file)).map_err(|error| ModuleProblem::NotElf {
        path: shown(),
        error: error.to_string(),
    })?;
    // A process may map a file that has no build-id, and then there is nothing to compare.
    if !expected.is_empty() && identity.build_id.as_deref() != Some(expected) {
        return Err(ModuleProblem::BuildIdMismatch {
            path: shown(),
            expected: hex(expected),
            found: identity
                .build_id
                .as_deref()
                .map_or_else(|| "none".to_owned(), hex),
        });
    }
    Ok((identity, file_bytes))
}

/// Opens a file for reading, but no device and no pipe: opening those may block or have effects.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

fn identity<'data>(data: impl ReadRef<'data>) -> object::Result<ElfIdentity> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = LittleEndian;
    let mut identity = ElfIdentity::default();
    // Linkers gave libraries an entry, too, which means nothing.
    let mut segments = header.program_headers(endian, data)?.iter();
    let is_program = header.e_type(endian) == ET_EXEC
        || segments.any(|segment| segment.p_type(endian) == PT_INTERP);
    let entry = header.e_entry(endian);
    identity.head.entry = (is_program && entry != 0).then_some(entry);
    // Debug files keep their notes' sections but not their segments, and files without sections
    // have segments only.
    if let Ok(sections) = header.sections(endian, data) {
        let has = |name: &[u8]| sections.section_by_name(endian, name).is_some();
        identity.has_debug_info = has(b".debug_info");
        identity.head.is_go = has(b".gopclntab") || has(b".note.go.buildid");
        for section in sections.iter() {
            if let Ok(Some(mut notes)) = section.notes(endian, data) {
                while let Ok(Some(note)) = notes.next() {
                    if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                        identity.build_id = Some(note.desc().to_vec());
                        return Ok(identity);
                    }
                }
            }
        }
    }
    for segment in header.program_headers(endian, data)? {
        if let Ok(Some(mut notes)) = segment.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                    identity.build_id = Some(note.desc().to_vec());
                    return Ok(identity);
                }
            }
        }
    }
    Ok(identity)
}

/// The debug file that is filed under a build-id.
fn debug_file(build_id: &[u8], roots: &[PathBuf], debug_dirs: &[PathBuf]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let inner = format!(".build-id/{first:02x}/{}.debug", hex(rest));
    let in_roots = roots.iter().flat_map(|root| {
        debug_dirs
            .iter()
            .filter_map(|dir| Some(root.join(dir.strip_prefix("/").ok()?)))
    });
    debug_dirs
        .iter()
        .cloned()
        .chain(in_roots)
        .map(|dir| dir.join(&inner))
        .find(|path| check(path, build_id).is_ok())
}

/// A number that changes when the files behind a module's names change, made without opening any:
/// results of an earlier run are good as long as it is the same. Zero when the module's file is not
/// there.
pub(super) fn fingerprint(
    desc: &ModuleDesc,
    roots: &[PathBuf],
    debug_dirs: &[PathBuf],
    inlines: bool,
) -> u64 {
    let mut hasher = DefaultHasher::new();
    inlines.hash(&mut hasher);
    if !vdso::is_vdso(&desc.path) {
        // The build-id stays when a file is stripped, the size does not.
        let found = candidates(&desc.path, roots)
            .into_iter()
            .find_map(|path| Some((std::fs::metadata(&path).ok()?.len(), path)));
        let Some((file_bytes, path)) = found else {
            return 0;
        };
        file_bytes.hash(&mut hasher);
        for path in debug_file_candidates(&path, &desc.build_id, debug_dirs) {
            if let Ok(metadata) = std::fs::metadata(&path) {
                (metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
            } else {
                0_u8.hash(&mut hasher);
            }
        }
    }
    hasher.finish() | 1
}

/// The name under which a module's results are kept: its build-id, or for files without one, what
/// distinguishes this file from others of its name.
pub(super) fn cache_key(desc: &ModuleDesc, roots: &[PathBuf]) -> Vec<u8> {
    if !desc.build_id.is_empty() || vdso::is_vdso(&desc.path) {
        return desc.build_id.clone();
    }
    let found = candidates(&desc.path, roots)
        .into_iter()
        .find_map(|path| std::fs::metadata(path).ok());
    let Some(metadata) = found.filter(std::fs::Metadata::is_file) else {
        return Vec::new();
    };
    let mut key = b"file".to_vec();
    for salt in 0..2_u8 {
        let mut hasher = DefaultHasher::new();
        (salt, &desc.path, metadata.len(), metadata.ino()).hash(&mut hasher);
        (metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        key.extend_from_slice(&hasher.finish().to_le_bytes());
    }
    key
}

/// Where debug files usually are: by build-id, next to the module, and mirrored below the debug
/// directories.
fn debug_file_candidates(path: &Path, build_id: &[u8], debug_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let with = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let mut paths = vec![with(".dwp"), with(".debug")];
    if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
        let mut debug_name = name.to_owned();
        debug_name.push(".debug");
        paths.push(dir.join(".debug").join(&debug_name));
        for debug_dir in debug_dirs {
            if let Ok(inner) = dir.strip_prefix("/") {
                paths.push(debug_dir.join(inner).join(&debug_name));
            }
        }
    }
    if let Some((first, rest)) = build_id.split_first() {
        for debug_dir in debug_dirs {
            paths.push(debug_dir.join(format!(".build-id/{first:02x}/{}.debug", hex(rest))));
        }
    }
    paths
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_module_may_be() {
        let root = PathBuf::from("/proc/7/root");
        assert_eq!(
            candidates(Path::new("/usr/lib/libc.so (deleted)"), &[root]),
            [
                PathBuf::from("/proc/7/root/usr/lib/libc.so"),
                PathBuf::from("/usr/lib/libc.so")
            ]
        );
        assert!(candidates(Path::new("[heap]"), &[]).is_empty());
        assert!(candidates(Path::new(""), &[]).is_empty());
    }

    #[test]
    fn our_own_file_has_its_build_id() {
        let exe = std::env::current_exe().unwrap();
        let (identity, _) = check(&exe, &[]).unwrap();
        if let Some(build_id) = identity.build_id {
            assert!(check(&exe, &build_id).is_ok());
        }
        assert!(matches!(
            check(&exe, &[1, 2]),
            Err(ModuleProblem::BuildIdMismatch { .. })
        ));
    }

    #[test]
    fn what_is_no_module() {
        let directory = std::env::temp_dir();
        assert!(matches!(
            check(&directory, &[]),
            Err(ModuleProblem::Unreadable { .. })
        ));
        assert!(matches!(
            check(Path::new("/no/such/file"), &[]),
            Err(ModuleProblem::FileMissing { .. })
        ));
        let path = directory.join(format!("rsys-not-elf-{}", std::process::id()));
        for text in ["", "\x7fELF", "#!/bin/sh\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(
                matches!(check(&path, &[]), Err(ModuleProblem::NotElf { .. })),
                "{text:?}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
