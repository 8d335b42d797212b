//! The functions of OpenSHMEM 1.0 to 1.5: their names, and what their arguments are.
//!
//! A function is an operation and a type (`shmem_int_put`), an operation and a size (`shmem_put32_nbi`), each perhaps with a context
//! (`shmem_ctx_int_put`), or has a name of its own. Its *roles*: the first letter says what it does, each of the others stands for one argument behind the context.
//! Left out are functions that only ask (`shmem_my_pe`, `shmem_test`, `shmem_ptr`), those with a `long double` by value, and the interface for Fortran.
//! By the names for tools (`pshmem_int_put`), they have the same numbers, at another place: what stands in front of `shmem_int_put` may call them.
//!
//! | first letter | the function |
//! |---|---|
//! | `p`, `g` | writes to, reads from the memory of another |
//! | `a` | does both at once |
//! | `c`, `C` | is called by all of a group, and waits for them; `C` returns 0 if it could |
//! | `w` | waits |
//! | `e` | does anything else, and returns 0 if it could |
//! | `.` | anything else |
//!
//! | letter | the argument |
//! |---|---|
//! | `n`, `N` | count of elements, as a `size_t`, as an `int` |
//! | `v` | a value of the type |
//! | `P`, `r` | number of the other, of the root |
//! | `t` | a team |
//! | `s`, `m` | bytes, and how many times these |
//! | `.` | anything else |

use crate::interpose::table::{FunctionTable, MOST_FUNCTIONS, NAME_BYTES, Reals, parts};

macro_rules! with_types {
    ($macro:ident) => {
        $macro! {
            float 4; double 8; longdouble 16; char 1; schar 1; short 2; int 4; long 8; longlong 8; uchar 1; ushort 2; uint 4; ulong 8;
            ulonglong 8; int8 1; int16 2; int32 4; int64 8; uint8 1; uint16 2; uint32 4; uint64 8; size 8; ptrdiff 8; complexf 8; complexd 16;
        }
    };
}

macro_rules! types {
    ($($name:ident $bytes:literal;)*) => {
        /// Types of elements, and behind them sizes.
        #[allow(non_camel_case_types, dead_code, reason = "named as in the functions")]
        #[derive(Debug, Clone, Copy)]
        #[repr(u16)]
        pub(super) enum Type { $($name,)* s8, s16, s32, s64, s128, mem }

        const TYPE_NAMES: [&str; TYPES] = [$(stringify!($name),)* "8", "16", "32", "64", "128", "mem"];
        const TYPE_BYTES: [u8; TYPES] = [$($bytes,)* 1, 2, 4, 8, 16, 1];
    };
}

with_types!(types);

const TYPES: usize = 32;
const FIRST_SIZE: usize = Type::s8 as usize;

macro_rules! with_operations {
    ($macro:ident) => {
        $macro! {
            p "p.vP"; g "g.P"; put "p..nP"; get "g..nP"; put_nbi "p..nP"; get_nbi "g..nP"; iput "p....nP"; iget "g....nP";
            put_signal "p..n...P"; put_signal_nbi "p..n...P"; atomic_fetch "g.P"; atomic_set "p.vP"; atomic_compare_swap "a.vvP";
            atomic_swap "a.vP"; atomic_fetch_inc "a.P"; atomic_inc "p.P"; atomic_fetch_add "a.vP"; atomic_add "p.vP";
            atomic_fetch_and "a.vP"; atomic_and "p.vP"; atomic_fetch_or "a.vP"; atomic_or "p.vP"; atomic_fetch_xor "a.vP";
            atomic_xor "p.vP"; atomic_fetch_nbi "g..P"; atomic_compare_swap_nbi "a..vvP"; atomic_swap_nbi "a..vP";
            atomic_fetch_inc_nbi "a..P"; atomic_fetch_add_nbi "a..vP"; atomic_fetch_and_nbi "a..vP"; atomic_fetch_or_nbi "a..vP";
            atomic_fetch_xor_nbi "a..vP"; fetch "g.P"; set "p.vP"; cswap "a.vvP"; swap "a.vP"; finc "a.P"; inc "p.P"; fadd "a.vP";
            add "p.vP"; wait "w.v"; wait_until "w..v"; wait_until_all "w....v"; wait_until_any "w....v"; wait_until_some "w.....v";
            and_to_all "c..N....."; or_to_all "c..N....."; xor_to_all "c..N....."; min_to_all "c..N....."; max_to_all "c..N.....";
            sum_to_all "c..N....."; prod_to_all "c..N....."; and_reduce "Ct..n"; or_reduce "Ct..n"; xor_reduce "Ct..n";
            min_reduce "Ct..n"; max_reduce "Ct..n"; sum_reduce "Ct..n"; prod_reduce "Ct..n"; broadcast "Ct..nr"; collect "Ct..n";
            fcollect "Ct..n"; alltoall "Ct..n"; alltoalls "Ct....n";
        }
    };
}

macro_rules! with_others {
    ($macro:ident) => {
        $macro! {
            init 0 "."; init_thread 0 "e.."; finalize 0 "c"; global_exit 0 ".."; barrier_all 0 "c"; barrier 0 "c...."; sync_all 0 "c";
            sync 0 "c...."; team_sync 0 "ct"; quiet 0 "w"; fence 0 "w"; ctx_quiet 0 "w."; ctx_fence 0 "w."; malloc 1 "cs";
            malloc_with_hints 1 "cs."; calloc 1 "cms"; align 1 "c.s"; realloc 1 "c.s"; free 0 "c."; set_lock 0 "w."; clear_lock 0 "..";
            test_lock 0 ".."; ctx_create 0 "e.."; ctx_destroy 0 ".."; team_create_ctx 0 "et.."; team_split_strided 0 "Ct......";
            team_split_2d 0 "Ct......."; team_destroy 0 "ct"; signal_wait_until 8 "w..v"; broadcast32 4 "c..nr...."; broadcast64 8 "c..nr....";
            collect32 4 "c..n...."; collect64 8 "c..n...."; fcollect32 4 "c..n...."; fcollect64 8 "c..n...."; alltoall32 4 "c..n....";
            alltoall64 8 "c..n...."; alltoalls32 4 "c....n...."; alltoalls64 8 "c....n...."; broadcastmem 1 "Ct..nr"; collectmem 1 "Ct..n";
            fcollectmem 1 "Ct..n"; alltoallmem 1 "Ct..n"; alltoallsmem 1 "Ct....n";
        }
    };
}
pub(super) use with_others;

/// With a context only the first half of the operations exist.
const WITH_CONTEXT: usize = 32;

macro_rules! operations {
    ($($name:ident $roles:literal;)*) => {
        /// Operations on elements of a type.
        #[allow(non_camel_case_types, dead_code, reason = "named as the functions, and used by number")]
        #[derive(Debug, Clone, Copy)]
        #[repr(u16)]
        pub(super) enum Operation { $($name,)* }

        const OPERATIONS: [(&str, &str); 64] = [$((stringify!($name), $roles),)*];
    };
}
with_operations!(operations);

macro_rules! others {
    ($($name:ident $bytes:literal $roles:literal;)*) => {
        /// Functions with names of their own.
        #[allow(non_camel_case_types, dead_code, reason = "named as the functions, and used by number")]
        #[derive(Debug, Clone, Copy)]
        #[repr(u16)]
        pub(super) enum Other { $($name,)* }

        const OTHERS: [(&str, u8, &str); OTHER_COUNT] = [$((stringify!($name), $bytes, $roles),)*];
        const OTHER_COUNT: usize = [$($bytes,)*].len();
    };
}
with_others!(others);

/// Numbers of functions: operations and types with and without a context, operations without, then the others.
const FIRST_WITHOUT: usize = WITH_CONTEXT * TYPES * 2;
const FIRST_OTHER: usize = FIRST_WITHOUT + (OPERATIONS.len() - WITH_CONTEXT) * TYPES;
const COUNT: usize = FIRST_OTHER + OTHER_COUNT;
const _: () = assert!(COUNT <= MOST_FUNCTIONS && FIRST_SIZE + 6 == TYPES);

/// Added to the number of a function: the same by its name for tools, `pshmem_`.
pub(super) const PROFILING: usize = MOST_FUNCTIONS;

/// The number of an operation on a type.
pub const fn typed(operation: Operation, element: Type, context: bool) -> usize {
    let (operation, element) = (operation as usize, element as usize);
    if operation < WITH_CONTEXT {
        (operation * TYPES + element) * 2 + context as usize
    } else {
        FIRST_WITHOUT + (operation - WITH_CONTEXT) * TYPES + element
    }
}

/// The number of a function with a name of its own.
pub const fn other(function: Other) -> usize {
    FIRST_OTHER + function as usize
}

/// What a function is.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    name: &'static str,
    element: Option<usize>,
    /// Whether its first argument is a context.
    pub has_context: bool,
    /// What it does, and its arguments.
    roles: &'static str,
    /// Size of an element in bytes; 0 where it has none.
    pub element_bytes: u8,
    /// Whether values of its type come as floating-point numbers.
    pub is_floating: bool,
}

/// The function of a number.
#[inline]
pub fn row(function: usize) -> Option<Row> {
    if let Some(number) = function.checked_sub(FIRST_OTHER) {
        let (name, element_bytes, roles) = OTHERS.get(number)?;
        return Some(Row {
            name,
            element: None,
            has_context: false,
            roles,
            element_bytes: *element_bytes,
            is_floating: false,
        });
    }
    let (operation, element, has_context) = match function.checked_sub(FIRST_WITHOUT) {
        Some(number) => (WITH_CONTEXT + number / TYPES, number % TYPES, false),
        None => (
            function / 2 / TYPES,
            function / 2 % TYPES,
            function % 2 == 1,
        ),
    };
    let (name, roles) = OPERATIONS.get(operation)?;
    Some(Row {
        name,
        element: Some(element),
        has_context,
        roles,
        element_bytes: *TYPE_BYTES.get(element)?,
        is_floating: element <= Type::double as usize,
    })
}

impl Row {
    /// What it does.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.roles.as_bytes().first().copied().unwrap_or(b'.')
    }

    /// Its arguments behind the context.
    #[inline]
    pub fn letters(&self) -> &'static [u8] {
        self.roles.as_bytes().get(1..).unwrap_or(&[])
    }

    /// Its name without the library, the context and the type.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The parts of its name behind `shmem_`.
    fn parts(&self) -> [&'static str; 5] {
        let context = if self.has_context { "ctx_" } else { "" };
        let Some(element) = self.element else {
            return [self.name, "", "", "", ""];
        };
        let name = TYPE_NAMES.get(element).copied().unwrap_or("");
        if element < FIRST_SIZE {
            return [context, name, "_", self.name, ""];
        }
        // `put32_nbi`, but `putmem`.
        let (what, how) = match self.name.find('_') {
            Some(at) => self.name.split_at(at),
            None => (self.name, ""),
        };
        [context, what, name, how, ""]
    }
}

static REALS: Reals = Reals::new();

/// All of them.
pub static TABLE: FunctionTable = FunctionTable {
    find,
    name: symbol,
    later: |_| std::ptr::null(),
    reals: &REALS,
};

/// The number of the function of this name.
pub fn find(symbol: &[u8]) -> Option<u16> {
    let (symbol, profiling) = match symbol.strip_prefix(b"p") {
        Some(rest) => (rest, PROFILING),
        None => (symbol, 0),
    };
    let wanted = symbol.strip_prefix(b"shmem_")?;
    let is_wanted = |function: &usize| {
        let row = row(*function);
        let mut rest = wanted;
        let are_parts = row.is_some_and(|row| {
            row.parts().iter().all(|part| {
                let stripped = rest.strip_prefix(part.as_bytes());
                rest = stripped.unwrap_or(rest);
                stripped.is_some()
            })
        });
        are_parts && rest.is_empty()
    };
    // Names of their own first: some look like an operation and a size.
    let found = (FIRST_OTHER..COUNT).find(is_wanted);
    let found = found.or_else(|| (0..FIRST_OTHER).find(is_wanted))?;
    u16::try_from(found.wrapping_add(profiling)).ok()
}

/// The name of a function, with its NUL.
pub fn symbol(number: u16, to: &mut [u8; NAME_BYTES]) {
    let (place, function) = parts(u32::from(number));
    let Some(row) = row(usize::from(function)) else {
        return;
    };
    let prefix = if place == 0 { "shmem_" } else { "pshmem_" };
    let bytes = std::iter::once(prefix).chain(row.parts());
    let bytes = bytes.flat_map(|part| part.bytes());
    // The last byte stays 0.
    for (to, from) in to.iter_mut().take(NAME_BYTES - 1).zip(bytes) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        for (name, roles, bytes, context) in [
            ("shmem_int_put", "p..nP", 4, false),
            ("shmem_ctx_double_p", "p.vP", 8, true),
            ("shmem_putmem", "p..nP", 1, false),
            ("shmem_put32_nbi", "p..nP", 4, false),
            ("shmem_ctx_iget128", "g....nP", 16, true),
            ("shmem_int8_atomic_add", "p.vP", 1, false),
            ("shmem_longlong_sum_to_all", "c..N.....", 8, false),
            ("shmem_size_alltoall", "Ct..n", 8, false),
            ("shmem_broadcast64", "c..nr....", 8, false),
            ("shmem_broadcastmem", "Ct..nr", 1, false),
            ("shmem_ctx_quiet", "w.", 0, false),
            ("shmem_barrier_all", "c", 0, false),
        ] {
            let number = find(name.as_bytes()).expect(name);
            let row = row(usize::from(number)).expect(name);
            assert_eq!(
                (row.roles, row.element_bytes, row.has_context),
                (roles, bytes, context),
                "{name}"
            );
            let tools = format!("p{name}");
            let for_tools = find(tools.as_bytes()).expect(&tools);
            assert_eq!(parts(u32::from(for_tools)), (1, number));
            for (name, number) in [(name, number), (&tools, for_tools)] {
                let mut back = [0; NAME_BYTES];
                symbol(number, &mut back);
                assert_eq!(back.split(|byte| *byte == 0).next(), Some(name.as_bytes()));
            }
        }
        for name in [
            "shmem_my_pe",
            "shmem_ctx_int_wait",
            "shmem_",
            "pshmem_my_pe",
            "ppshmem_init",
        ] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
        let number = typed(Operation::get_nbi, Type::int16, true);
        assert_eq!(find(b"shmem_ctx_int16_get_nbi"), u16::try_from(number).ok());
    }

    #[test]
    fn roles_have_a_letter_for_each_argument() {
        for function in 0..COUNT {
            let roles = row(function).expect("a row").roles.as_bytes();
            assert!(b"pgacCwe.".contains(&roles[0]), "{function}");
            assert!(roles[1..].iter().all(|role| b"nNvPrsmt.".contains(role)));
        }
    }
}
