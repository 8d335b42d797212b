//! The HSA runtime and AMD's library of counter commands, loaded.
//!
//! Signatures and numbers are those of hsa.h, hsa_ext_amd.h and aql_profile_v2.h of ROCm 7.2; the functions of the runtime have not changed since ROCm 5.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Status of functions: 0 is success.
type Status = c_int;
/// An agent, a memory pool, a signal: a number that the runtime gives out.
pub(super) type Handle = u64;

const RUNTIME: &str = "libhsa-runtime64.so.1";
const COUNTERS: &str = "libhsa-amd-aqlprofile64.so.1";

/// `HSA_AGENT_INFO_…` and `HSA_AMD_AGENT_INFO_…`.
const NAME: c_int = 0;
const DEVICE: c_int = 0x11;
const COMPUTE_UNITS: c_int = 0xa002;
const BDF: c_int = 0xa006;
const SIMDS_PER_CU: c_int = 0xa00b;
const SHADER_ENGINES: c_int = 0xa00c;
const ARRAYS_PER_ENGINE: c_int = 0xa00d;
const DOMAIN: c_int = 0xa00f;
const DIES: c_int = 0xa111;
/// `HSA_DEVICE_TYPE_…`.
const CPU: u32 = 0;
const GPU: u32 = 1;
/// `HSA_AMD_MEMORY_POOL_INFO_…`, the segment of global memory, and what its flags say.
const SEGMENT: c_int = 0;
const GLOBAL_FLAGS: c_int = 1;
const GLOBAL: u32 = 0;
const FOR_ARGUMENTS: u32 = 1;
const FINE_GRAINED: u32 = 2;
/// `HSA_SIGNAL_CONDITION_LT`, `HSA_WAIT_STATE_BLOCKED`, `HSA_QUEUE_TYPE_MULTI`.
const LESS: c_int = 2;
const BLOCKED: c_int = 0;
const MULTI: u32 = 0;
/// `AQLPROFILE_INFO_…`.
const BLOCK_COUNTERS: c_int = 4;
const BLOCK_ID: c_int = 5;

/// `hsa_queue_t`, as far as it is needed.
#[repr(C)]
pub(super) struct Queue {
    kind: u32,
    features: u32,
    pub(super) slots: *mut u8,
    pub(super) doorbell: Handle,
    pub(super) size: u32,
}

/// `aqlprofile_pmc_event_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) instance: u32,
    pub(super) number: u32,
    pub(super) flags: u32,
    pub(super) block: u32,
}

/// `aqlprofile_agent_info_t`.
#[repr(C)]
struct AgentInfo {
    name: *const c_char,
    dies: u32,
    engines: u32,
    units: u32,
    arrays: u32,
}

/// `aqlprofile_pmc_profile_t`.
#[repr(C)]
pub(super) struct Profile {
    pub(super) agent: u64,
    pub(super) events: *const Event,
    pub(super) count: u32,
}

/// `hsa_ven_amd_aqlprofile_id_query_t`.
#[repr(C)]
struct BlockQuery {
    name: *const c_char,
    id: u32,
    instances: u32,
}

/// An AQL packet with commands.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet(pub(super) [u64; 8]);

/// `aqlprofile_pmc_aql_packets_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Packets {
    pub(super) start: Packet,
    pub(super) stop: Packet,
    pub(super) read: Packet,
}

pub(super) type Allocate = unsafe extern "C" fn(*mut *mut c_void, u64, u32, *mut c_void) -> Status;
pub(super) type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);
pub(super) type CopyMemory =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> Status;
pub(super) type Take = unsafe extern "C" fn(Event, u64, u64, *mut c_void) -> Status;
type OnHandle = unsafe extern "C" fn(Handle, *mut c_void) -> Status;

/// The functions of both libraries.
pub(super) struct Library {
    agent_info: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> Status,
    pool_info: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> Status,
    pools: unsafe extern "C" fn(Handle, OnHandle, *mut c_void) -> Status,
    allocate: unsafe extern "C" fn(Handle, usize, u32, *mut *mut c_void) -> Status,
    free: unsafe extern "C" fn(*mut c_void) -> Status,
    allow: unsafe extern "C" fn(u32, *const Handle, *const u32, *const c_void) -> Status,
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
    register: unsafe extern "C" fn(*mut u64, *const AgentInfo) -> Status,
    counter_info: unsafe extern "C" fn(*const Profile, c_int, *mut c_void) -> Status,
    is_valid: unsafe extern "C" fn(u64, *const Event, *mut bool) -> Status,
    create: unsafe extern "C" fn(
        *mut u64,
        *mut Packets,
        Profile,
        Allocate,
        Free,
        CopyMemory,
        *mut c_void,
    ) -> Status,
    values: unsafe extern "C" fn(u64, Take, *mut c_void) -> Status,
    /// Processors' memory that GPUs can use.
    pool: Handle,
    /// All GPUs.
    pub(super) gpus: Vec<Gpu>,
}

/// A GPU as the runtime tells of it.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) agent: Handle,
    /// Its address on PCI.
    pub(super) address: String,
    /// What the library of counters knows it by.
    pub(super) registered: u64,
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

    /// # Safety
    /// `F` must be the type of the function of this name.
    unsafe fn function<F>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a loaded library and a terminated name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            let name = name.to_string_lossy();
            return Err(format!("{} has no {name}: it is too old", self.1));
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
        // SAFETY: functions of hsa.h, hsa_ext_amd.h and aql_profile_v2.h with their signatures.
        let (init, agents, mut library) = unsafe {
            let init: unsafe extern "C" fn() -> Status = runtime.function(c"hsa_init")?;
            let agents: unsafe extern "C" fn(OnHandle, *mut c_void) -> Status =
                runtime.function(c"hsa_iterate_agents")?;
            let library = Self {
                agent_info: runtime.function(c"hsa_agent_get_info")?,
                pool_info: runtime.function(c"hsa_amd_memory_pool_get_info")?,
                pools: runtime.function(c"hsa_amd_agent_iterate_memory_pools")?,
                allocate: runtime.function(c"hsa_amd_memory_pool_allocate")?,
                free: runtime.function(c"hsa_amd_memory_pool_free")?,
                allow: runtime.function(c"hsa_amd_agents_allow_access")?,
                new_queue: runtime.function(c"hsa_queue_create")?,
                next_index: runtime.function(c"hsa_queue_add_write_index_screlease")?,
                new_signal: runtime.function(c"hsa_signal_create")?,
                store: runtime.function(c"hsa_signal_store_screlease")?,
                wait: runtime.function(c"hsa_signal_wait_scacquire")?,
                register: counters.function(c"aqlprofile_register_agent")?,
                counter_info: counters.function(c"aqlprofile_get_pmc_info")?,
                is_valid: counters.function(c"aqlprofile_validate_pmc_event")?,
                create: counters.function(c"aqlprofile_pmc_create_packets")?,
                values: counters.function(c"aqlprofile_pmc_iterate_data")?,
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
            match library.number(agent, DEVICE) {
                Some(CPU) if library.pool == 0 => library.pool = library.pool_of(agent),
                Some(GPU) => {
                    let gpu = library.gpu(agent)?;
                    library.gpus.push(gpu);
                }
                _ => {}
            }
        }
        if library.pool == 0 {
            return Err("the HSA runtime has no memory for commands".to_owned());
        }
        Ok(Box::leak(Box::new(library)))
    }

    /// A number that an agent tells of itself.
    fn number(&self, agent: Handle, what: c_int) -> Option<u32> {
        let mut number = 0_u32;
        // SAFETY: a function of hsa.h; these are numbers of 32 bits.
        let status = unsafe { (self.agent_info)(agent, what, (&raw mut number).cast()) };
        (status == 0).then_some(number)
    }

    /// Memory of the processor that is not for arguments of kernels.
    fn pool_of(&self, cpu: Handle) -> Handle {
        let mut pools: Vec<Handle> = Vec::new();
        // SAFETY: a function of hsa_ext_amd.h; the list is used by the callback alone.
        unsafe { (self.pools)(cpu, collect, (&raw mut pools).cast()) };
        let number = |pool: Handle, what: c_int| {
            let mut number = 0_u32;
            // SAFETY: as above; these are numbers of 32 bits.
            let status = unsafe { (self.pool_info)(pool, what, (&raw mut number).cast()) };
            (status == 0).then_some(number)
        };
        let fitting = pools.into_iter().find(|&pool| {
            let flags = number(pool, GLOBAL_FLAGS).unwrap_or(0);
            number(pool, SEGMENT) == Some(GLOBAL)
                && flags & (FINE_GRAINED | FOR_ARGUMENTS) == FINE_GRAINED
        });
        fitting.unwrap_or(0)
    }

    fn gpu(&self, agent: Handle) -> Result<Gpu, String> {
        // As long as `HSA_AGENT_INFO_NAME` may be.
        let mut name = [0_u8; 64];
        // SAFETY: as in `number`; the name has room.
        let status = unsafe { (self.agent_info)(agent, NAME, name.as_mut_ptr().cast()) };
        succeeds(status, "the HSA runtime has no name for a GPU")?;
        name[63] = 0;
        let number = |what| self.number(agent, what).unwrap_or(0);
        let [units, engines, arrays, simds] = [
            COMPUTE_UNITS,
            SHADER_ENGINES,
            ARRAYS_PER_ENGINE,
            SIMDS_PER_CU,
        ]
        .map(number);
        // Older runtimes know of no dies.
        let dies = number(DIES).max(1);
        let info = AgentInfo {
            name: name.as_ptr().cast(),
            dies,
            engines,
            units,
            arrays,
        };
        let mut registered = 0;
        // SAFETY: a function of aql_profile_v2.h; the name is terminated.
        let status = unsafe { (self.register)(&raw mut registered, &raw const info) };
        let shown = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let shown = String::from_utf8_lossy(shown);
        succeeds(status, &format!("{COUNTERS} does not know {shown}"))?;
        let place = number(BDF);
        Ok(Gpu {
            agent,
            address: crate::smi::pci_address(number(DOMAIN).into(), place.into()),
            registered,
            properties: vec![
                ("CU_NUM", units.into()),
                ("SE_NUM", engines.into()),
                ("SIMD_NUM", (units * simds).into()),
                ("XCC_NUM", dies.into()),
            ],
        })
    }

    /// A block's number, and how many instances it has.
    pub(super) fn block(&self, gpu: &Gpu, name: &str) -> Option<(u32, u32)> {
        let name = CString::new(name).ok()?;
        let none = Profile {
            agent: gpu.registered,
            events: std::ptr::null(),
            count: 0,
        };
        let mut query = BlockQuery {
            name: name.as_ptr(),
            id: 0,
            instances: 0,
        };
        // SAFETY: a function of aql_profile_v2.h; the query is of the kind that is asked.
        let status =
            unsafe { (self.counter_info)(&raw const none, BLOCK_ID, (&raw mut query).cast()) };
        (status == 0).then_some((query.id, query.instances.max(1)))
    }

    /// How many events a block can count at once; `None` if it knows no such event.
    pub(super) fn room(&self, gpu: &Gpu, event: Event) -> Option<u32> {
        let mut is_valid = false;
        // SAFETY: a function of aql_profile_v2.h.
        let status =
            unsafe { (self.is_valid)(gpu.registered, &raw const event, &raw mut is_valid) };
        let profile = Profile {
            agent: gpu.registered,
            events: &raw const event,
            count: 1,
        };
        let mut room = 0_u32;
        // SAFETY: as above; the answer is a number of 32 bits.
        let told = unsafe {
            (self.counter_info)(&raw const profile, BLOCK_COUNTERS, (&raw mut room).cast())
        };
        (status == 0 && is_valid && told == 0 && room > 0).then_some(room)
    }

    /// Commands for some events: what they are known by, and the packets.
    pub(super) fn commands(
        &'static self,
        gpu: &Gpu,
        events: &'static [Event],
    ) -> Result<(u64, Packets), String> {
        let profile = Profile {
            agent: gpu.registered,
            events: events.as_ptr(),
            count: events.len() as u32,
        };
        let (mut handle, mut packets) = (
            0,
            Packets {
                start: Packet([0; 8]),
                stop: Packet([0; 8]),
                read: Packet([0; 8]),
            },
        );
        // Commands stay until the process ends, and so does this.
        let memory = Box::leak(Box::new((self, gpu.agent)));
        // SAFETY: a function of aql_profile_v2.h; the callbacks have its signatures, and what they get stays.
        let status = unsafe {
            (self.create)(
                &raw mut handle,
                &raw mut packets,
                profile,
                allocate,
                free,
                copy,
                std::ptr::from_mut(memory).cast(),
            )
        };
        succeeds(status, "these counters do not fit together")?;
        Ok((handle, packets))
    }

    /// What the packets of these commands have read.
    pub(super) fn values(&self, handle: u64, mut take: impl FnMut(Event, u64)) {
        /// # Safety
        /// `take` must be an `F` that nobody else uses.
        unsafe extern "C" fn on_value<F: FnMut(Event, u64)>(
            event: Event,
            _: u64,
            value: u64,
            take: *mut c_void,
        ) -> Status {
            // SAFETY: what `values` hands over.
            unsafe { (*take.cast::<F>())(event, value) };
            0
        }
        fn with<F: FnMut(Event, u64)>(_: &F) -> Take {
            on_value::<F>
        }
        let callback = with(&take);
        // SAFETY: a function of aql_profile_v2.h; the callback gets what it is made for.
        unsafe { (self.values)(handle, callback, (&raw mut take).cast()) };
    }

    /// A queue and a signal on a GPU.
    pub(super) fn queue(&self, gpu: &Gpu) -> Result<(*mut Queue, Handle), String> {
        const SLOTS: u32 = 64;
        let (mut queue, mut signal) = (std::ptr::null_mut(), 0);
        // SAFETY: functions of hsa.h; results have room.
        let [of_queue, of_signal] = unsafe {
            [
                (self.new_queue)(
                    gpu.agent,
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
    pub(super) fn execute(&self, (queue, signal): (*mut Queue, Handle), packet: Packet) {
        /// Vendor packet with a barrier, which makes memory visible to all before and after.
        const HEADER: u64 = 1 << 8 | 2 << 9 | 2 << 11;
        let Packet(mut words) = packet;
        words[7] = signal;
        // SAFETY: a queue of ours, whose packets were all executed: the slot is free. The header is written last, as the specification has it.
        unsafe {
            (self.store)(signal, 1);
            let index = (self.next_index)(queue, 1);
            let slots = (*queue).slots.cast::<[u64; 8]>();
            let slot = slots.add((index % u64::from((*queue).size)) as usize);
            for (place, word) in words.iter().enumerate().skip(1) {
                (*slot)[place] = *word;
            }
            let first = words[0] & !0xffff | HEADER;
            (*slot.cast::<std::sync::atomic::AtomicU64>())
                .store(first, std::sync::atomic::Ordering::Release);
            (self.store)((*queue).doorbell, index as i64);
            (self.wait)(signal, LESS, 1, u64::MAX, BLOCKED);
        }
    }
}

/// # Safety
/// `memory` must be what [`Library::commands`] hands over.
unsafe extern "C" fn allocate(
    place: *mut *mut c_void,
    size: u64,
    _flags: u32,
    memory: *mut c_void,
) -> Status {
    // SAFETY: as the caller promises; the library stays as long as the process. Allocated memory has the size that is cleared.
    unsafe {
        let (library, gpu) = &*memory.cast::<(&'static Library, Handle)>();
        let status = (library.allocate)(library.pool, size as usize, 0, place);
        if status != 0 {
            return status;
        }
        (*place).cast::<u8>().write_bytes(0, size as usize);
        (library.allow)(1, gpu, std::ptr::null(), *place)
    }
}

/// # Safety
/// As for [`allocate`], whose memory `place` must be.
unsafe extern "C" fn free(place: *mut c_void, memory: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe {
        let (library, _) = &*memory.cast::<(&'static Library, Handle)>();
        (library.free)(place);
    }
}

/// # Safety
/// Both places must have so many bytes.
unsafe extern "C" fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    _: *mut c_void,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { to.cast::<u8>().copy_from(from.cast(), bytes) };
    0
}

fn succeeds(status: Status, otherwise: &str) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status => Err(format!("{otherwise} (status {status:#x})")),
    }
}
