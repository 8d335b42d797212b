//! Demangling of C++ (Itanium) and Rust (legacy and v0) names.
//!
//! The demanglers are those inside blazesym, which offers them only as a step of symbolisation. Names are therefore put into a
//! symbol file in memory (GSYM: one name per address) and symbolised from there, which also makes this a pure function of the name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use blazesym::symbolize::source::{GsymData, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

/// Longer names are shown as they are; the demanglers' work can grow faster than the name.
const MANGLED_BYTES_MAX: usize = 16 << 10;

/// The magic number and version of GSYM.
const GSYM_MAGIC: u32 = 0x4753_594d;
const GSYM_VERSION: u16 = 1;
const GSYM_HEADER_BYTES: usize = 48;

/// The name of a kernel as its programmer wrote it.
#[must_use]
pub fn demangled(name: &str) -> String {
    // What the compiler appends to a kernel's name in code objects.
    let bare = name.strip_suffix(".kd").unwrap_or(name);
    demangle_all(&[bare])
        .pop()
        .flatten()
        .unwrap_or_else(|| bare.to_owned())
}

/// Demangles names that have no suffixes; `None` for those that are not mangled.
pub(super) fn demangle_all(names: &[&str]) -> Vec<Option<String>> {
    let mut demangled = vec![None; names.len()];
    let (indices, mangled): (Vec<usize>, Vec<&str>) = names
        .iter()
        .enumerate()
        .filter(|&(_, name)| looks_mangled(name))
        .map(|(index, name)| (index, *name))
        .unzip();
    if mangled.is_empty() {
        return demangled;
    }
    let results = demangle_guarded(&mangled).unwrap_or_else(|| {
        // One name made the demangler panic: only that one goes without.
        mangled
            .iter()
            .map(|name| {
                demangle_guarded(&[name])
                    .and_then(|mut one| one.pop())
                    .flatten()
            })
            .collect()
    });
    for (index, result) in indices.into_iter().zip(results) {
        demangled[index] = result;
    }
    demangled
}

fn looks_mangled(name: &str) -> bool {
    (name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("__Z"))
        && name.len() <= MANGLED_BYTES_MAX
        && !name.contains('\0')
}

fn demangle_guarded(names: &[&str]) -> Option<Vec<Option<String>>> {
    catch_unwind(AssertUnwindSafe(|| demangle_with_blazesym(names)))
        .ok()
        .flatten()
}

fn demangle_with_blazesym(names: &[&str]) -> Option<Vec<Option<String>>> {
    let (file, pad) = gsym_of(names)?;
    let symbolizer = Symbolizer::builder().enable_code_info(false).build();
    let source = Source::from(GsymData::new(file.get(pad..)?));
    let addresses: Vec<u64> = (0..names.len() as u64).collect();
    let symbols = symbolizer
        .symbolize(&source, Input::VirtOffset(&addresses))
        .ok()?;
    let demangled = symbols
        .into_iter()
        .zip(names)
        .map(|(symbol, name)| match symbol {
            Symbolized::Sym(symbol) if symbol.name != **name => Some(symbol.name.into_owned()),
            _ => None,
        })
        .collect();
    Some(demangled)
}

/// A GSYM file in which address `i` has the name `names[i]`, and the number of bytes in front of it that make it aligned.
fn gsym_of(names: &[&str]) -> Option<(Vec<u8>, usize)> {
    let count = u32::try_from(names.len()).ok()?;
    // Layout: header, u32 address table, u32 offsets of address data, file table (empty), strings, address data.
    let strings_at = GSYM_HEADER_BYTES + names.len() * 8 + 4;
    let string_bytes: usize = 1 + names.iter().map(|name| name.len() + 1).sum::<usize>();
    let data_at = strings_at + string_bytes;
    const DATA_BYTES: usize = 12; // size, name, end of list
    let total = data_at + names.len() * DATA_BYTES;
    u32::try_from(total).ok()?;

    let mut file: Vec<u8> = Vec::with_capacity(total + 8);
    let pad = file.as_ptr().align_offset(8);
    file.resize(pad, 0);
    let put =
        |file: &mut Vec<u8>, value: usize| file.extend_from_slice(&(value as u32).to_ne_bytes());

    file.extend_from_slice(&GSYM_MAGIC.to_ne_bytes());
    file.extend_from_slice(&GSYM_VERSION.to_ne_bytes());
    file.extend_from_slice(&[4, 0]); // bytes per address, bytes of identifier
    file.extend_from_slice(&0_u64.to_ne_bytes()); // base address
    file.extend_from_slice(&count.to_ne_bytes());
    put(&mut file, strings_at);
    put(&mut file, string_bytes);
    file.extend_from_slice(&[0; 20]); // identifier
    for index in 0..names.len() {
        put(&mut file, index);
    }
    for index in 0..names.len() {
        put(&mut file, data_at + index * DATA_BYTES);
    }
    put(&mut file, 0); // files
    file.push(0);
    for name in names {
        file.extend_from_slice(name.as_bytes());
        file.push(0);
    }
    let mut string_at = 1;
    for name in names {
        put(&mut file, 1); // bytes of code
        put(&mut file, string_at);
        put(&mut file, 0); // end of list
        string_at += name.len() + 1;
    }
    Some((file, pad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names() {
        let table = [
            ("_ZN3foo3barEv", Some("foo::bar()")),
            ("_Z3addIiET_S0_S0_", Some("int add<int>(int, int)")),
            (
                "_ZNKSt6vectorIdSaIdEE4sizeEv",
                Some("std::vector<double, std::allocator<double> >::size() const"),
            ),
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                Some("core::fmt::Formatter::pad"),
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", Some("mycrate::foo::bar")),
            ("main", None),
            ("free_", None),
            ("_Z", None),
            ("_ZN", None),
            ("", None),
            ("_R", None),
        ];
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        for ((name, expected), found) in table.iter().zip(demangle_all(&names)) {
            assert_eq!(found.as_deref(), *expected, "{name}");
        }
    }

    #[test]
    fn many_names_keep_their_order() {
        let mangled: Vec<String> = (0..3_000)
            .map(|index| format!("_ZN1f{}x{index:04}Ev", 5))
            .collect();
        let names: Vec<&str> = mangled.iter().map(String::as_str).collect();
        for (index, name) in demangle_all(&names).into_iter().enumerate() {
            assert_eq!(name.as_deref(), Some(format!("f::x{index:04}()").as_str()));
        }
    }

    #[test]
    fn garbage_is_left_alone() {
        let mut state = 7_u64;
        let alphabet = b"_ZNRKSt0123IEvPc.$\xc3";
        for _ in 0..2_000 {
            let mut bytes = b"_Z".to_vec();
            for _ in 0..40 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                bytes.push(alphabet[(state >> 40) as usize % alphabet.len()]);
            }
            let name = String::from_utf8_lossy(&bytes);
            assert_eq!(demangle_all(&[&name]).len(), 1);
        }
    }
}
