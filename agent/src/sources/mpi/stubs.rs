//! The exported functions: a stub for each row of the table and each of its variants.

use crate::interpose::table::MOST_FUNCTIONS;
use crate::sources::mpi::call;
use crate::sources::mpi::table::{COUNT, Function, LARGE, PROFILING, VARIANTS, with_functions};

crate::trampoline!(trampoline, call::handle);

macro_rules! stubs {
    ($($name:ident $roles:literal $($large:ident)?;)*) => {
        $(
            stubs!(@stub concat!("MPI_", stringify!($name)), $name, 0);
            stubs!(@stub concat!("PMPI_", stringify!($name)), $name, PROFILING);
            $(stubs!(@$large $name);)?
        )*
    };
    (@c $name:ident) => {
        stubs!(@stub concat!("MPI_", stringify!($name), "_c"), $name, LARGE);
        stubs!(@stub concat!("PMPI_", stringify!($name), "_c"), $name, LARGE + PROFILING);
    };
    (@stub $symbol:expr, $name:ident, $variant:expr) => {
        const _: () = {
            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(export_name = $symbol))]
            #[allow(dead_code, reason = "exported")]
            #[unsafe(naked)]
            unsafe extern "C" fn stub() {
                crate::stub!(Function::$name as usize * VARIANTS + $variant, trampoline)
            }
        };
    };
}

with_functions!(stubs);

crate::later_stubs!(
    "rsys_mpi_stubs_1",
    MOST_FUNCTIONS,
    COUNT * VARIANTS,
    trampoline
);
crate::later_stubs!(
    "rsys_mpi_stubs_2",
    2 * MOST_FUNCTIONS,
    COUNT * VARIANTS,
    trampoline
);
crate::later_stubs!(
    "rsys_mpi_stubs_3",
    3 * MOST_FUNCTIONS,
    COUNT * VARIANTS,
    trampoline
);
