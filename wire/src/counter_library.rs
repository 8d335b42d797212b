//! AMD's library of counter commands, `libhsa-amd-aqlprofile64`: it writes the commands by which a GPU starts, reads and stops its hardware counters, into
//! packets that a queue executes. A reader of our own uses it for counters over time, the agent for counters of single kernels.
//!
//! Signatures and numbers are those of hsa.h, hsa_ext_amd.h and aql_profile_v2.h of ROCm 7.2; the functions of the runtime have not changed since ROCm 5.

use std::ffi::{CStr, c_char, c_void};

/// Status of functions: 0 is success.
pub type Status = u32;
/// An agent, a memory pool, a signal: a number that the runtime gives out.
pub type Handle = u64;

/// The name of the library's file.
pub const NAME: &CStr = c"libhsa-amd-aqlprofile64.so.1";

/// `HSA_AGENT_INFO_…` and `HSA_AMD_AGENT_INFO_…`, and what `HSA_AGENT_INFO_DEVICE` says.
const AGENT_NAME: u32 = 0;
const DEVICE: u32 = 0x11;
const CPU: u32 = 0;
const COMPUTE_UNITS: u32 = 0xa002;
const SIMDS_PER_CU: u32 = 0xa00b;
const SHADER_ENGINES: u32 = 0xa00c;
const ARRAYS_PER_ENGINE: u32 = 0xa00d;
const DIES: u32 = 0xa111;
/// `HSA_AMD_MEMORY_POOL_INFO_…`, the segment of global memory, and what its flags say.
const SEGMENT: u32 = 0;
const GLOBAL_FLAGS: u32 = 1;
const GLOBAL: u32 = 0;
const FOR_ARGUMENTS: u32 = 1;
const FINE_GRAINED: u32 = 2;
/// `HSA_AMD_MEMORY_POOL_STANDARD_FLAG` and `HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG` of hsa_ext_amd.h: the second is for memory that holds commands.
const STANDARD: u32 = 0;
const EXECUTABLE: u32 = 1 << 2;
/// `AQLPROFILE_INFO_…`.
const BLOCK_COUNTERS: u32 = 4;
const BLOCK_ID: u32 = 5;
/// As long as the name of an agent may be.
const NAME_BYTES: usize = 64;

/// `aqlprofile_pmc_event_t`: an event of one instance of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// Which instance of the block.
    pub instance: u32,
    /// Which event.
    pub number: u32,
    /// What the event has more; 0 for all that are used.
    pub flags: u32,
    /// The block's number, see [`CounterLibrary::block`].
    pub block: u32,
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
struct Profile {
    agent: u64,
    events: *const Event,
    count: u32,
}

/// `hsa_ven_amd_aqlprofile_id_query_t`.
#[repr(C)]
struct BlockQuery {
    name: *const c_char,
    id: u32,
    instances: u32,
}

/// A packet of a queue that has the GPU execute commands, without its header's lower 16 bits and without a signal.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandPacket(pub [u64; 8]);

impl CommandPacket {
    /// Vendor packet that waits for all before it, and makes memory visible to all before and after.
    const HEADER: u64 = 1 << 8 | 2 << 9 | 2 << 11;

    /// The words as a queue has them. The last is the signal that is decremented, or 0.
    #[must_use]
    pub fn with_signal(self, signal: Handle) -> [u64; 8] {
        let Self([first, rest @ .., _]) = self;
        let [a, b, c, d, e, f] = rest;
        [first & !0xffff | Self::HEADER, a, b, c, d, e, f, signal]
    }
}

/// `aqlprofile_pmc_aql_packets_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandPackets {
    /// Sets the counters to 0 and starts them.
    pub start: CommandPacket,
    /// Stops them.
    pub stop: CommandPacket,
    /// Writes their values to memory.
    pub read: CommandPacket,
}

/// Told a handle, and what was given along.
pub type OnHandle = unsafe extern "C" fn(Handle, *mut c_void) -> Status;
type Allocate = unsafe extern "C" fn(*mut *mut c_void, u64, u32, *mut c_void) -> Status;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);
type CopyMemory = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> Status;
type Take = unsafe extern "C" fn(Event, u64, u64, *mut c_void) -> Status;

/// Functions of the HSA runtime: of `hsa_agent_get_info` and so on, in the order of their use.
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// `hsa_iterate_agents`.
    pub agents: unsafe extern "C" fn(OnHandle, *mut c_void) -> Status,
    /// `hsa_agent_get_info`.
    pub agent_info: unsafe extern "C" fn(Handle, u32, *mut c_void) -> Status,
    /// `hsa_amd_agent_iterate_memory_pools`.
    pub pools: unsafe extern "C" fn(Handle, OnHandle, *mut c_void) -> Status,
    /// `hsa_amd_memory_pool_get_info`.
    pub pool_info: unsafe extern "C" fn(Handle, u32, *mut c_void) -> Status,
    /// `hsa_amd_memory_pool_allocate`.
    pub allocate: unsafe extern "C" fn(Handle, usize, u32, *mut *mut c_void) -> Status,
    /// `hsa_amd_agents_allow_access`.
    pub allow: unsafe extern "C" fn(u32, *const Handle, *const u32, *const c_void) -> Status,
}

/// Finds the memory of processors, agent by agent.
struct PoolSearch<'a> {
    runtime: &'a Runtime,
    found: Handle,
}

impl Runtime {
    /// A number that an agent tells of itself.
    #[must_use]
    pub fn number(&self, agent: Handle, what: u32) -> Option<u32> {
        let mut number = 0_u32;
        // SAFETY: a function of hsa.h; the callers ask for numbers of 32 bits.
        let status = unsafe { (self.agent_info)(agent, what, (&raw mut number).cast()) };
        (status == 0).then_some(number)
    }

    /// A processor's memory that GPUs can use and that is not for arguments of kernels, if there is one.
    #[must_use]
    pub fn pool(&self) -> Option<Handle> {
        /// # Safety
        /// `search` must be a [`PoolSearch`] that nobody else uses.
        unsafe extern "C" fn on_agent(agent: Handle, search: *mut c_void) -> Status {
            // SAFETY: as the caller promises.
            let runtime = unsafe { (*search.cast::<PoolSearch<'_>>()).runtime };
            if runtime.number(agent, DEVICE) == Some(CPU) {
                // SAFETY: a function of hsa_ext_amd.h; the search is handed on.
                unsafe { (runtime.pools)(agent, on_pool, search) };
            }
            0
        }
        /// # Safety
        /// As for `on_agent`.
        unsafe extern "C" fn on_pool(pool: Handle, search: *mut c_void) -> Status {
            // SAFETY: as the caller promises.
            let search = unsafe { &mut *search.cast::<PoolSearch<'_>>() };
            let number = |what: u32| {
                let mut number = 0_u32;
                // SAFETY: a function of hsa_ext_amd.h; these are numbers of 32 bits.
                let status =
                    unsafe { (search.runtime.pool_info)(pool, what, (&raw mut number).cast()) };
                (status == 0).then_some(number)
            };
            let flags = number(GLOBAL_FLAGS).unwrap_or(0);
            let fits = number(SEGMENT) == Some(GLOBAL)
                && flags & (FINE_GRAINED | FOR_ARGUMENTS) == FINE_GRAINED;
            if fits && search.found == 0 {
                search.found = pool;
            }
            0
        }
        let mut search = PoolSearch {
            runtime: self,
            found: 0,
        };
        // SAFETY: a function of hsa.h; the search is used by the callbacks alone.
        unsafe { (self.agents)(on_agent, (&raw mut search).cast()) };
        (search.found != 0).then_some(search.found)
    }
}

/// A GPU as the library knows it.
#[derive(Debug, Clone, Copy)]
pub struct RegisteredGpu {
    /// What the runtime calls it.
    pub agent: Handle,
    /// What the library calls it.
    pub id: u64,
    /// Its compute units.
    pub units: u32,
    /// Its shader engines, of all dies.
    pub engines: u32,
    /// Its SIMD units, of all compute units.
    pub simds: u32,
    /// Its dies.
    pub dies: u32,
}

/// Where commands have their memory: the callbacks of the library get it.
#[derive(Debug, Clone, Copy)]
pub struct CommandMemory {
    /// Whose memory.
    pub runtime: Runtime,
    /// From here, see [`Runtime::pool`].
    pub pool: Handle,
    /// The GPU that uses it.
    pub agent: Handle,
}

/// The functions of the library.
#[derive(Debug, Clone, Copy)]
pub struct CounterLibrary {
    register: unsafe extern "C" fn(*mut u64, *const AgentInfo) -> Status,
    info: unsafe extern "C" fn(*const Profile, u32, *mut c_void) -> Status,
    is_valid: unsafe extern "C" fn(u64, *const Event, *mut bool) -> Status,
    create: unsafe extern "C" fn(
        *mut u64,
        *mut CommandPackets,
        Profile,
        Allocate,
        Free,
        CopyMemory,
        *mut c_void,
    ) -> Status,
    values: unsafe extern "C" fn(u64, Take, *mut c_void) -> Status,
}

impl CounterLibrary {
    /// The functions, as `symbol` finds them by their names; it says null for those that are not there.
    ///
    /// # Errors
    /// The name of a function that the library does not have: it is too old.
    ///
    /// # Safety
    /// What `symbol` finds must be the functions of a library called [`NAME`], which stays loaded.
    pub unsafe fn find(symbol: impl Fn(&CStr) -> *const ()) -> Result<Self, &'static CStr> {
        /// # Safety
        /// `F` must be the type of the function at the address.
        unsafe fn function<F>(address: *const (), name: &'static CStr) -> Result<F, &'static CStr> {
            const { assert!(size_of::<F>() == size_of::<*const ()>()) };
            if address.is_null() {
                return Err(name);
            }
            // SAFETY: both are pointers; the caller answers for the type.
            Ok(unsafe { std::mem::transmute_copy(&address) })
        }
        // SAFETY: these are the functions of aql_profile_v2.h with their signatures.
        unsafe {
            let (register, info) = (c"aqlprofile_register_agent", c"aqlprofile_get_pmc_info");
            let is_valid = c"aqlprofile_validate_pmc_event";
            let create = c"aqlprofile_pmc_create_packets";
            let values = c"aqlprofile_pmc_iterate_data";
            Ok(Self {
                register: function(symbol(register), register)?,
                info: function(symbol(info), info)?,
                is_valid: function(symbol(is_valid), is_valid)?,
                create: function(symbol(create), create)?,
                values: function(symbol(values), values)?,
            })
        }
    }

    /// Makes a GPU known to the library.
    ///
    /// # Errors
    /// The library's status: it does not know GPUs of this kind.
    pub fn register(&self, runtime: &Runtime, agent: Handle) -> Result<RegisteredGpu, Status> {
        let mut name = [0_u8; NAME_BYTES + 1];
        // SAFETY: a function of hsa.h; the name has room, and an end.
        let status = unsafe { (runtime.agent_info)(agent, AGENT_NAME, name.as_mut_ptr().cast()) };
        if status != 0 {
            return Err(status);
        }
        let number = |what| runtime.number(agent, what).unwrap_or(0);
        let (units, engines) = (number(COMPUTE_UNITS), number(SHADER_ENGINES));
        // Older runtimes know of no dies.
        let dies = number(DIES).max(1);
        let info = AgentInfo {
            name: name.as_ptr().cast(),
            dies,
            engines,
            units,
            arrays: number(ARRAYS_PER_ENGINE),
        };
        let mut id = 0;
        // SAFETY: a function of aql_profile_v2.h; the name is terminated.
        match unsafe { (self.register)(&raw mut id, &raw const info) } {
            0 => Ok(RegisteredGpu {
                agent,
                id,
                units,
                engines,
                simds: units.wrapping_mul(number(SIMDS_PER_CU)),
                dies,
            }),
            status => Err(status),
        }
    }

    /// A block's number, and how many instances it has; `None` if the GPU has no such block.
    #[must_use]
    pub fn block(&self, gpu: &RegisteredGpu, name: &CStr) -> Option<(u32, u32)> {
        let none = Profile {
            agent: gpu.id,
            events: std::ptr::null(),
            count: 0,
        };
        let mut query = BlockQuery {
            name: name.as_ptr(),
            id: 0,
            instances: 0,
        };
        // SAFETY: a function of aql_profile_v2.h; the query is of the kind that is asked.
        let status = unsafe { (self.info)(&raw const none, BLOCK_ID, (&raw mut query).cast()) };
        (status == 0).then_some((query.id, query.instances.max(1)))
    }

    /// How many events a block can count at once; `None` if it knows no such event.
    #[must_use]
    pub fn room(&self, gpu: &RegisteredGpu, event: Event) -> Option<u32> {
        let mut is_valid = false;
        // SAFETY: a function of aql_profile_v2.h.
        let status = unsafe { (self.is_valid)(gpu.id, &raw const event, &raw mut is_valid) };
        let profile = Profile {
            agent: gpu.id,
            events: &raw const event,
            count: 1,
        };
        let mut room = 0_u32;
        // SAFETY: as above; the answer is a number of 32 bits.
        let told =
            unsafe { (self.info)(&raw const profile, BLOCK_COUNTERS, (&raw mut room).cast()) };
        (status == 0 && is_valid && told == 0 && room > 0).then_some(room)
    }

    /// Commands for some events: what they are known by, and the packets.
    ///
    /// # Errors
    /// The library's status: the events do not fit together, or there is no memory.
    pub fn commands(
        &self,
        gpu: &RegisteredGpu,
        events: &'static [Event],
        memory: &'static CommandMemory,
    ) -> Result<(u64, CommandPackets), Status> {
        let profile = Profile {
            agent: gpu.id,
            events: events.as_ptr(),
            count: events.len() as u32,
        };
        let (mut handle, mut packets) = (0, CommandPackets::default());
        let data = std::ptr::from_ref(memory).cast_mut().cast();
        // SAFETY: a function of aql_profile_v2.h; the callbacks have its signatures, only read their data, and what they get stays.
        let status = unsafe {
            (self.create)(
                &raw mut handle,
                &raw mut packets,
                profile,
                allocate,
                free,
                copy,
                data,
            )
        };
        match status {
            0 => Ok((handle, packets)),
            status => Err(status),
        }
    }

    /// What the packets of these commands have read: an event of an instance comes once for each engine and die that it is in.
    pub fn values<F: FnMut(Event, u64)>(&self, handle: u64, mut take: F) {
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
        // SAFETY: a function of aql_profile_v2.h; the callback gets what it is made for.
        unsafe { (self.values)(handle, on_value::<F>, (&raw mut take).cast()) };
    }
}

/// # Safety
/// `memory` must be a [`CommandMemory`] that stays.
unsafe extern "C" fn allocate(
    place: *mut *mut c_void,
    bytes: u64,
    _flags: u32,
    memory: *mut c_void,
) -> Status {
    // SAFETY: as the caller promises. Allocated memory has the size that is cleared.
    unsafe {
        if bytes == 0 {
            *place = std::ptr::null_mut();
            return 0;
        }
        let CommandMemory {
            runtime,
            pool,
            agent,
        } = &*memory.cast::<CommandMemory>();
        // What of it packets point to, the GPU executes. Older runtimes refuse the flag, and need none.
        let allocate = |flags| (runtime.allocate)(*pool, bytes as usize, flags, place);
        let status = match allocate(EXECUTABLE) {
            0 => 0,
            _ => allocate(STANDARD),
        };
        if status != 0 {
            return status;
        }
        (*place).cast::<u8>().write_bytes(0, bytes as usize);
        (runtime.allow)(1, agent, std::ptr::null(), *place)
    }
}

/// The library gives its memory back when the process ends, while a GPU may still execute commands in it: it stays until the runtime goes.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn free(_: *mut c_void, _: *mut c_void) {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_commands_waits_and_completes_its_signal() {
        let packet = CommandPacket([0x0001_ffff, 1, 2, 3, 4, 5, 6, 9]);
        let words = packet.with_signal(0x80);
        // Format 1 stays; type 0 with the barrier bit and both fences.
        assert_eq!(words[0], 0x0001_1500);
        assert_eq!(words[1..], [1, 2, 3, 4, 5, 6, 0x80]);
    }
}
