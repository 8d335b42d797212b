//! Is a loaded module a CPython, and of which version?

use rsys_unwind::Memory;

use crate::debug_offsets;
use crate::layout::{self, Layout};
use crate::symbols::Symbols;

/// An interpreter whose frames can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    /// As `PY_VERSION_HEX`.
    pub version: u32,
    /// Address of `_PyRuntime`.
    pub runtime: u64,
    /// Address of the type of code objects.
    pub code_type: u64,
    /// Where things are.
    pub layout: Layout,
}

/// What a module turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on one stack frame, and there is no heap"
)]
pub enum Found {
    /// An interpreter that is understood.
    Known(Interpreter),
    /// One that is not: its version, or 0, and an address in it.
    Unknown {
        /// As `PY_VERSION_HEX`, as far as it is known.
        version: u32,
        /// Whether it was built without the GIL, as far as it tells.
        free_threaded: bool,
        /// Of a function of it.
        address: u64,
    },
}

impl Interpreter {
    /// Looks at the module whose ELF header is mapped at `start`. `None` for anything but an interpreter.
    #[must_use]
    pub fn find(memory: &impl Memory, start: u64, bias: u64) -> Option<Found> {
        let symbols = Symbols::of_module(memory, start, bias)?;
        // Every CPython since 2.3 has it, and nothing else defines it.
        let address = symbols.find(memory, b"PyGILState_GetThisThreadState")?;
        let unknown = |version, free_threaded| {
            Some(Found::Unknown {
                version,
                free_threaded,
                address,
            })
        };
        let Some(runtime) = symbols.find(memory, b"_PyRuntime") else {
            return unknown(0, false);
        };
        let version = version(memory, &symbols, runtime);
        let known =
            layout::of_version(version, memory, runtime).zip(symbols.find(memory, b"PyCode_Type"));
        match known {
            Some((layout, code_type)) => Some(Found::Known(Interpreter {
                version,
                runtime,
                code_type,
                layout,
            })),
            None => {
                let told = debug_offsets::identity(memory, runtime);
                unknown(
                    version,
                    told.is_some_and(|(_, free_threaded)| free_threaded),
                )
            }
        }
    }
}

/// The version: a field from 3.11 on, before that known by what each version added.
fn version(memory: &impl Memory, symbols: &Symbols, runtime: u64) -> u32 {
    if let Some((version, _)) = debug_offsets::identity(memory, runtime) {
        return version;
    }
    if let Some(version) = symbols
        .find(memory, b"Py_Version")
        .and_then(|address| memory.read_u32(address))
    {
        return version;
    }
    let news: [(&[u8], u32); 3] = [
        (b"PyIter_Send", 0x030a_0000),
        (b"PyObject_CallNoArgs", 0x0309_0000),
        (b"PyCode_NewWithPosOnlyArgs", 0x0308_0000),
    ];
    news.iter()
        .find(|(name, _)| symbols.find(memory, name).is_some())
        .map_or(0x0307_0000, |(_, version)| *version)
}
