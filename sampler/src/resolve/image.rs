//! One opened ELF file with its debug information: addresses in, raw frames out.
//!
//! DWARF is asked first. Where it has nothing, or is damaged, the symbol tables are: a broken unit
//! in one corner of a file must not cost the file all its names.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use blazesym::helper::ElfResolver;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{
    CodeInfo, FindSymOpts, Input, SrcLang, Symbolize, Symbolized, Symbolizer,
};

use super::cache_store::CacheStore;
use super::cold;
use super::linkage::Linkage;
use super::locate::Located;
use super::names::Language;
use super::types::ModuleProblem;
use super::unpacked::Unpacked;
use super::unwind_table::UnwindTable;

/// A module is given up after this many panics of the parser.
const PANICS_MAX: u32 = 16;

/// The function that runs Python frames. Its cold part is worth a name, for it stands for Python frames.
const WITH_COLD_PART: &str = "_PyEval_EvalFrameDefault";

/// A frame as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawFrame {
    /// The symbol, not demangled; empty where only the extent of the function is known.
    pub symbol: String,
    /// Source file with directory.
    pub file: Option<String>,
    /// Source line.
    pub line: Option<u32>,
    /// Start of the function that is not inlined.
    pub function_start: u64,
    /// By whose customs the symbol is written.
    pub language: Language,
}

/// An opened module. Bound to its thread.
pub(super) struct Image {
    dwarf: Option<ElfResolver>,
    symbols: Symbolizer,
    symbol_sources: Vec<PathBuf>,
    mangled_names: RefCell<HashMap<u64, Option<String>>>,
    options: FindSymOpts,
    cold_part: OnceCell<Option<Range<u64>>>,
    unwind_table: OnceCell<Option<UnwindTable>>,
    linkage: OnceCell<Linkage>,
    path: PathBuf,
    panics: u32,
    /// Last, as `path` may live in its memory file.
    located: Located,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Image")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Opens a module that was found. `cache` keeps what is unpacked of it.
    pub fn open(
        located: Located,
        debug_dirs: &[PathBuf],
        inlines: bool,
        cache: Option<&CacheStore>,
    ) -> Result<Self, ModuleProblem> {
        let path = located
            .debug_path
            .clone()
            .unwrap_or_else(|| located.path.clone());
        let mut symbol_sources = vec![path.clone()];
        if located.debug_path.is_some() {
            symbol_sources.push(located.path.clone());
        }
        // A debug link that leads to a wrong file is an error here; the symbol table is still good.
        let dwarf = guarded(&path, || {
            let unpacked = Unpacked::of(&path, cache);
            // It would be unpacked as a whole, into memory of the job: the symbol table has names, too.
            if unpacked.is_none() && Unpacked::is_too_large(&path) {
                return None;
            }
            let path = unpacked.as_ref().map_or(&path, |unpacked| &unpacked.path);
            ElfResolver::open_with_debug_dirs(path, debug_dirs).ok()
        })?;
        let symbols = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(false)
            .enable_inlined_fns(false)
            .enable_demangling(false)
            .build();
        Ok(Self {
            dwarf,
            symbols,
            symbol_sources,
            mangled_names: RefCell::default(),
            options: if inlines {
                FindSymOpts::CodeInfoAndInlined
            } else {
                FindSymOpts::CodeInfo
            },
            cold_part: OnceCell::new(),
            unwind_table: OnceCell::new(),
            linkage: OnceCell::new(),
            path,
            panics: 0,
            located,
        })
    }

    /// The size of the file, as a measure of what it costs to hold it open.
    pub fn file_bytes(&self) -> u64 {
        self.located.file_bytes
    }

    /// The frames at an address, innermost first; empty when the file has no name for it.
    ///
    /// # Errors
    /// When the parser has panicked too often.
    pub fn frames(&mut self, vaddr: u64) -> Result<Vec<RawFrame>, ModuleProblem> {
        if let Some(stub) = self.stub(vaddr) {
            return Ok(vec![stub]);
        }
        let mut frames = self.named_frames(vaddr)?;
        if let Some(outermost) = frames.last_mut() {
            self.name_as_exported(outermost);
        }
        if frames.is_empty() {
            let known = self.start_code(vaddr).or_else(|| self.cold_code(vaddr));
            frames.extend(known.or_else(|| self.nameless_function(vaddr)));
        }
        for frame in &mut frames {
            frame.language = Language::of(frame, self.located.head.is_go);
        }
        Ok(frames)
    }

    fn linkage(&self) -> &Linkage {
        self.linkage.get_or_init(|| Linkage::of(&self.located.path))
    }

    /// The frame of a stub through which the file calls a function of another.
    fn stub(&self, vaddr: u64) -> Option<RawFrame> {
        let find = || self.linkage().stub(vaddr);
        let (start, name) = guarded(&self.path, find).ok().flatten()?;
        Some(RawFrame {
            symbol: name,
            file: None,
            line: None,
            function_start: start,
            language: Language::Other,
        })
    }

    /// Gives a function the name that other files call it by, if it has another one for its own code (`__libc_read`).
    fn name_as_exported(&self, frame: &mut RawFrame) {
        // Mangled ones are nobody's alias; the kernel's have the names of the C library's functions that call them.
        const NO_ALIASES: [&str; 3] = ["_Z", "_R", "__vdso_"];
        let is_internal = frame.symbol.starts_with('_')
            && !NO_ALIASES
                .iter()
                .any(|start| frame.symbol.starts_with(start));
        let find = || {
            self.linkage()
                .exported(frame.function_start)
                .map(str::to_owned)
        };
        if is_internal && let Ok(Some(name)) = guarded(&self.path, find) {
            frame.symbol = name;
        }
    }

    fn named_frames(&mut self, vaddr: u64) -> Result<Vec<RawFrame>, ModuleProblem> {
        match guarded(&self.path, || self.frames_from_dwarf(vaddr)) {
            Ok(DwarfAnswer::Frames(frames)) => return Ok(frames),
            // The same symbol tables have been asked already.
            Ok(DwarfAnswer::Nothing) if self.symbol_sources.len() == 1 => return Ok(Vec::new()),
            Ok(_) => {}
            Err(problem) => self.count_panic(problem)?,
        }
        match guarded(&self.path, || self.frames_from_symbols(vaddr)) {
            Ok(frames) => Ok(frames),
            Err(problem) => self.count_panic(problem).map(|()| Vec::new()),
        }
    }

    /// The frame of the code at which a program begins: it has a name also where all symbols were
    /// stripped.
    fn start_code(&self, vaddr: u64) -> Option<RawFrame> {
        const START_CODE_BYTES: u64 = 64;
        let entry = self.located.head.entry?;
        (vaddr.wrapping_sub(entry) < START_CODE_BYTES).then(|| RawFrame {
            symbol: "_start".to_owned(),
            file: None,
            line: None,
            function_start: entry,
            language: Language::Other,
        })
    }

    /// The frame of code that was put elsewhere than the function that it is a part of.
    fn cold_code(&self, vaddr: u64) -> Option<RawFrame> {
        let find = || {
            let path = &self.located.path;
            guarded(path, || cold::part(path, WITH_COLD_PART)).unwrap_or_default()
        };
        let part = self.cold_part.get_or_init(find).as_ref();
        part.filter(|part| part.contains(&vaddr))
            .map(|part| RawFrame {
                symbol: format!("{WITH_COLD_PART}.cold"),
                file: None,
                line: None,
                function_start: part.start,
                language: Language::Other,
            })
    }

    /// The frame of a function whose extent is known, but not its name.
    fn nameless_function(&self, vaddr: u64) -> Option<RawFrame> {
        let open = || {
            let path = &self.located.path;
            guarded(path, || UnwindTable::open(path)).unwrap_or_default()
        };
        let table = self.unwind_table.get_or_init(open).as_ref()?;
        Some(RawFrame {
            symbol: String::new(),
            file: None,
            line: None,
            function_start: table.function_start(vaddr)?,
            language: Language::Other,
        })
    }

    fn count_panic(&mut self, problem: ModuleProblem) -> Result<(), ModuleProblem> {
        self.panics += 1;
        if self.panics > PANICS_MAX {
            Err(problem)
        } else {
            Ok(())
        }
    }

    fn frames_from_dwarf(&self, vaddr: u64) -> DwarfAnswer {
        let Some(dwarf) = &self.dwarf else {
            return DwarfAnswer::Damaged;
        };
        let symbol = match dwarf.find_sym(vaddr, &self.options) {
            Ok(Ok(symbol)) if !symbol.name.is_empty() => symbol,
            Ok(Err(_)) => return DwarfAnswer::Nothing,
            Ok(Ok(_)) | Err(_) => return DwarfAnswer::Damaged,
        };
        let mut frames = Vec::with_capacity(1 + symbol.inlined.len());
        for inlined in symbol.inlined.iter().rev() {
            frames.push(RawFrame {
                symbol: inlined.name.clone().into_owned(),
                file: inlined.code_info.as_ref().and_then(source_file),
                line: inlined.code_info.as_ref().and_then(|code| code.line),
                function_start: symbol.addr,
                language: Language::Other,
            });
        }
        // DWARF gives C++ functions without linkage (lambdas, statics, anonymous namespaces) their
        // bare name: `operator()`. The symbol table has the whole one. See the test
        // `cplusplus_names`.
        let mangled = (symbol.lang == SrcLang::Cpp && !symbol.name.starts_with("_Z"))
            .then(|| self.mangled_name(vaddr, symbol.addr))
            .flatten();
        frames.push(RawFrame {
            symbol: mangled.unwrap_or_else(|| symbol.name.to_owned()),
            file: symbol.code_info.as_deref().and_then(source_file),
            line: symbol.code_info.as_deref().and_then(|code| code.line),
            function_start: symbol.addr,
            language: Language::Other,
        });
        DwarfAnswer::Frames(frames)
    }

    /// The mangled name that the symbol table has for the function at `start`, which holds `vaddr`.
    fn mangled_name(&self, vaddr: u64, start: u64) -> Option<String> {
        if let Some(known) = self.mangled_names.borrow().get(&start) {
            return known.clone();
        }
        let found = self
            .frames_from_symbols(vaddr)
            .pop()
            .filter(|frame| frame.function_start == start && frame.symbol.starts_with("_Z"))
            .map(|frame| frame.symbol);
        self.mangled_names.borrow_mut().insert(start, found.clone());
        found
    }

    fn frames_from_symbols(&self, vaddr: u64) -> Vec<RawFrame> {
        for path in &self.symbol_sources {
            let mut elf = Elf::new(path);
            elf.debug_syms = false;
            if let Ok(Symbolized::Sym(symbol)) = self
                .symbols
                .symbolize_single(&Source::Elf(elf), Input::VirtOffset(vaddr))
                && !symbol.name.is_empty()
            {
                return vec![RawFrame {
                    symbol: symbol.name.into_owned(),
                    file: None,
                    line: None,
                    function_start: symbol.addr,
                    language: Language::Other,
                }];
            }
        }
        Vec::new()
    }
}

enum DwarfAnswer {
    Frames(Vec<RawFrame>),
    Nothing,
    Damaged,
}

fn source_file(code: &CodeInfo<'_>) -> Option<String> {
    if code.file.is_empty() {
        return None;
    }
    Some(code.to_path().to_string_lossy().into_owned())
}

/// Runs a parser; its panic becomes an error.
fn guarded<R>(path: &Path, parse: impl FnOnce() -> R) -> Result<R, ModuleProblem> {
    catch_unwind(AssertUnwindSafe(parse)).map_err(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panic".to_owned());
        ModuleProblem::Panicked {
            path: path.display().to_string(),
            message,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let problem = guarded(Path::new("/a"), || panic!("broken {}", 7)).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "/a: the parser of symbols failed: broken 7"
        );
    }
}
