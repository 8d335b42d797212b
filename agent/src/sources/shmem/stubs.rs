//! The exported functions: a stub for each operation on each type that has it, by its name and by that for tools.

use crate::sources::shmem::call;
use crate::sources::shmem::table::{Operation, Other, PROFILING, Type, other, typed, with_others};

crate::trampoline!(trampoline, call::handle);

/// A function by its two names; `rest` is what stands behind `shmem_`.
macro_rules! stub {
    (($($rest:expr),*), $number:expr) => {
        stub!(@named concat!("shmem_" $(, $rest)*), $number);
        stub!(@named concat!("pshmem_" $(, $rest)*), $number + PROFILING);
    };
    (@named $symbol:expr, $number:expr) => {
        const _: () = {
            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(export_name = $symbol))]
            #[allow(dead_code, reason = "exported")]
            #[unsafe(naked)]
            unsafe extern "C" fn stub() {
                crate::stub!($number, trampoline)
            }
        };
    };
}

/// Each operation on each type; `with` stands in front of what has a context as well.
macro_rules! of_types {
    ($context:ident $types:tt: $($operation:ident)*) => {
        $(of_types!(@operation $context $types $operation);)*
    };
    (@operation $context:ident [$($type:ident)*] $operation:ident) => {
        $(of_types!(@$context $type $operation);)*
    };
    (@with $type:ident $operation:ident) => {
        of_types!(@without $type $operation);
        stub!(
            ("ctx_", stringify!($type), "_", stringify!($operation)),
            typed(Operation::$operation, Type::$type, true)
        );
    };
    (@without $type:ident $operation:ident) => {
        stub!(
            (stringify!($type), "_", stringify!($operation)),
            typed(Operation::$operation, Type::$type, false)
        );
    };
}

of_types! { with
    [float double char schar short int long longlong uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff]:
    p g
}
of_types! { with
    [float double longdouble char schar short int long longlong uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff]:
    put get put_nbi get_nbi iput iget put_signal put_signal_nbi
}
of_types! { with [float double]: atomic_fetch atomic_set atomic_swap atomic_fetch_nbi atomic_swap_nbi }
of_types! { with
    [int long longlong uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff]:
    atomic_fetch atomic_set atomic_compare_swap atomic_swap atomic_fetch_inc atomic_inc atomic_fetch_add atomic_add atomic_fetch_and atomic_and
    atomic_fetch_or atomic_or atomic_fetch_xor atomic_xor atomic_fetch_nbi atomic_compare_swap_nbi atomic_swap_nbi atomic_fetch_inc_nbi
    atomic_fetch_add_nbi atomic_fetch_and_nbi atomic_fetch_or_nbi atomic_fetch_xor_nbi
}
of_types! { without [float double]: fetch set swap }
of_types! { without [int long longlong]: fetch set cswap swap finc inc fadd add }
of_types! { without
    [short int long longlong ushort uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff]:
    wait wait_until wait_until_all wait_until_any wait_until_some
}
of_types! { without [short int long longlong]: and_to_all or_to_all xor_to_all }
of_types! { without [short int long longlong float double longdouble]: min_to_all max_to_all }
of_types! { without [short int long longlong float double longdouble complexf complexd]: sum_to_all prod_to_all }
of_types! { without
    [uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size]:
    and_reduce or_reduce xor_reduce
}
of_types! { without
    [float double longdouble char schar short int long longlong ptrdiff uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size]:
    min_reduce max_reduce sum_reduce prod_reduce broadcast collect fcollect alltoall alltoalls
}

/// Each operation on elements of each size, with and without a context.
macro_rules! of_sizes {
    ($sizes:tt: $($operation:ident $what:literal $how:literal)*) => {
        $(of_sizes!(@operation $sizes $operation $what $how);)*
    };
    (@operation [$($type:ident $size:literal)*] $operation:ident $what:literal $how:literal) => {
        $(
            stub!(($what, $size, $how), typed(Operation::$operation, Type::$type, false));
            stub!(("ctx_", $what, $size, $how), typed(Operation::$operation, Type::$type, true));
        )*
    };
}

of_sizes! {
    [s8 "8" s16 "16" s32 "32" s64 "64" s128 "128" mem "mem"]:
    put "put" "" get "get" "" put_nbi "put" "_nbi" get_nbi "get" "_nbi" put_signal "put" "_signal" put_signal_nbi "put" "_signal_nbi"
}
of_sizes! { [s8 "8" s16 "16" s32 "32" s64 "64" s128 "128"]: iput "iput" "" iget "iget" "" }

macro_rules! others {
    ($($name:ident $bytes:literal $roles:literal;)*) => {
        $(stub!((stringify!($name)), other(Other::$name));)*
    };
}
with_others!(others);
