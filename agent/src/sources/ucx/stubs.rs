//! The exported functions: a stub for each row of the table.

use crate::sources::ucx::call;
use crate::sources::ucx::table::{Function, with_functions};

crate::trampoline!(trampoline, call::handle);

macro_rules! stubs {
    ($($name:ident $roles:literal;)*) => {
        $(const _: () = {
            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(export_name = concat!("ucp_", stringify!($name))))]
            #[allow(dead_code, reason = "exported")]
            #[unsafe(naked)]
            unsafe extern "C" fn stub() {
                crate::stub!(Function::$name as usize, trampoline)
            }
        };)*
    };
}

with_functions!(stubs);
