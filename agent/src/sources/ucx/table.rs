//! The functions of UCX: their names, and what their arguments are.
//!
//! A row has the name without `ucp_` and its *roles*: the first letter says what the function returns, each of the others stands for one
//! argument (ucp.h and ucp_compat.h, UCX 1.4 to 1.18). What is polled and done at once (`ucp_request_check_status`, `ucp_tag_probe_nb`,
//! `ucp_stream_worker_poll`) has no row.
//!
//! | first letter | the function returns |
//! |---|---|
//! | `p` | a request: null when it is done, an error as a number from -100 to -1 |
//! | `i` | a status: negative is an error |
//! | `v` | nothing |
//! | `n` | how many events it has progressed |
//!
//! | letter | the argument |
//! |---|---|
//! | `e` | endpoint |
//! | `b` | buffer |
//! | `n` | count of elements |
//! | `t` | their type |
//! | `x` | the structure with the type, where the caller says one |
//! | `l` | length in bytes |
//! | `h` | length of the header in bytes |
//! | `g` | tag |
//! | `4`, `8` | an operand of 4 or 8 bytes |
//! | `.` | anything else |

use crate::interpose::table::{FunctionTable, MOST_FUNCTIONS, NAME_BYTES, Reals};

macro_rules! with_functions {
    ($macro:ident) => {
        $macro! {
            am_recv_data_nbx "p..bnx"; am_send_nb "pe.bnt.."; am_send_nbx "pe..hbnx"; atomic_add32 "ie4.."; atomic_add64 "ie8..";
            atomic_cswap32 "ie4...."; atomic_cswap64 "ie8...."; atomic_fadd32 "ie4..."; atomic_fadd64 "ie8...";
            atomic_fetch_nb "pe...l..."; atomic_op_nbx "pe.bn..x"; atomic_post "ie..l.."; atomic_swap32 "ie4..."; atomic_swap64 "ie8...";
            cleanup "v."; disconnect_nb "pe"; ep_close_nb "pe."; ep_close_nbx "pe."; ep_create "i..."; ep_destroy "ve";
            ep_flush "ie"; ep_flush_nb "pe.."; ep_flush_nbx "pe."; ep_rkey_unpack "ie.."; get "iebl.."; get_nb "pebl...";
            get_nbi "iebl.."; get_nbx "pebn..x"; init_version "i....."; listener_create "i..."; listener_destroy "v.";
            mem_map "i..."; mem_unmap "i.."; put "iebl.."; put_nb "pebl..."; put_nbi "iebl.."; put_nbx "pebn..x";
            rkey_destroy "v."; rkey_pack "i...."; stream_recv_data_nb "pe."; stream_recv_nb "pebnt...";
            stream_recv_nbx "pebn.x"; stream_send_nb "pebnt.."; stream_send_nbx "pebnx"; tag_msg_recv_nb "p.bnt..";
            tag_msg_recv_nbx "p.bn.x"; tag_recv_nb "p.bntg.."; tag_recv_nbr "i.bntg.."; tag_recv_nbx "p.bng.x";
            tag_send_nb "pebntg."; tag_send_nbr "iebntg."; tag_send_nbx "pebngx"; tag_send_sync_nb "pebntg.";
            tag_send_sync_nbx "pebngx"; worker_create "i..."; worker_destroy "v."; worker_fence "i."; worker_flush "i.";
            worker_flush_nb "p..."; worker_flush_nbx "p.."; worker_progress "n."; worker_wait "i."; worker_wait_mem "v..";
        }
    };
}
pub(super) use with_functions;

macro_rules! rows {
    ($($name:ident $roles:literal;)*) => {
        /// Functions in the order of their names.
        #[allow(non_camel_case_types, reason = "named as the functions")]
        #[derive(Debug, Clone, Copy)]
        #[repr(u16)]
        pub(super) enum Function { $($name,)* }

        const COUNT: usize = [$($roles,)*].len();
        /// Each with the length of its name, in one text, so that there is nothing to relocate.
        const TEXT: &str = concat!($(stringify!($name), $roles,)*);
        static PLACES: [[u16; 2]; COUNT + 1] = places(&[$((stringify!($name).len(), $roles.len()),)*]);
    };
}

with_functions!(rows);

const fn places(lengths: &[(usize, usize)]) -> [[u16; 2]; COUNT + 1] {
    let mut places = [[0; 2]; COUNT + 1];
    let (mut number, mut at) = (0, 0);
    while number < COUNT {
        places[number] = [at as u16, (at + lengths[number].0) as u16];
        at += lengths[number].0 + lengths[number].1;
        number += 1;
    }
    places[COUNT] = [at as u16; 2];
    places
}

const _: () = assert!(COUNT <= MOST_FUNCTIONS && TEXT.len() < u16::MAX as usize);

static REALS: Reals = Reals::new();

/// All of them.
pub static TABLE: FunctionTable = FunctionTable {
    find,
    name: symbol,
    later: |_| std::ptr::null(),
    reals: &REALS,
};

fn part(from: u16, to: u16) -> &'static str {
    TEXT.get(usize::from(from)..usize::from(to)).unwrap_or("")
}

fn name(function: u16) -> &'static str {
    PLACES
        .get(usize::from(function))
        .map_or("", |[name, roles]| part(*name, *roles))
}

/// What a function returns, and what its arguments are.
#[inline]
pub fn roles(function: u16) -> &'static [u8] {
    let function = usize::from(function);
    match (PLACES.get(function), PLACES.get(function.wrapping_add(1))) {
        (Some([_, roles]), Some([next, _])) => part(*roles, *next).as_bytes(),
        _ => &[],
    }
}

/// The number of the function of this name.
pub fn find(symbol: &[u8]) -> Option<u16> {
    let wanted = symbol.strip_prefix(b"ucp_")?;
    let mut numbers = 0..COUNT as u16;
    numbers.find(|function| name(*function).as_bytes() == wanted)
}

/// The name of a function, with its NUL.
pub fn symbol(function: u16, to: &mut [u8; NAME_BYTES]) {
    let bytes = b"ucp_".iter().chain(name(function).as_bytes());
    // The last byte stays 0.
    for (to, from) in to.iter_mut().take(NAME_BYTES - 1).zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        for name in ["ucp_put_nbx", "ucp_get", "ucp_worker_wait_mem"] {
            let number = find(name.as_bytes()).expect(name);
            let mut back = [0; NAME_BYTES];
            symbol(number, &mut back);
            assert_eq!(back.split(|byte| *byte == 0).next(), Some(name.as_bytes()));
        }
        assert_eq!(find(b"ucp_request_free"), None);
        assert_eq!(find(b"uct_ep_put"), None);
    }

    #[test]
    fn roles_have_a_letter_for_each_argument() {
        let of = |name: &[u8]| roles(find(name).unwrap_or(u16::MAX));
        assert_eq!(of(b"ucp_tag_recv_nbx"), b"p.bng.x");
        for function in 0..COUNT as u16 {
            let roles = roles(function);
            assert!(b"pivn".contains(&roles[0]), "{}", name(function));
            let known = b"ebntxlhg48.";
            assert!(
                roles[1..].iter().all(|role| known.contains(role)),
                "{}",
                name(function)
            );
        }
    }
}
