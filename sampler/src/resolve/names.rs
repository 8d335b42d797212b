//! Names as they are shown.
//!
//! A symbol's name goes through three steps: compiler-made suffixes are split off, the rest is demangled (by
//! `demangle`, in batches), and what comes out is joined again and shortened by `display_name`.
//!
//! Suffixes of clones that do the same work as the original (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`, `.lto_priv.0`, …) are
//! dropped: in a profile they belong to the function that the user wrote, and the frame's `function_start` and `mangled` still
//! tell them apart. OpenMP bodies (`._omp_fn.0`) stay visible, as their time is that of a parallel region. Others are shown as
//! `name [clone .avx2]`.

use std::borrow::Cow;
use std::path::Path;

use super::image::RawFrame;
use super::types::Symbolized;

/// Displayed names are cut to about this many characters.
const NAME_CHARACTERS_MAX: usize = 256;

/// The lowest address of the kernel's half of the address space.
pub const KERNEL_START: u64 = 1 << 63;

/// Suffixes of clones that are not shown.
const SILENT_SUFFIXES: &[&str] = &[
    "constprop",
    "isra",
    "part",
    "cold",
    "lto_priv",
    "llvm",
    "localalias",
    "unlikely",
    "warm",
    "hot",
    "text",
];

/// Extensions of Fortran sources.
const FORTRAN_EXTENSIONS: &[&str] = &[
    "f", "for", "ftn", "f77", "f90", "f95", "f03", "f08", "f18", "fpp",
];

/// Words in the file name of a library whose symbols follow Fortran's convention.
const FORTRAN_LIBRARIES: &[&str] = &[
    "blas", "lapack", "mkl", "libsci", "flame", "blis", "arpack", "fftw",
];

/// By whose customs a symbol is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Language {
    /// Those of C, C++, Rust and all that follow them.
    Other,
    /// Fortran's: procedures have an underscore at the end.
    Fortran,
    /// Go's: points stand between package, type and function, and nothing is mangled.
    Go,
}

impl Language {
    /// The language of a frame. `in_go`: of a file that Go's linker made, which may hold C as well.
    pub fn of(frame: &RawFrame, in_go: bool) -> Self {
        match frame.file.as_deref() {
            Some(file) if is_fortran_source(file) => Self::Fortran,
            Some(file) if in_go && (file.ends_with(".go") || file.ends_with(".s")) => Self::Go,
            None if in_go && is_go_symbol(&frame.symbol) => Self::Go,
            _ => Self::Other,
        }
    }
}

/// Whether a symbol of a Go program is Go's: it has points, and not as the suffixes of C have them.
fn is_go_symbol(symbol: &str) -> bool {
    let suffix = split(symbol).suffix;
    let mut words = suffix.split('.').skip(1);
    !symbol.starts_with("_Z")
        && !suffix.is_empty()
        && !words.all(|word| is_number(word) || SILENT_SUFFIXES.contains(&word))
}

/// A Go function's name without the mark of its calling convention.
fn go_name(symbol: &str) -> &str {
    symbol
        .strip_suffix(".abi0")
        .or_else(|| symbol.strip_suffix(".abiinternal"))
        .unwrap_or(symbol)
}

/// A symbol's name, taken apart before it is demangled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SymbolParts<'a> {
    /// The name without suffixes: what is to be demangled.
    pub base: &'a str,
    /// The suffixes, from the first point on; may be empty.
    pub suffix: &'a str,
}

/// Splits the compiler's suffixes and the symbol version from a name.
pub(super) fn split(symbol: &str) -> SymbolParts<'_> {
    // `memcpy@@GLIBC_2.14`; a mangled name never holds an `@`.
    let unversioned = match symbol.find('@') {
        Some(at) if at > 0 => &symbol[..at],
        _ => symbol,
    };
    if let Some(end) = rust_legacy_end(unversioned) {
        return SymbolParts {
            base: &unversioned[..end],
            suffix: &unversioned[end..],
        };
    }
    // A name may start with a point (`.plt` sections, local labels); a demangled DWARF name may hold `...` or `operator.`.
    let dot = unversioned
        .char_indices()
        .skip(1)
        .find(|&(_, character)| character == '.')
        .map(|(at, _)| at);
    match dot {
        Some(at) if unversioned[..at].chars().all(is_symbol_character) => SymbolParts {
            base: &unversioned[..at],
            suffix: &unversioned[at..],
        },
        _ => SymbolParts {
            base: unversioned,
            suffix: "",
        },
    }
}

/// The end of a name in Rust's older mangling, which holds points of its own (`_ZN4core3ptr..$LT$..17h0123456789abcdefE`).
fn rust_legacy_end(name: &str) -> Option<usize> {
    const MARK: &str = "17h";
    const HASH: usize = 16;
    let start = name.strip_prefix("_ZN").and_then(|_| name.rfind(MARK))?;
    let hash = name.get(start + MARK.len()..start + MARK.len() + HASH)?;
    let end = start + MARK.len() + HASH + 1;
    (hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && name.get(end - 1..end) == Some("E"))
        .then_some(end)
}

fn is_symbol_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// The text to show for a clone's suffixes, in front of which the function's name goes.
fn shown_suffix(suffix: &str) -> String {
    let mut shown = String::new();
    let mut words = suffix.split('.').skip(1).peekable();
    while let Some(word) = words.next() {
        let mut numbers = String::new();
        while let Some(number) = words.next_if(|next| is_number(next)) {
            numbers.push('.');
            numbers.push_str(number);
        }
        if word.is_empty() || is_number(word) || SILENT_SUFFIXES.contains(&word) {
            continue;
        }
        if word.starts_with("_omp_")
            || word.starts_with("_oacc_")
            || word.starts_with("omp_outlined")
        {
            shown.push_str(&format!(".{word}{numbers}"));
        } else {
            shown.push_str(&format!(" [clone .{word}{numbers}]"));
        }
    }
    shown
}

fn is_number(word: &str) -> bool {
    // LLVM writes `.llvm.123456`, and `.__uniq.123` in which the word is not a number.
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name to show for `symbol`.
///
/// `demangled` is what the demangler made of the symbol without its suffixes, if anything. Names of Go are as Go writes them. That the
/// source is Fortran, or the
/// module (a base name) a library of that tradition, is the evidence on which a procedure's trailing underscore is dropped.
#[must_use]
pub(super) fn display_name(
    symbol: &str,
    demangled: Option<&str>,
    language: Language,
    module: &str,
) -> String {
    if language == Language::Go {
        return shorten(go_name(symbol), NAME_CHARACTERS_MAX).into_owned();
    }
    let parts = split(symbol);
    let suffix = shown_suffix(parts.suffix);
    let base: Cow<'_, str> = match demangled {
        Some(demangled) => Cow::Borrowed(demangled),
        None => {
            let fortran = language == Language::Fortran;
            fortran_name(public_name(parts.base), fortran, module)
        }
    };
    let whole = if suffix.is_empty() {
        base
    } else {
        Cow::Owned(format!("{base}{suffix}"))
    };
    shorten(&whole, NAME_CHARACTERS_MAX).into_owned()
}

/// The name by which programs know a function of the C library. glibc calls its own functions by hidden aliases that begin with
/// `__GI_` (its `hidden_proto`), and where its full symbol table is installed, either may be found.
fn public_name(name: &str) -> &str {
    name.strip_prefix("__GI_")
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

/// Undoes the name mangling of Fortran compilers, where the name is convincingly one of theirs.
fn fortran_name<'a>(name: &'a str, fortran: bool, module: &str) -> Cow<'a, str> {
    // gfortran: __module_MOD_procedure. Both parts are lower case, so the marker cannot be a part of them.
    if let Some(rest) = name.strip_prefix("__")
        && let Some((scope, procedure)) = rest.split_once("_MOD_")
        && is_fortran_identifier(scope)
        && is_fortran_identifier(procedure)
    {
        return Cow::Owned(format!("{scope}::{procedure}"));
    }
    // flang: _QMmodulePprocedure, _QPprocedure, _QQmain.
    if name == "_QQmain" {
        return Cow::Borrowed("MAIN__");
    }
    if let Some(rest) = name.strip_prefix("_QM")
        && let Some((scope, procedure)) = rest.split_once('P')
        && is_fortran_identifier(scope)
        && is_fortran_identifier(procedure)
    {
        return Cow::Owned(format!("{scope}::{procedure}"));
    }
    if let Some(procedure) = name.strip_prefix("_QP")
        && is_fortran_identifier(procedure)
    {
        return Cow::Borrowed(procedure);
    }
    // ifort, nvfortran: module_mp_procedure_ and module_procedure_ are not told apart from plain names.
    if let Some(procedure) = name.strip_suffix('_')
        && is_fortran_identifier(procedure)
        && (fortran || is_numeric_routine(procedure, module))
    {
        return Cow::Borrowed(procedure);
    }
    Cow::Borrowed(name)
}

fn is_fortran_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Whether a source file is Fortran, by its name.
pub(super) fn is_fortran_source(file: &str) -> bool {
    Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| {
            FORTRAN_EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str())
        })
}

/// `dgemm_` in a BLAS: precision letter, short name, and a library that is known for such.
fn is_numeric_routine(procedure: &str, module: &str) -> bool {
    let module = module.to_ascii_lowercase();
    FORTRAN_LIBRARIES.iter().any(|word| module.contains(word))
        && (3..=12).contains(&procedure.len())
        && !procedure.contains('_')
        && procedure.starts_with(['s', 'd', 'c', 'z', 'i', 'l', 'x'])
}

/// Cuts the middle out of a name that has more than `characters_max` characters.
#[must_use]
pub fn shorten(name: &str, characters_max: usize) -> Cow<'_, str> {
    if name.len() <= characters_max || name.chars().count() <= characters_max {
        return Cow::Borrowed(name);
    }
    // The head names the function, the tail its last arguments or the member of a template: two thirds and one third.
    let head = characters_max.saturating_sub(1) * 2 / 3;
    let tail = characters_max.saturating_sub(1) - head;
    let head_end = name
        .char_indices()
        .nth(head)
        .map_or(name.len(), |(at, _)| at);
    let tail_start = name
        .char_indices()
        .rev()
        .take(tail)
        .last()
        .map_or(name.len(), |(at, _)| at);
    Cow::Owned(format!("{}…{}", &name[..head_end], &name[tail_start..]))
}

/// The frame of an address in the kernel.
#[must_use]
pub fn kernel_frame(address: u64) -> Symbolized {
    Symbolized::from_name(format!("[kernel]+{address:#x}"))
}

/// The frame of an address that lies in no known module.
#[must_use]
pub fn unknown_frame(address: u64) -> Symbolized {
    if address >= KERNEL_START {
        return kernel_frame(address);
    }
    Symbolized::from_name(format!("[unknown]+{address:#x}"))
}

/// The frame of an address whose module is known by `module` (a base name) and gives no name for it.
#[must_use]
pub fn module_frame(module: &str, vaddr: u64) -> Symbolized {
    Symbolized::from_name(format!("{module}+{vaddr:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_clones() {
        let table = [
            ("compute", "compute"),
            ("compute.constprop.0", "compute"),
            ("compute.isra.0.cold", "compute"),
            ("compute.part.3", "compute"),
            ("compute.lto_priv.12", "compute"),
            ("compute._omp_fn.0", "compute._omp_fn.0"),
            ("compute._omp_fn.1.constprop.0", "compute._omp_fn.1"),
            ("compute.avx2", "compute [clone .avx2]"),
            ("compute.arch_haswell.0", "compute [clone .arch_haswell.0]"),
            ("compute.llvm.8812394", "compute"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("__GI___clone3", "__clone3"),
            ("__GI___libc_free", "__libc_free"),
            ("__GI_", "__GI_"),
            (".hidden", ".hidden"),
            ("", ""),
            ("@", "@"),
            (".", "."),
            ("...", "..."),
        ];
        for (symbol, expected) in table {
            assert_eq!(
                display_name(symbol, None, Language::Other, "a.out"),
                expected,
                "{symbol}"
            );
        }
    }

    #[test]
    fn points_inside_older_rust_names() {
        let name = "_ZN50_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h633fdffc485b7620E";
        assert_eq!(
            split(name),
            SymbolParts {
                base: name,
                suffix: ""
            }
        );
        let clone = format!("{name}.llvm.123");
        assert_eq!(
            split(&clone),
            SymbolParts {
                base: name,
                suffix: ".llvm.123"
            }
        );
        assert_eq!(split("_ZN17h").base, "_ZN17h");
        assert_eq!(
            split("_ZN17h0123456789abcdef").base,
            "_ZN17h0123456789abcdef"
        );
    }

    #[test]
    fn fortran_only_where_it_convinces() {
        let table = [
            ("__solver_MOD_step", None, "app", "solver::step"),
            (
                "__solver_MOD_step._omp_fn.0",
                None,
                "app",
                "solver::step._omp_fn.0",
            ),
            (
                "__iso_c_binding_MOD_c_f_pointer",
                None,
                "app",
                "iso_c_binding::c_f_pointer",
            ),
            ("__MOD_", None, "app", "__MOD_"),
            ("stencil_", Some("/src/stencil.F90"), "app", "stencil"),
            ("stencil_", Some("/src/stencil.f"), "app", "stencil"),
            ("stencil_", Some("/src/stencil.c"), "app", "stencil_"),
            ("free_", None, "libc.so.6", "free_"),
            ("free_", Some("free.c"), "libc.so.6", "free_"),
            ("dgemm_", None, "libopenblas.so.0", "dgemm"),
            ("dgemm_", None, "libfoo.so", "dgemm_"),
            ("memory_free_", None, "libopenblas.so.0", "memory_free_"),
            ("_QMsolverPstep", None, "app", "solver::step"),
            ("_QPstencil", None, "app", "stencil"),
            ("MAIN__", Some("a.f90"), "app", "MAIN__"),
            ("_", Some("a.f90"), "app", "_"),
        ];
        for (symbol, file, module, expected) in table {
            let language = match file.is_some_and(is_fortran_source) {
                true => Language::Fortran,
                false => Language::Other,
            };
            assert_eq!(
                display_name(symbol, None, language, module),
                expected,
                "{symbol} in {module}"
            );
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("start{}end", "ü".repeat(1_000));
        let short = shorten(&name, 100);
        assert_eq!(short.chars().count(), 100);
        assert!(short.starts_with("start") && short.ends_with("end") && short.contains('…'));
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("äöüäö", 5), "äöüäö");
        assert_eq!(shorten("abc", 1), "…");
    }

    #[test]
    fn names_of_go_are_left_alone_and_those_of_c_beside_them_are_not() {
        let table = [
            ("main.main", None, "main.main"),
            (
                "main.(*Tree[...]).walk.func1",
                None,
                "main.(*Tree[...]).walk.func1",
            ),
            ("runtime.goexit.abi0", None, "runtime.goexit"),
            (
                "runtime.asmcgocall.abi0",
                Some("/go/src/runtime/asm_amd64.s"),
                "runtime.asmcgocall",
            ),
            ("type..eq.main.Circle", None, "type..eq.main.Circle"),
            ("main.cold", Some("/src/main.go"), "main.cold"),
            ("grind.cold", None, "grind"),
            ("grind.constprop.0", Some("/src/grind.c"), "grind"),
            ("_cgo_0123_Cfunc_grind", None, "_cgo_0123_Cfunc_grind"),
        ];
        for (symbol, file, expected) in table {
            let frame = RawFrame {
                symbol: symbol.to_owned(),
                file: file.map(str::to_owned),
                line: None,
                function_start: 0,
                language: Language::Other,
            };
            let language = Language::of(&frame, true);
            assert_eq!(
                display_name(symbol, None, language, "app"),
                expected,
                "{symbol}"
            );
        }
    }

    #[test]
    fn frames_without_a_symbol() {
        assert_eq!(&*unknown_frame(0x10).name, "[unknown]+0x10");
        assert_eq!(
            &*unknown_frame(0xffff_ffff_8100_0000).name,
            "[kernel]+0xffffffff81000000"
        );
        assert_eq!(&*module_frame("libc.so.6", 0x123).name, "libc.so.6+0x123");
    }
}
