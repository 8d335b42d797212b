//! The HSA runtime and AMD's library of counter commands, loaded.
//!
//! Signatures and numbers of the runtime are those of hsa.h and hsa_ext_amd.h of ROCm 7.2, which have not changed since ROCm 5; the library's are in
//! [`rsys_wire::counter_library`].

use std::ffi::{CStr, CString, OsString, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rsys_wire::counter_library::{
    self, CommandMemory, CommandPacket, CommandPackets, CounterLibrary, Event, Handle, OnHandle,
    RegisteredGpu, Runtime, Status,
};

const RUNTIME: &str = "libhsa-runtime64.so.1";
const COUNTERS: &str = match counter_library::NAME.to_str() {
    Ok(name) => name,
    Err(_) => panic!("it is ASCII"),
};

/// `HSA_AGENT_INFO_…` and `HSA_AMD_AGENT_INFO_…`.
const DEVICE: u32 = 0x11;
const BDF: u32 = 0xa006;
const DOMAIN: u32 = 0xa00f;
/// `HSA_DEVICE_TYPE_GPU`.
const GPU: u32 = 1;
/// `HSA_SIGNAL_CONDITION_LT`, `HSA_WAIT_STATE_BLOCKED`, `HSA_QUEUE_TYPE_MULTI`.
const LESS: c_int = 2;
const BLOCKED: c_int = 0;
const MULTI: u32 = 0;

/// `hsa_queue_t`, as far as it is needed.
#[repr(C)]
pub(super) struct Queue {
    kind: u32,
    features: u32,
    pub(super) slots: *mut u8,
    pub(super) doorbell: Handle,
    pub(super) size: u32,
}

/// The functions of both libraries.
pub(super) struct Library {
    new_queue: unsafe extern "C" fn(
        Handle,
        u32,
        u32,
        *const c_void,
        *mut c_void,
        u32,
        u32,
        *mut *mut Queue,
    ) -> Status,
    next_index: unsafe extern "C" fn(*const Queue, u64) -> u64,
    new_signal: unsafe extern "C" fn(i64, u32, *const Handle, *mut Handle) -> Status,
    store: unsafe extern "C" fn(Handle, i64),
    wait: unsafe extern "C" fn(Handle, c_int, i64, u64, c_int) -> i64,
    runtime: Runtime,
    counters: CounterLibrary,
    /// Processors' memory that GPUs can use.
    pool: Handle,
    /// All GPUs.
    pub(super) gpus: Vec<Gpu>,
}

/// A GPU as the runtime tells of it.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    /// Its address on PCI.
    pub(super) address: String,
    /// As the library of counters knows it.
    registered: RegisteredGpu,
    /// Numbers that definitions of counters may use.
    pub(super) properties: Vec<(&'static str, f64)>,
}

/// Symbols of a library.
struct Symbols(*mut c_void, &'static str);

impl Symbols {
    /// By the loader's rules, else in ROCm's folder.
    fn load(name: &'static str) -> Result<Self, String> {
        let rocm = std::env::var_os("ROCM_PATH").unwrap_or_else(|| "/opt/rocm".into());
        let in_rocm = Path::new(&rocm).join("lib").join(name).into_os_string();
        let mut reason = String::new();
        for path in [OsString::from(name), in_rocm] {
            let path = CString::new(path.into_vec()).map_err(|error| error.to_string())?;
            // SAFETY: the name is terminated. What the library's constructors do can hurt this process only.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            if !handle.is_null() {
                return Ok(Self(handle, name));
            }
            // SAFETY: the loader's message, if there is one, is terminated and stays until the next call of this thread.
            let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
            if reason.is_empty() {
                reason = why.map_or_else(String::new, |why| why.to_string_lossy().into_owned());
            }
        }
        Err(format!(
            "{name} cannot be loaded ({reason}); it comes with ROCm"
        ))
    }

    /// Null for what is not there.
    fn address(&self, name: &CStr) -> *const () {
        // SAFETY: a loaded library and a terminated name.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
            .cast_const()
            .cast()
    }

    /// # Safety
    /// `F` must be the type of the function of this name.
    unsafe fn function<F>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*const ()>()) };
        let address = self.address(name);
        if address.is_null() {
            return Err(too_old(self.1, name));
        }
        // SAFETY: both are pointers; the caller answers for the type.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// Collects handles.
///
/// # Safety
/// `list` must be a list of handles that nobody else uses.
unsafe extern "C" fn collect(handle: Handle, list: *mut c_void) -> Status {
    // SAFETY: as the caller promises.
    unsafe { (*list.cast::<Vec<Handle>>()).push(handle) };
    0
}

impl Library {
    /// Loads both libraries and starts the runtime, for the rest of the process's life.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn open() -> Result<&'static Self, String> {
        let runtime = Symbols::load(RUNTIME)?;
        let counters = Symbols::load(COUNTERS)?;
        // SAFETY: what is found is the library's, which is never closed.
        let counters = unsafe { CounterLibrary::find(|name| counters.address(name)) };
        let counters = counters.map_err(|missing| too_old(COUNTERS, missing))?;
        // SAFETY: functions of hsa.h and hsa_ext_amd.h with their signatures.
        let (init, agents, mut library) = unsafe {
            let init: unsafe extern "C" fn() -> Status = runtime.function(c"hsa_init")?;
            let agents: unsafe extern "C" fn(OnHandle, *mut c_void) -> Status =
                runtime.function(c"hsa_iterate_agents")?;
            let library = Self {
                new_queue: runtime.function(c"hsa_queue_create")?,
                next_index: runtime.function(c"hsa_queue_add_write_index_screlease")?,
                new_signal: runtime.function(c"hsa_signal_create")?,
                store: runtime.function(c"hsa_signal_store_screlease")?,
                wait: runtime.function(c"hsa_signal_wait_scacquire")?,
                runtime: Runtime {
                    agents,
                    agent_info: runtime.function(c"hsa_agent_get_info")?,
                    pools: runtime.function(c"hsa_amd_agent_iterate_memory_pools")?,
                    pool_info: runtime.function(c"hsa_amd_memory_pool_get_info")?,
                    allocate: runtime.function(c"hsa_amd_memory_pool_allocate")?,
                    allow: runtime.function(c"hsa_amd_agents_allow_access")?,
                },
                counters,
                pool: 0,
                gpus: Vec::new(),
            };
            (init, agents, library)
        };
        // SAFETY: as above.
        succeeds(unsafe { init() }, "the HSA runtime does not start")?;
        let mut all: Vec<Handle> = Vec::new();
        // SAFETY: as above; the list is used by the callback alone.
        let told = unsafe { agents(collect, (&raw mut all).cast()) };
        succeeds(told, "the HSA runtime tells of no GPU")?;
        for agent in all {
            if library.runtime.number(agent, DEVICE) == Some(GPU) {
                let gpu = library.gpu(agent)?;
                library.gpus.push(gpu);
            }
        }
        library.pool = library
            .runtime
            .pool()
            .ok_or("the HSA runtime has no memory for commands")?;
        Ok(Box::leak(Box::new(library)))
    }

    fn gpu(&self, agent: Handle) -> Result<Gpu, String> {
        let number = |what| self.runtime.number(agent, what).unwrap_or(0);
        let place = number(BDF);
        let address = crate::smi::pci_address(number(DOMAIN).into(), place.into());
        let registered = self.counters.register(&self.runtime, agent);
        let registered = registered.map_err(|status| {
            failed(
                &format!("{COUNTERS} does not know the GPU at {address}"),
                status,
            )
        })?;
        Ok(Gpu {
            address,
            registered,
            properties: vec![
                ("CU_NUM", registered.units.into()),
                ("SE_NUM", registered.engines.into()),
                ("SIMD_NUM", registered.simds.into()),
                ("XCC_NUM", registered.dies.into()),
            ],
        })
    }

    /// A block's number, and how many instances it has.
    pub(super) fn block(&self, gpu: &Gpu, name: &str) -> Option<(u32, u32)> {
        self.counters
            .block(&gpu.registered, &CString::new(name).ok()?)
    }

    /// How many events a block can count at once; `None` if it knows no such event.
    pub(super) fn room(&self, gpu: &Gpu, event: Event) -> Option<u32> {
        self.counters.room(&gpu.registered, event)
    }

    /// Commands for some events: what they are known by, and the packets.
    pub(super) fn commands(
        &self,
        gpu: &Gpu,
        events: &'static [Event],
    ) -> Result<(u64, CommandPackets), String> {
        // Commands stay until the process ends, and so does this.
        let memory = Box::leak(Box::new(CommandMemory {
            runtime: self.runtime,
            pool: self.pool,
            agent: gpu.registered.agent,
        }));
        self.counters
            .commands(&gpu.registered, events, memory)
            .map_err(|status| failed("these counters do not fit together", status))
    }

    /// What the packets of these commands have read.
    pub(super) fn values(&self, handle: u64, take: impl FnMut(Event, u64)) {
        self.counters.values(handle, take);
    }

    /// A queue and a signal on a GPU.
    pub(super) fn queue(&self, gpu: &Gpu) -> Result<(*mut Queue, Handle), String> {
        const SLOTS: u32 = 64;
        let (mut queue, mut signal) = (std::ptr::null_mut(), 0);
        // SAFETY: functions of hsa.h; results have room.
        let [of_queue, of_signal] = unsafe {
            [
                (self.new_queue)(
                    gpu.registered.agent,
                    SLOTS,
                    MULTI,
                    std::ptr::null(),
                    std::ptr::null_mut(),
                    u32::MAX,
                    u32::MAX,
                    &raw mut queue,
                ),
                (self.new_signal)(1, 0, std::ptr::null(), &raw mut signal),
            ]
        };
        succeeds(of_queue, "no queue on the GPU")?;
        succeeds(of_signal, "no signal")?;
        Ok((queue, signal))
    }

    /// Has a queue execute a packet, and waits until it has.
    pub(super) fn execute(&self, (queue, signal): (*mut Queue, Handle), packet: CommandPacket) {
        let words = packet.with_signal(signal);
        // SAFETY: a queue of ours, whose packets were all executed: the slot is free. The header is written last, as the specification has it.
        unsafe {
            (self.store)(signal, 1);
            let index = (self.next_index)(queue, 1);
            let slots = (*queue).slots.cast::<[u64; 8]>();
            let slot = slots.add((index % u64::from((*queue).size)) as usize);
            for (place, word) in words.iter().enumerate().skip(1) {
                (*slot)[place] = *word;
            }
            (*slot.cast::<std::sync::atomic::AtomicU64>())
                .store(words[0], std::sync::atomic::Ordering::Release);
            (self.store)((*queue).doorbell, index as i64);
            (self.wait)(signal, LESS, 1, u64::MAX, BLOCKED);
        }
    }
}

fn succeeds(status: Status, otherwise: &str) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status => Err(failed(otherwise, status)),
    }
}

fn failed(what: &str, status: Status) -> String {
    format!("{what} (status {status:#x})")
}

fn too_old(library: &str, missing: &CStr) -> String {
    let name = missing.to_string_lossy();
    format!("{library} has no {name}: it is too old")
}
