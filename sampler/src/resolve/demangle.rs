//! Demangling of C++ (Itanium) and Rust (legacy and v0) names.

use std::panic::catch_unwind;

/// Longer names are shown as they are; the demanglers' work can grow faster than the name.
const MANGLED_BYTES_MAX: usize = 16 << 10;

/// The name of a kernel as its programmer wrote it.
#[must_use]
pub fn demangled(name: &str) -> String {
    // What the compiler appends to a kernel's name in code objects.
    let bare = name.strip_suffix(".kd").unwrap_or(name);
    demangle(bare).unwrap_or_else(|| bare.to_owned())
}

/// Demangles a name that has no suffixes; `None` if it is not mangled.
pub(super) fn demangle(name: &str) -> Option<String> {
    let is_mangled = ["_Z", "_R", "__Z"]
        .iter()
        .any(|start| name.starts_with(start))
        && name.len() <= MANGLED_BYTES_MAX
        && !name.contains('\0');
    if !is_mangled {
        return None;
    }
    // A demangler may panic at a name that no compiler made.
    let demangled = catch_unwind(|| of_rust(name).or_else(|| of_cpp(name))).ok()?;
    demangled.filter(|demangled| demangled != name)
}

/// Without the hash that ends legacy names.
fn of_rust(name: &str) -> Option<String> {
    Some(format!("{:#}", rustc_demangle::try_demangle(name).ok()?))
}

fn of_cpp(name: &str) -> Option<String> {
    cpp_demangle::Symbol::new(name).ok()?.demangle().ok()
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
        for (name, expected) in table {
            assert_eq!(demangle(name).as_deref(), expected, "{name}");
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
            std::hint::black_box(demangle(&name));
        }
    }
}
