//! The MPI library of the process: whose it is, and the few of its functions that we ask.
//!
//! There is no `mpi.h` here. What differs between libraries is how wide a handle is and which are predefined: OpenMPI's are addresses of its own variables,
//! those of MPICH and its relatives (Intel MPI, Cray MPICH, MVAPICH) are 32-bit numbers, those of MPI 5's standard ABI small numbers of the
//! width of a pointer (MPI 5.0, section 20; mpi.h of OpenMPI 4 and 5, of MPICH 4 and 5).

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::code::modules;
use crate::events;
use crate::interpose::symbols;
use crate::state::WriteOnce;
use crate::sys::guard;

/// Whose handles and constants the program was compiled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abi {
    OpenMpi,
    Mpich,
    Standard,
}

/// A function of the library. Handles and addresses are words.
type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> c_int;

/// The library.
#[derive(Debug)]
pub struct Library {
    pub abi: Abi,
    /// At which place of the stubs it stands.
    place: usize,
    pub world: usize,
    pub own: usize,
    null_communicator: usize,
    null_type: usize,
    comm_rank: Function,
    comm_size: Function,
    comm_test_inter: Function,
    comm_group: Function,
    group_translate: Function,
    group_free: Function,
    type_size: Function,
    type_name: Function,
    library_version: Function,
    initialized: Function,
    finalized: Function,
}

static LIBRARY: WriteOnce<Option<Library>> = WriteOnce::new();
const UNKNOWN: u8 = 0;
const BEING_FOUND: u8 = 1;
const FOUND: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether MPI is initialised, and not yet finalised: only then is anything asked.
static ASKABLE: AtomicU8 = AtomicU8::new(0);

/// The library whose functions stand at this place, while it may be asked.
#[inline]
pub fn askable(place: usize) -> Option<&'static Library> {
    if ASKABLE.load(Ordering::Acquire) == 0 {
        return None;
    }
    known().filter(|library| library.place == place)
}

#[inline]
fn known() -> Option<&'static Library> {
    if STATE.load(Ordering::Acquire) != FOUND {
        return None;
    }
    // SAFETY: written before the state said so.
    unsafe { LIBRARY.get() }.as_ref()
}

/// Whether a library was found.
pub fn is_known() -> bool {
    known().is_some()
}

/// MPI is initialised: a call has succeeded that needs that. `real` is any function of the library.
pub fn begin(place: usize, real: *const ()) -> Option<&'static Library> {
    let claimed = STATE.compare_exchange(UNKNOWN, BEING_FOUND, Ordering::AcqRel, Ordering::Acquire);
    if claimed.is_ok() {
        // SAFETY: by the one thread that claimed it, before anything reads.
        unsafe { LIBRARY.set(Library::find(place, real)) };
        STATE.store(FOUND, Ordering::Release);
        if let Some(library) = known() {
            library.describe();
        }
    }
    let library = known().filter(|library| library.place == place)?;
    if ASKABLE.load(Ordering::Acquire) == 0 {
        if !library.is_running() {
            return None;
        }
        ASKABLE.store(1, Ordering::Release);
    }
    Some(library)
}

/// MPI is about to be finalised.
pub fn end() {
    ASKABLE.store(0, Ordering::Release);
}

impl Library {
    fn find(place: usize, real: *const ()) -> Option<Library> {
        let beside = |name: &CStr| match place {
            0 => symbols::behind(name),
            _ => symbols::beside(real, name),
        };
        let rank = beside(c"PMPI_Comm_rank");
        // One of the library's own: `real` may be that of another tool.
        let of_library = |name: &CStr| symbols::beside(rank, name);
        let function = |name: &CStr| {
            let found = match of_library(name) {
                found if found.is_null() => beside(name),
                found => found,
            };
            // SAFETY: a function of words, or null.
            unsafe { std::mem::transmute::<*mut (), Option<Function>>(found) }
        };
        let variable = |name: &CStr| address_of(name, of_library(name));
        let abi = if is_standard(rank) {
            Abi::Standard
        } else if of_library(c"ompi_mpi_comm_world").is_null() {
            Abi::Mpich
        } else {
            Abi::OpenMpi
        };
        let [world, own, null_communicator, null_type] = match abi {
            Abi::OpenMpi => [
                variable(c"ompi_mpi_comm_world"),
                variable(c"ompi_mpi_comm_self"),
                variable(c"ompi_mpi_comm_null"),
                variable(c"ompi_mpi_datatype_null"),
            ],
            Abi::Mpich => [0x4400_0000, 0x4400_0001, 0x0400_0000, 0x0c00_0000],
            Abi::Standard => [0x101, 0x102, 0x100, 0x200],
        };
        Some(Library {
            abi,
            place,
            world,
            own,
            null_communicator,
            null_type,
            comm_rank: function(c"PMPI_Comm_rank")?,
            comm_size: function(c"PMPI_Comm_size")?,
            comm_test_inter: function(c"PMPI_Comm_test_inter")?,
            comm_group: function(c"PMPI_Comm_group")?,
            group_translate: function(c"PMPI_Group_translate_ranks")?,
            group_free: function(c"PMPI_Group_free")?,
            type_size: function(c"PMPI_Type_size")?,
            type_name: function(c"PMPI_Type_get_name")?,
            library_version: function(c"PMPI_Get_library_version")?,
            initialized: function(c"PMPI_Initialized")?,
            finalized: function(c"PMPI_Finalized")?,
        })
    }

    /// A handle that was passed by value: of 32 bits, the upper half of the word means nothing.
    #[inline]
    pub fn handle(&self, word: usize) -> usize {
        match self.abi {
            Abi::Mpich => word as u32 as usize,
            _ => word,
        }
    }

    /// A handle in the program's memory, which the program has the library read or write.
    #[inline]
    pub fn handle_at(&self, address: usize) -> usize {
        if address == 0 {
            return 0;
        }
        // SAFETY: as the caller says.
        unsafe {
            match self.abi {
                Abi::Mpich => *std::ptr::with_exposed_provenance::<u32>(address) as usize,
                _ => *std::ptr::with_exposed_provenance::<usize>(address),
            }
        }
    }

    /// The handle at this place of an array of handles.
    #[inline]
    pub fn handle_in(&self, array: usize, index: usize) -> usize {
        let bytes = match self.abi {
            Abi::Mpich => 4,
            _ => 8,
        };
        self.handle_at(array.wrapping_add(index.wrapping_mul(bytes)))
    }

    /// Whether a rank may stand for any sender. (OpenMPI: -1, with -2 for none; MPICH the other way round; the standard ABI: -1, with -3.)
    #[inline]
    pub fn may_be_any_source(&self, rank: c_int) -> bool {
        match self.abi {
            Abi::OpenMpi | Abi::Standard => rank == -1,
            Abi::Mpich => rank == -2,
        }
    }

    /// Whether a handle is that of a communicator.
    pub fn is_communicator(&self, handle: usize) -> bool {
        handle != 0 && handle != self.null_communicator
    }

    /// Whether a handle may be that of a type: a wrong one is not asked about, for that is an error of the program's.
    #[inline]
    pub fn may_be_type(&self, handle: usize) -> bool {
        let is_of_kind = match self.abi {
            // The kind of an object stands in these bits of its handle (MPICH, mpir_handlemem.h).
            Abi::Mpich => handle >> 26 & 0xf == 3,
            Abi::OpenMpi => handle > 4096,
            Abi::Standard => true,
        };
        is_of_kind && handle != 0 && handle != self.null_type
    }

    fn number(function: Function, handle: usize) -> Option<c_int> {
        let mut number: c_int = 0;
        // SAFETY: functions of a handle and a place for a number.
        let result = unsafe { function(handle, (&raw mut number).expose_provenance(), 0, 0, 0) };
        (result == 0).then_some(number)
    }

    fn is_running(&self) -> bool {
        let flag = |function: Function| {
            let mut flag: c_int = 0;
            // SAFETY: functions of a place for a flag, which may be called at any time.
            unsafe { function((&raw mut flag).expose_provenance(), 0, 0, 0, 0) };
            flag != 0
        };
        flag(self.initialized) && !flag(self.finalized)
    }

    /// The caller's rank in a communicator.
    pub fn rank(&self, communicator: usize) -> Option<c_int> {
        Self::number(self.comm_rank, communicator)
    }

    /// How many ranks a communicator has.
    pub fn size(&self, communicator: usize) -> Option<c_int> {
        Self::number(self.comm_size, communicator)
    }

    /// Whether a communicator joins two groups.
    pub fn joins_two(&self, communicator: usize) -> bool {
        Self::number(self.comm_test_inter, communicator) != Some(0)
    }

    /// The size of a type in bytes.
    pub fn type_size(&self, datatype: usize) -> Option<u64> {
        u64::try_from(Self::number(self.type_size, datatype)?).ok()
    }

    /// The name of a type; empty when it has none.
    pub fn type_name(&self, datatype: usize) -> ([u8; 128], usize) {
        // The standards up to 5.0 leave the room to the library: 64 (OpenMPI) and 128 (MPICH) with the NUL.
        let mut name = [0_u8; 256];
        let mut length: c_int = 0;
        // SAFETY: a type, room for the longest name, and for its length.
        unsafe {
            (self.type_name)(
                datatype,
                name.as_mut_ptr().expose_provenance(),
                (&raw mut length).expose_provenance(),
                0,
                0,
            );
        }
        let mut kept = [0; 128];
        let bytes = usize::try_from(length).unwrap_or(0).min(kept.len());
        for (to, from) in kept.iter_mut().zip(name).take(bytes) {
            *to = from;
        }
        (kept, bytes)
    }

    /// Calls `each` with the rank in the world of every member of a communicator, in order; false when one is of another world.
    pub fn members(&self, communicator: usize, size: c_int, mut each: impl FnMut(c_int)) -> bool {
        const CHUNK: usize = 256;
        let (Some(group), Some(world)) = (self.group(communicator), self.group(self.world)) else {
            return false;
        };
        let mut are_known = true;
        let mut done = 0;
        while done < size {
            let mut ranks = [0; CHUNK];
            let mut translated: [c_int; CHUNK] = [-1; CHUNK];
            let count = size.wrapping_sub(done).min(CHUNK as c_int);
            for (offset, rank) in ranks.iter_mut().enumerate() {
                *rank = done.wrapping_add(offset as c_int);
            }
            // SAFETY: two groups, and arrays of this length.
            let result = unsafe {
                (self.group_translate)(
                    group,
                    count as usize,
                    ranks.as_ptr().expose_provenance(),
                    world,
                    translated.as_mut_ptr().expose_provenance(),
                )
            };
            for rank in translated.iter().take(count as usize) {
                are_known &= result == 0 && *rank >= 0;
                each(*rank);
            }
            done = done.wrapping_add(count);
        }
        for mut group in [group, world] {
            // SAFETY: a group that was made here.
            unsafe { (self.group_free)((&raw mut group).expose_provenance(), 0, 0, 0, 0) };
        }
        are_known
    }

    fn group(&self, communicator: usize) -> Option<usize> {
        let mut group = 0_usize;
        // SAFETY: a communicator, and room for a handle of either width.
        let result = unsafe {
            (self.comm_group)(communicator, (&raw mut group).expose_provenance(), 0, 0, 0)
        };
        (result == 0).then_some(group)
    }

    /// Records which library this is.
    fn describe(&self) {
        // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in OpenMPI.
        let mut text = [0_u8; 8192 + 1];
        let mut length: c_int = 0;
        // SAFETY: room for the longest text, and for its length; may be called at any time.
        unsafe {
            (self.library_version)(
                text.as_mut_ptr().expose_provenance(),
                (&raw mut length).expose_provenance(),
                0,
                0,
                0,
            );
        }
        let is_end = |byte: &u8| matches!(byte, 0 | b'\n' | b',');
        let version = text.split(is_end).next().unwrap_or(&[]);
        let mut line = [0_u8; 128];
        let mut written = 0;
        for byte in version.iter().take(line.len()) {
            if let Some(to) = line.get_mut(written) {
                *to = if *byte == b'\t' { b' ' } else { *byte };
                written = written.wrapping_add(1);
            }
        }
        events::fact(
            b"mpi_library",
            line.get(..written).unwrap_or(&[]).trim_ascii(),
        );
    }
}

/// Whether the library with this function has the standard ABI: it is known by its name, for others have the functions of MPI 5 as well.
fn is_standard(function: *const ()) -> bool {
    let mut path = [0_u8; 1024];
    let Some(object) = modules::find(function.addr() as u64) else {
        return false;
    };
    let bytes = guard::copy_c_string(object.path, &mut path[..1023]);
    let file = path
        .get(..bytes)
        .and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    file.is_some_and(|file| file.starts_with(b"libmpi_abi"))
}

/// The address of a library's variable as the program has it: the linker may have moved it into the program.
fn address_of(name: &CStr, in_library: *mut ()) -> usize {
    let name: *const c_char = name.as_ptr();
    // SAFETY: a C string.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) };
    if global.is_null() {
        // SAFETY: no arguments; the program must not find our error.
        unsafe { libc::dlerror() };
        return in_library.expose_provenance();
    }
    global.expose_provenance()
}
