//! The second engine: the framehop crate behind the same interface.

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::Range;

use ::framehop::{
    CacheNative, ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, UnwindRegsNative,
    Unwinder, UnwinderNative,
};

use crate::frames::{Broken, EXACT, End, FrameBuffer};
use crate::{Engine, Memory, Modules, Registers};

/// One loaded object with its tables as slices, which must stay mapped as long as the engine lives.
#[derive(Clone, Debug)]
pub struct FramehopModule {
    /// The addresses of the object's code.
    pub range: Range<u64>,
    /// Where `.eh_frame_hdr` is.
    pub eh_frame_hdr_address: u64,
    /// Its content; empty when there is none.
    pub eh_frame_hdr: &'static [u8],
    /// Where `.eh_frame` is.
    pub eh_frame_address: u64,
    /// Its content.
    pub eh_frame: &'static [u8],
}

/// The stack that a walk by framehop may take, in bytes: it evaluates tables in rows that are as large as any compiler could need
/// (`unwind/tests/stack_use.rs` measures it).
pub const FRAMEHOP_STACK_BYTES: usize = 16 << 10;

/// framehop over an immutable list of modules; a new list needs a new engine. The `modules` of a walk are not asked.
///
/// # Signal safety
///
/// [`FramehopEngine::new`] allocates, some 33 KiB and the list. A walk does not, but takes several KiB of stack, and tables are read
/// without a guard. One engine serves one thread.
pub struct FramehopEngine {
    unwinder: UnwinderNative<&'static [u8], MustNotAllocateDuringUnwind>,
    cache: Box<CacheNative<MustNotAllocateDuringUnwind>>,
}

impl fmt::Debug for FramehopEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramehopEngine").finish_non_exhaustive()
    }
}

impl FramehopEngine {
    /// An engine over these modules. Allocates.
    pub fn new(modules: impl IntoIterator<Item = FramehopModule>) -> Self {
        let mut unwinder = UnwinderNative::new();
        for module in modules {
            let span = |start: u64, bytes: &[u8]| start..start.saturating_add(bytes.len() as u64);
            // "SVMA" and "AVMA" are the same: the tables are read where they are loaded.
            let base = module.range.start;
            let has_header = !module.eh_frame_hdr.is_empty();
            let sections = ExplicitModuleSectionInfo {
                base_svma: base,
                eh_frame_hdr_svma: has_header
                    .then(|| span(module.eh_frame_hdr_address, module.eh_frame_hdr)),
                eh_frame_hdr: has_header.then_some(module.eh_frame_hdr),
                eh_frame_svma: Some(span(module.eh_frame_address, module.eh_frame)),
                eh_frame: Some(module.eh_frame),
                ..Default::default()
            };
            unwinder.add_module(Module::new(String::new(), module.range, base, sections));
        }
        Self {
            unwinder,
            cache: Box::new(CacheNative::new_in()),
        }
    }
}

impl Engine for FramehopEngine {
    fn walk<M: Memory, S: Modules>(
        &mut self,
        registers: &Registers,
        memory: &M,
        _modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End {
        let mut read = |address| memory.read_u64(address).ok_or(());
        let mut frames = self.unwinder.iter_frames(
            registers.pc(),
            framehop_registers(registers),
            &mut self.cache,
            &mut read,
        );
        let mut flags = EXACT;
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    if out.push(frame.address(), flags).is_err() {
                        return End::Truncated;
                    }
                    flags = 0;
                }
                Ok(None) => return End::Root,
                Err(_) => return End::Broken(Broken::Other),
            }
        }
    }
}

fn framehop_registers(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(
        registers.pc(),
        registers.sp(),
        registers.fp().unwrap_or_default(),
    )
}
