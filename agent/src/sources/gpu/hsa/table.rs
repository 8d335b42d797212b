//! The functions of the HSA runtime: where they stand in its tables, what they were before ours took their places.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sources::gpu::hsa::abi::{
    AgentCallback, Layout, PacketHandler, Pitched, Queue, QueueCallback, ROOT_BYTES_LEAST,
    ROOT_BYTES_WITH_TOOLS, RootTable, SUCCESS, ScratchEvent, Size3, Status, SymbolCallback,
    SystemEventHandler, TableHead, Times,
};

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// HSA itself.
    Core,
    /// AMD's extensions.
    Amd,
    /// What tools are told.
    Tools,
}

/// The tables of a runtime that we know our way in.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    core: *mut TableHead,
    amd: *mut TableHead,
    tools: *mut TableHead,
    /// Where functions are.
    pub layout: Layout,
    /// Size of the extension table, which shows the release.
    pub amd_bytes: u32,
}

impl Tables {
    /// The tables, unless they are of an unknown kind.
    ///
    /// # Safety
    /// `root` must be what the runtime passed to `OnLoad`.
    pub unsafe fn new(root: *const RootTable) -> Option<Tables> {
        // SAFETY: the runtime's own table; what lies behind its first fields is read only if its size says that it is there.
        unsafe {
            let head = (*root).head;
            if !(1..=3).contains(&head.major) || head.bytes < ROOT_BYTES_LEAST {
                return None;
            }
            let (core, amd) = ((*root).core, (*root).amd);
            let known = |table: *const TableHead| {
                table.as_ref().filter(|head| (1..=2).contains(&head.major))
            };
            known(core)?;
            let amd_bytes = known(amd)?.bytes;
            let tools = if head.bytes >= ROOT_BYTES_WITH_TOOLS {
                (*root).tools
            } else {
                std::ptr::null_mut()
            };
            Some(Tables {
                core,
                amd,
                tools,
                layout: Layout::of_bytes(amd_bytes)?,
                amd_bytes,
            })
        }
    }

    /// Where a function's address stands, if the table reaches that far.
    fn place(&self, function: &Function) -> Option<*mut *mut ()> {
        let table = match function.table {
            Table::Core => self.core,
            Table::Amd => self.amd,
            Table::Tools => self.tools,
        };
        let offset = match self.layout {
            Layout::UpTo55 => function.offset_up_to_55,
            Layout::From56 => function.offset_from_56,
        };
        // SAFETY: a table of the runtime, or null.
        let bytes = unsafe { table.as_ref() }?.bytes;
        (offset != 0 && offset.checked_add(8)? <= bytes)
            .then(|| table.cast::<u8>().wrapping_add(offset as usize).cast())
    }
}

/// One function.
#[derive(Debug)]
pub struct Function {
    table: Table,
    offset_up_to_55: u32,
    offset_from_56: u32,
    before: AtomicPtr<()>,
    ours: AtomicPtr<()>,
}

impl Function {
    const fn new(table: Table, offset_up_to_55: u32, offset_from_56: u32) -> Self {
        Function {
            table,
            offset_up_to_55,
            offset_from_56,
            before: AtomicPtr::new(std::ptr::null_mut()),
            ours: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn read(&self, tables: &Tables) {
        let found = tables.place(self).map_or(std::ptr::null_mut(), |place| {
            // SAFETY: within the table.
            unsafe { place.read() }
        });
        // A runtime that is started again has put its own functions back; if it had not, ours would call themselves.
        if found.is_null() || found != self.ours.load(Ordering::Relaxed) {
            self.before.store(found, Ordering::Relaxed);
        }
    }

    fn replace(&self, tables: &Tables, ours: *mut ()) {
        // Places for what tools are to be told of are empty until there is a tool.
        if self.table != Table::Tools && self.before.load(Ordering::Relaxed).is_null() {
            return;
        }
        if let Some(place) = tables.place(self) {
            self.ours.store(ours, Ordering::Relaxed);
            // SAFETY: within the table, which the runtime lets tools change while it loads them.
            unsafe { place.write(ours) };
        }
    }
}

macro_rules! functions {
    ($($name:ident = $table:ident[$old:literal, $new:literal]: fn($($argument:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("`hsa_", stringify!($name), "` or `hsa_amd_", stringify!($name), "`.")]
            pub mod $name {
                #[allow(unused_imports, reason = "not every signature needs them")]
                use super::*;
                /// The signature.
                pub type Signature = unsafe extern "C" fn($($argument),*) -> $result;
                /// Where it is.
                pub static FUNCTION: Function = Function::new(Table::$table, $old, $new);
                /// The runtime's own function, if it has it.
                #[inline]
                #[allow(dead_code, reason = "some are only listed")]
                pub fn get() -> Option<Signature> {
                    let address = FUNCTION.before.load(Ordering::Relaxed);
                    // SAFETY: the runtime's headers say that this is its signature; null is None.
                    unsafe { std::mem::transmute::<*mut (), Option<Signature>>(address) }
                }
                /// Puts ours in its place.
                #[allow(dead_code, reason = "many are only called")]
                pub fn wrap(tables: &Tables, ours: Signature) {
                    FUNCTION.replace(tables, ours as *mut ());
                }
            }
        )*
        /// Notes where all functions are, before any is replaced.
        pub fn read_all(tables: &Tables) {
            $( $name::FUNCTION.read(tables); )*
        }
    };
}

functions! {
    shut_down = Core[24, 24]: fn() -> Status;
    iterate_agents = Core[56, 56]: fn(AgentCallback, *mut c_void) -> Status;
    agent_get_info = Core[64, 64]: fn(u64, u32, *mut c_void) -> Status;
    queue_create = Core[72, 72]: fn(u64, u32, u32, QueueCallback, *mut c_void, u32, u32, *mut *mut Queue) -> Status;
    queue_destroy = Core[88, 88]: fn(*mut Queue) -> Status;
    queue_load_read_index_scacquire = Core[104, 104]: fn(*const Queue) -> u64;
    queue_load_write_index_scacquire = Core[120, 120]: fn(*const Queue) -> u64;
    add_write_index_scacq_screl = Core[184, 184]: fn(*const Queue, u64) -> u64;
    add_write_index_scacquire = Core[192, 192]: fn(*const Queue, u64) -> u64;
    add_write_index_relaxed = Core[200, 200]: fn(*const Queue, u64) -> u64;
    add_write_index_screlease = Core[208, 208]: fn(*const Queue, u64) -> u64;
    memory_allocate = Core[280, 280]: fn(u64, usize, *mut *mut c_void) -> Status;
    memory_free = Core[288, 288]: fn(*mut c_void) -> Status;
    memory_copy = Core[296, 296]: fn(*mut c_void, *const c_void, usize) -> Status;
    signal_create = Core[312, 312]: fn(i64, u32, *const u64, *mut u64) -> Status;
    signal_destroy = Core[320, 320]: fn(u64) -> Status;
    signal_store_relaxed = Core[344, 344]: fn(u64, i64) -> ();
    signal_store_screlease = Core[352, 352]: fn(u64, i64) -> ();
    signal_wait_relaxed = Core[360, 360]: fn(u64, u32, i64, u64, u32) -> i64;
    signal_wait_scacquire = Core[368, 368]: fn(u64, u32, i64, u64, u32) -> i64;
    executable_destroy = Core[688, 688]: fn(u64) -> Status;
    executable_freeze = Core[704, 704]: fn(u64, *const c_char) -> Status;
    executable_symbol_get_info = Core[760, 760]: fn(u64, u32, *mut c_void) -> Status;
    system_get_major_extension_table = Core[800, 800]: fn(u16, u16, usize, *mut c_void) -> Status;
    signal_silent_store_relaxed = Core[832, 832]: fn(u64, i64) -> ();
    signal_silent_store_screlease = Core[840, 840]: fn(u64, i64) -> ();
    executable_load_agent_code_object = Core[976, 976]: fn(u64, u64, u64, *const c_char, *mut u64) -> Status;
    executable_iterate_agent_symbols = Core[1000, 1000]: fn(u64, u64, SymbolCallback, *mut c_void) -> Status;
    profiling_set_profiler_enabled = Amd[32, 32]: fn(*mut Queue, i32) -> Status;
    profiling_async_copy_enable = Amd[40, 40]: fn(bool) -> Status;
    profiling_get_async_copy_time = Amd[56, 56]: fn(u64, *mut Times) -> Status;
    profiling_convert_tick_to_system_domain = Amd[64, 64]: fn(u64, u64, *mut u64) -> Status;
    signal_wait_any = Amd[88, 88]: fn(u32, *const u64, *const u32, *const i64, u64, u32, *mut i64) -> u32;
    memory_pool_get_info = Amd[104, 104]: fn(u64, u32, *mut c_void) -> Status;
    agent_iterate_memory_pools = Amd[112, 112]: fn(u64, AgentCallback, *mut c_void) -> Status;
    memory_pool_allocate = Amd[120, 120]: fn(u64, usize, u32, *mut *mut c_void) -> Status;
    memory_pool_free = Amd[128, 128]: fn(*mut c_void) -> Status;
    memory_async_copy = Amd[136, 136]: fn(*mut c_void, u64, *const c_void, u64, usize, u32, *const u64, u64) -> Status;
    memory_async_copy_on_engine = Amd[0, 144]: fn(*mut c_void, u64, *const c_void, u64, usize, u32, *const u64, u64, u32, bool) -> Status;
    agents_allow_access = Amd[152, 168]: fn(u32, *const u64, *const u32, *const c_void) -> Status;
    memory_lock = Amd[176, 192]: fn(*mut c_void, usize, *const u64, i32, *mut *mut c_void) -> Status;
    memory_unlock = Amd[184, 200]: fn(*mut c_void) -> Status;
    memory_fill = Amd[192, 208]: fn(*mut c_void, u32, usize) -> Status;
    amd_signal_create = Amd[264, 280]: fn(i64, u32, *const u64, u64, *mut u64) -> Status;
    register_system_event_handler = Amd[288, 304]: fn(SystemEventHandler, *mut c_void) -> Status;
    queue_intercept_create = Amd[296, 312]: fn(u64, u32, u32, QueueCallback, *mut c_void, u32, u32, *mut *mut Queue) -> Status;
    queue_intercept_register = Amd[304, 320]: fn(*mut Queue, PacketHandler, *mut c_void) -> Status;
    memory_async_copy_rect = Amd[320, 336]: fn(*const Pitched, *const Size3, *const Pitched, *const Size3, *const Size3, u64, u32, u32, *const u64, u64) -> Status;
    scratch_alloc_start = Tools[16, 16]: fn(*const ScratchEvent) -> Status;
    scratch_alloc_end = Tools[24, 24]: fn(*const ScratchEvent) -> Status;
    scratch_free_start = Tools[32, 32]: fn(*const ScratchEvent) -> Status;
    scratch_free_end = Tools[40, 40]: fn(*const ScratchEvent) -> Status;
    scratch_reclaim_start = Tools[48, 48]: fn(*const ScratchEvent) -> Status;
    scratch_reclaim_end = Tools[56, 56]: fn(*const ScratchEvent) -> Status;
}

/// A signal that only GPUs complete: none of the kernel's events is spent on it. 0 when there is none.
pub fn make_signal() -> u64 {
    const GPU_ONLY: u64 = 1;
    let mut handle = 0;
    let Some(make) = amd_signal_create::get() else {
        return 0;
    };
    // SAFETY: no consumers are named, and there is room for the handle.
    let made = unsafe { make(1, 0, std::ptr::null(), GPU_ONLY, &raw mut handle) };
    if made == SUCCESS { handle } else { 0 }
}
