//! What a C library exports.

use object::elf::{
    FileHeader64, SHN_ABS, SHT_DYNSYM, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT,
};
use object::endian::Endianness;
use object::read::elf::{FileHeader, Sym};

use crate::Outcome;

/// A function or variable in one of its versions.
pub struct Export {
    pub name: String,
    /// Such as `GLIBC_2.2.5`.
    pub version: String,
    /// Whether programs that are linked today get this version.
    pub is_default: bool,
    /// The size of a variable in bytes; none of a function.
    pub variable_bytes: Option<u64>,
}

/// All public functions and variables of a library, in all their versions.
pub fn read_exports(file: &[u8]) -> Outcome<Vec<Export>> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, SHT_DYNSYM)?;
    let versions = sections
        .versions(endian, file)?
        .ok_or("the C library has no versions")?;
    let mut exports = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let variable_bytes = match symbol.st_type() {
            STT_OBJECT => Some(symbol.st_size(endian)),
            STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE => None,
            _ => continue,
        };
        let bound = versions.version_index(endian, index);
        let Some(version) = versions.version(bound.index())? else {
            continue;
        };
        let version = String::from_utf8_lossy(version.name()).into_owned();
        // The names of versions are symbols too.
        let is_name = symbol.st_shndx(endian) == SHN_ABS;
        if symbol.is_undefined(endian) || is_name || crate::numbers(&version).is_none() {
            continue;
        }
        exports.push(Export {
            name: String::from_utf8_lossy(symbol.name(endian, symbols.strings())?).into_owned(),
            version,
            is_default: !bound.is_hidden(),
            variable_bytes,
        });
    }
    Ok(exports)
}
