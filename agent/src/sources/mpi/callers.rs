//! Who calls a function of MPI: the program, or the library itself.
//!
//! Programs of Fortran call `mpi_send_`, which the library's part for Fortran turns into a call of the C function. That is the program's call.
//! But `mpi_alltoallw_` also asks for the size of the communicator on its own account, and some libraries have threads of their own. So a call
//! from within a library of MPI counts only where the function that makes it is the same one in another language.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::modules;
use crate::interpose::symbols;
use crate::sources::mpi::table;
use crate::sys::guard;

type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;

/// Places of calls that are remembered.
const PLACES: usize = 1024;
/// Set beside an address whose calls do not count. No address has this bit.
const IS_LIBRARY: u64 = 1 << 63;

static KNOWN: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// Whether a call that returns to this address is the program's.
#[inline]
pub fn is_program(return_address: u64, function: usize) -> bool {
    let place = (return_address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % PLACES;
    let Some(known) = KNOWN.get(place) else {
        return true;
    };
    let word = known.load(Ordering::Relaxed);
    if word & !IS_LIBRARY == return_address {
        return word & IS_LIBRARY == 0;
    }
    let is_program = look(return_address, function);
    let mark = if is_program { 0 } else { IS_LIBRARY };
    known.store(return_address | mark, Ordering::Relaxed);
    is_program
}

#[cold]
#[inline(never)]
fn look(return_address: u64, function: usize) -> bool {
    // The call itself is before the address to which it returns.
    let address = return_address.wrapping_sub(1);
    let mut path = [0_u8; 1024];
    let Some(object) = modules::find(address) else {
        return true;
    };
    let bytes = guard::copy_c_string(object.path, &mut path[..1023]);
    let file = path
        .get(..bytes)
        .and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    if !file.is_some_and(is_of_mpi) {
        return true;
    }
    // SAFETY: zeros are valid in all its fields.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let place: *const c_void = std::ptr::with_exposed_provenance(address as usize);
    // Looked up, for older C libraries have it in a library of its own, which a program that has no MPI need not load.
    // SAFETY: the signature that `dlfcn.h` declares; null is None.
    let dladdr =
        unsafe { std::mem::transmute::<*mut (), Option<Dladdr>>(symbols::next(c"dladdr")) };
    // SAFETY: room for the answer; the address is only looked up.
    let is_found = dladdr.is_some_and(|dladdr| unsafe { dladdr(place, &raw mut found) } != 0);
    if !is_found || found.dli_sname.is_null() {
        // A function that is not exported: those of MPICH for mpi_f08 move data for the program, and ask for themselves.
        return table::roles(function).first() != Some(&b'.');
    }
    // SAFETY: a name of the loaded library.
    let symbol = unsafe { CStr::from_ptr(found.dli_sname) }.to_bytes();
    let name = table::name(function).as_bytes();
    symbol
        .windows(name.len())
        .any(|part| part.eq_ignore_ascii_case(name))
}

/// Whether a file of this name is a library of MPI. (OpenMPI: `libmpi`, `libmpi_mpifh`, `libmpi_usempif08`; MPICH: `libmpich`, `libmpichfort`,
/// `libmpifort`; Intel and Cray: `libmpi`, `libmpifort`, `libmpi_gnu`.)
fn is_of_mpi(file: &[u8]) -> bool {
    [
        &b"libmpi."[..],
        b"libmpi_",
        b"libmpich",
        b"libmpifort",
        b"libpmpi",
        b"libmpif",
        b"libmvapich",
    ]
    .iter()
    .any(|start| file.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_known_by_their_names() {
        for file in [
            "libmpi.so.40",
            "libmpi_usempif08.so.40",
            "libmpichfort.so.12",
            "libmpifort.so.12",
            "libmpi_abi.so.0",
        ] {
            assert!(is_of_mpi(file.as_bytes()), "{file}");
        }
        for file in [
            "MPI.cpython-311-x86_64-linux-gnu.so",
            "libmpiwrap.so",
            "a.out",
            "",
        ] {
            assert!(!is_of_mpi(file.as_bytes()), "{file}");
        }
    }

    #[test]
    fn calls_from_elsewhere_are_the_programs() {
        let here = calls_from_elsewhere_are_the_programs as *const () as u64;
        assert!(is_program(here + 1, 0) && is_program(here + 1, 0));
    }
}
