//! How many of a file's functions have names: by its sections, and by the files of debug information that are installed beside it.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, ReadCache, ReadRef, elf};

use crate::roots::Roots;

/// What names the functions of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// Debug information: inlined functions and lines too.
    Lines,
    /// A table of all functions.
    All,
    /// The functions that others may call; its own are named by their place.
    Exported,
    /// Nothing.
    None,
}

/// A file with what names its functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What does.
    pub names: Names,
    /// The id by which its debug information is found, in hexadecimal.
    pub build_id: Option<String>,
}

/// The folder of debug information (see `man gdb`).
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

impl Named {
    /// Looks at a file, a path of the machine; nothing where it is no ELF file or cannot be read.
    #[must_use]
    pub fn of(roots: &Roots, path: &Path) -> Option<Self> {
        let own = sections_of(&roots.inside(path))?;
        let apart = own.build_id.as_deref().and_then(debug_file);
        let apart = apart.and_then(|path| sections_of(&roots.inside(&path)));
        let names = match apart.map(|apart| apart.names) {
            Some(names @ (Names::Lines | Names::All)) if own.names != Names::Lines => names,
            _ => own.names,
        };
        Some(Self { names, ..own })
    }
}

/// Where the debug information of a build id is filed.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| PathBuf::from(format!("{DEBUG_FOLDER}/{first}/{rest}.debug")))
}

fn sections_of(path: &Path) -> Option<Named> {
    let file = File::open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(())?;
    read(&ReadCache::new(file)).ok()
}

fn read<'data>(data: impl ReadRef<'data>) -> object::Result<Named> {
    let header = elf::FileHeader64::<LittleEndian>::parse(data)?;
    let endian = LittleEndian;
    let sections = header.sections(endian, data)?;
    let has = |name: &[u8]| {
        let section = sections.section_by_name(endian, name);
        section.is_some_and(|(_, section)| {
            section.sh_size(endian) > 0 && section.sh_type(endian) != elf::SHT_NOBITS
        })
    };
    let names = if has(b".debug_info") || has(b".gopclntab") {
        Names::Lines
    } else if has(b".symtab") || has(b".gnu_debugdata") {
        Names::All
    } else if has(b".dynsym") {
        Names::Exported
    } else {
        Names::None
    };
    let mut build_id = None;
    for section in sections.iter() {
        let Ok(Some(mut notes)) = section.notes(endian, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                let digits = note.desc().iter().map(|byte| format!("{byte:02x}"));
                build_id = Some(digits.collect());
            }
        }
    }
    Ok(Named { names, build_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_names_and_texts_have_none() {
        let roots = Roots::of_this_process();
        let this = std::env::current_exe().expect("this program");
        let named = Named::of(&roots, &this).expect("an ELF file");
        assert!(
            matches!(named.names, Names::Lines | Names::All),
            "{named:?}"
        );
        assert_eq!(Named::of(&roots, Path::new("/etc/passwd")), None);
        assert_eq!(Named::of(&roots, Path::new("/")), None);
        assert_eq!(debug_file("ab"), None);
        assert_eq!(
            debug_file("abcd"),
            Some(PathBuf::from("/usr/lib/debug/.build-id/ab/cd.debug"))
        );
    }
}
