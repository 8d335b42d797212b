//! The functions of MPI: their names, and what their arguments are.
//!
//! A row has the name without `MPI_`, its *roles*, and `c` where there is a variant for large counts (`MPI_Send_c`). Of the roles, the first
//! letter says what the function does, and each of the others stands for one argument of the C function. All names are those of the
//! standards 1.0 to 5.0, but for conversions of handles and addresses (`MPI_Comm_c2f`, `MPI_Aint_add`), `MPI_Pcontrol`, which is variadic,
//! and the interface for tools (`MPI_T_*`).
//!
//! | first letter | the function |
//! |---|---|
//! | `s`, `r`, `x` | sends, receives, does both |
//! | `c` | is a collective operation that moves data, or a barrier |
//! | `n` | makes a communicator |
//! | `w` | completes requests |
//! | `p`, `g` | writes to, reads from the memory of another rank |
//! | `i`, `o` | writes to, reads from a file |
//! | `.` | anything else |
//!
//! | letter | the argument |
//! |---|---|
//! | `b`, `B` | buffer; that to receive into, where there are two |
//! | `n`, `N` | count; of what is received, where there are two |
//! | `m`, `M` | the same for each rank of the communicator |
//! | `v`, `V` | an array of counts, one for each rank |
//! | `t`, `T` | type; of what is received, where there are two |
//! | `w`, `W` | an array of types, one for each rank |
//! | `d`, `s`, `r` | rank of the receiver, of the sender, of the root |
//! | `g`, `G` | tag; of what is received, where there are two |
//! | `c` | communicator |
//! | `e` | color of those who stay together |
//! | `o`, `z` | where the new communicator is put, where the old one stands that goes away |
//! | `u` | where the type stands that goes away |
//! | `q`, `Q`, `k`, `h` | where a request is put or stands, an array of them, how many, a request itself |
//! | `l`, `i`, `K`, `I` | where is put whether it is done, which of the requests is, how many are, and which |
//! | `S` | where the status is put |
//! | `x`, `f` | window, file |
//! | `p`, `y` | reduction, type (neither is recorded) |
//! | `.` | anything else |

use crate::interpose::table::{FunctionTable, MOST_FUNCTIONS, NAME_BYTES, Reals};

/// Functions have four numbers each: this plus [`LARGE`], [`PROFILING`], both or neither.
pub(super) const VARIANTS: usize = 4;
/// The variant for large counts.
pub(super) const LARGE: usize = 1;
/// `PMPI_`.
pub(super) const PROFILING: usize = 2;

/// The rows: `with_functions!(then)` hands them to the macro `then`.
macro_rules! with_functions {
    ($then:ident) => {
        $then! {
    Abort ".c."; Accumulate "p.ntd..ypx" c; Add_error_class ".."; Add_error_code "..."; Add_error_string "...";
    Address "..."; Allgather "cbntBMTc" c; Allgather_init "cbntBMTc.q" c; Allgatherv "cbntBV.Tc" c;
    Allgatherv_init "cbntBV.Tc.q" c; Alloc_mem "...."; Allreduce "cbBntpc" c; Allreduce_init "cbBntpc.q" c;
    Alltoall "cbmtBMTc" c; Alltoall_init "cbmtBMTc.q" c; Alltoallv "cbv.tBV.Tc" c; Alltoallv_init "cbv.tBV.Tc.q" c;
    Alltoallw "cbv.wBV.Wc" c; Alltoallw_init "cbv.wBV.Wc.q" c; Attr_delete ".c."; Attr_get ".c..l"; Attr_put ".c..";
    Barrier "cc"; Barrier_init "cc.q"; Bcast "cbntrc" c; Bcast_init "cbntrc.q" c; Bsend "sbntdgc" c;
    Bsend_init "sbntdgcq" c; Buffer_attach "..." c; Buffer_detach "..." c; Buffer_flush "."; Buffer_iflush ".q";
    Cancel ".q"; Cart_coords ".c..."; Cart_create "nc....o"; Cart_get ".c...."; Cart_map ".c...."; Cart_rank ".c..";
    Cart_shift ".c...."; Cart_sub "nc.o"; Cartdim_get ".c."; Close_port ".."; Comm_accept "n..rco";
    Comm_attach_buffer ".c.." c; Comm_call_errhandler ".c."; Comm_compare "...."; Comm_connect "n..rco";
    Comm_create "nc.o"; Comm_create_errhandler "..."; Comm_create_from_group "n....o"; Comm_create_group "nc.go";
    Comm_create_keyval "....."; Comm_delete_attr ".c."; Comm_detach_buffer ".c.." c; Comm_disconnect ".z";
    Comm_dup "nco"; Comm_dup_with_info "nc.o"; Comm_flush_buffer ".c"; Comm_free ".z"; Comm_free_keyval "..";
    Comm_get_attr ".c..l"; Comm_get_errhandler ".c."; Comm_get_info ".c."; Comm_get_name ".c.."; Comm_get_parent "..";
    Comm_group ".c."; Comm_idup "ncoq"; Comm_idup_with_info "nc.oq"; Comm_iflush_buffer ".cq"; Comm_join "...";
    Comm_rank ".c."; Comm_remote_group ".c."; Comm_remote_size ".c."; Comm_set_attr ".c.."; Comm_set_errhandler ".c.";
    Comm_set_info ".c."; Comm_set_name ".c."; Comm_size ".c."; Comm_spawn "n....rco.";
    Comm_spawn_multiple "n.....rco."; Comm_split "nce.o"; Comm_split_type "nc...o"; Comm_test_inter ".c.";
    Compare_and_swap "....td.x"; Dims_create "...."; Dist_graph_create "nc.......o";
    Dist_graph_create_adjacent "nc........o"; Dist_graph_neighbors ".c......"; Dist_graph_neighbors_count ".c...";
    Errhandler_create "..."; Errhandler_free ".."; Errhandler_get ".c."; Errhandler_set ".c."; Error_class "...";
    Error_string "...."; Exscan "cbBntpc" c; Exscan_init "cbBntpc.q" c; Fetch_and_op "...td.px";
    File_call_errhandler ".f."; File_close ".."; File_create_errhandler "..."; File_delete "..."; File_get_amode ".f.";
    File_get_atomicity ".fl"; File_get_byte_offset ".f.."; File_get_errhandler ".f."; File_get_group ".f.";
    File_get_info ".f."; File_get_position ".f."; File_get_position_shared ".f."; File_get_size ".f.";
    File_get_type_extent ".f.." c; File_get_view ".f...."; File_iread "ofbntq" c; File_iread_all "ofbntq" c;
    File_iread_at "of.bntq" c; File_iread_at_all "of.bntq" c; File_iread_shared "ofbntq" c; File_iwrite "ifbntq" c;
    File_iwrite_all "ifbntq" c; File_iwrite_at "if.bntq" c; File_iwrite_at_all "if.bntq" c;
    File_iwrite_shared "ifbntq" c; File_open ".c...."; File_preallocate ".f."; File_read "ofbntS" c;
    File_read_all "ofbntS" c; File_read_all_begin "ofbnt" c; File_read_all_end "of.S"; File_read_at "of.bntS" c;
    File_read_at_all "of.bntS" c; File_read_at_all_begin "of.bnt" c; File_read_at_all_end "of.S";
    File_read_ordered "ofbntS" c; File_read_ordered_begin "ofbnt" c; File_read_ordered_end "of.S";
    File_read_shared "ofbntS" c; File_seek ".f.."; File_seek_shared ".f.."; File_set_atomicity ".f.";
    File_set_errhandler ".f."; File_set_info ".f."; File_set_size ".f."; File_set_view ".f.yy.."; File_sync ".f";
    File_write "ifbntS" c; File_write_all "ifbntS" c; File_write_all_begin "ifbnt" c; File_write_all_end "if.S";
    File_write_at "if.bntS" c; File_write_at_all "if.bntS" c; File_write_at_all_begin "if.bnt" c;
    File_write_at_all_end "if.S"; File_write_ordered "ifbntS" c; File_write_ordered_begin "ifbnt" c;
    File_write_ordered_end "if.S"; File_write_shared "ifbntS" c; Finalize "."; Finalized ".."; Free_mem "..";
    Gather "cbntBMTrc" c; Gather_init "cbntBMTrc.q" c; Gatherv "cbntBV.Trc" c; Gatherv_init "cbntBV.Trc.q" c;
    Get "g.ntd..yx" c; Get_accumulate "p.nt..yd..ypx" c; Get_address "..."; Get_count "...." c; Get_elements "...." c;
    Get_elements_x "...."; Get_hw_resource_info ".."; Get_library_version "..."; Get_processor_name "...";
    Get_version "..."; Graph_create "nc....o"; Graph_get ".c...."; Graph_map ".c...."; Graph_neighbors ".c...";
    Graph_neighbors_count ".c.."; Graphdims_get ".c.."; Grequest_complete ".h"; Grequest_start ".....q";
    Group_compare "...."; Group_difference "...."; Group_excl "....."; Group_free ".."; Group_from_session_pset "....";
    Group_incl "....."; Group_intersection "...."; Group_range_excl "....."; Group_range_incl ".....";
    Group_rank "..."; Group_size "..."; Group_translate_ranks "......"; Group_union "...."; Iallgather "cbntBMTcq" c;
    Iallgatherv "cbntBV.Tcq" c; Iallreduce "cbBntpcq" c; Ialltoall "cbmtBMTcq" c; Ialltoallv "cbv.tBV.Tcq" c;
    Ialltoallw "cbv.wBV.Wcq" c; Ibarrier "ccq"; Ibcast "cbntrcq" c; Ibsend "sbntdgcq" c; Iexscan "cbBntpcq" c;
    Igather "cbntBMTrcq" c; Igatherv "cbntBV.Trcq" c; Improbe ".sgcl.S"; Imrecv "rbnt.q" c;
    Ineighbor_allgather "cbntBNTcq" c; Ineighbor_allgatherv "cbntB..Tcq" c; Ineighbor_alltoall "cbntBNTcq" c;
    Ineighbor_alltoallv "cb..tB..Tcq" c; Ineighbor_alltoallw "cb...B...cq" c; Info_create ".."; Info_create_env "....";
    Info_delete "..."; Info_dup "..."; Info_free ".."; Info_get ".....l"; Info_get_nkeys "..."; Info_get_nthkey "....";
    Info_get_string ".....l"; Info_get_valuelen "....l"; Info_set "...."; Init "..."; Init_thread ".....";
    Initialized ".."; Intercomm_create "nc...go"; Intercomm_create_from_groups "n.......o"; Intercomm_merge "nc.o";
    Iprobe ".sgclS"; Irecv "rbntsgcq" c; Ireduce "cbBntprcq" c; Ireduce_scatter "cbBVtpcq" c;
    Ireduce_scatter_block "cbBNtpcq" c; Irsend "sbntdgcq" c; Is_thread_main ".."; Iscan "cbBntpcq" c;
    Iscatter "cbmtBNTrcq" c; Iscatterv "cbv.tBNTrcq" c; Isend "sbntdgcq" c; Isendrecv "xbntdgBNTsGcq" c;
    Isendrecv_replace "xbntdgsGcq" c; Issend "sbntdgcq" c; Keyval_create "....."; Keyval_free ".."; Lookup_name "....";
    Mprobe ".sgc.S"; Mrecv "rbnt.S" c; Neighbor_allgather "cbntBNTc" c; Neighbor_allgather_init "cbntBNTc.q" c;
    Neighbor_allgatherv "cbntB..Tc" c; Neighbor_allgatherv_init "cbntB..Tc.q" c; Neighbor_alltoall "cbntBNTc" c;
    Neighbor_alltoall_init "cbntBNTc.q" c; Neighbor_alltoallv "cb..tB..Tc" c; Neighbor_alltoallv_init "cb..tB..Tc.q" c;
    Neighbor_alltoallw "cb...B...c" c; Neighbor_alltoallw_init "cb...B...c.q" c; Op_commutative "...";
    Op_create "...." c; Op_free ".."; Open_port "..."; Pack ".......c" c; Pack_external "........" c;
    Pack_external_size "....." c; Pack_size "...c." c; Parrived ".h.l"; Pready "..h"; Pready_list "...h";
    Pready_range "...h"; Precv_init "rb.ntsgc.q"; Probe ".sgcS"; Psend_init "sb.ntdgc.q"; Publish_name "....";
    Put "p.ntd..yx" c; Query_thread ".."; Raccumulate "p.ntd..ypxq" c; Recv "rbntsgcS" c; Recv_init "rbntsgcq" c;
    Reduce "cbBntprc" c; Reduce_init "cbBntprc.q" c; Reduce_local "......" c; Reduce_scatter "cbBVtpc" c;
    Reduce_scatter_block "cbBNtpc" c; Reduce_scatter_block_init "cbBNtpc.q" c; Reduce_scatter_init "cbBVtpc.q" c;
    Register_datarep "......" c; Remove_error_class ".."; Remove_error_code ".."; Remove_error_string "..";
    Request_free ".q"; Request_get_status ".hlS"; Request_get_status_all ".kQl."; Request_get_status_any ".kQilS";
    Request_get_status_some ".kQKI."; Rget "g.ntd..yxq" c; Rget_accumulate "p.nt..yd..ypxq" c; Rput "p.ntd..yxq" c;
    Rsend "sbntdgc" c; Rsend_init "sbntdgcq" c; Scan "cbBntpc" c; Scan_init "cbBntpc.q" c; Scatter "cbmtBNTrc" c;
    Scatter_init "cbmtBNTrc.q" c; Scatterv "cbv.tBNTrc" c; Scatterv_init "cbv.tBNTrc.q" c; Send "sbntdgc" c;
    Send_init "sbntdgcq" c; Sendrecv "xbntdgBNTsGcS" c; Sendrecv_replace "xbntdgsGcS" c;
    Session_attach_buffer "...." c; Session_call_errhandler "..."; Session_create_errhandler "...";
    Session_detach_buffer "...." c; Session_finalize ".."; Session_flush_buffer ".."; Session_get_errhandler "...";
    Session_get_info "..."; Session_get_nth_pset "......"; Session_get_num_psets "...."; Session_get_pset_info "....";
    Session_iflush_buffer "..q"; Session_init "...."; Session_set_errhandler "..."; Ssend "sbntdgc" c;
    Ssend_init "sbntdgcq" c; Start ".q"; Startall ".kQ"; Status_get_error "..."; Status_get_source "...";
    Status_get_tag "..."; Status_set_cancelled "..."; Status_set_elements "...." c; Status_set_elements_x "....";
    Status_set_error "..."; Status_set_source "..."; Status_set_tag "..."; Test "wqlS"; Test_cancelled "...";
    Testall "wkQl."; Testany "wkQilS"; Testsome "wkQKI."; Topo_test ".c."; Type_commit ".."; Type_contiguous "...." c;
    Type_create_darray "..........." c; Type_create_f90_complex "...."; Type_create_f90_integer "...";
    Type_create_f90_real "...."; Type_create_hindexed "......" c; Type_create_hindexed_block "......" c;
    Type_create_hvector "......" c; Type_create_indexed_block "......" c; Type_create_keyval ".....";
    Type_create_resized "....." c; Type_create_struct "......" c; Type_create_subarray "........" c;
    Type_delete_attr "..."; Type_dup "..."; Type_extent "..."; Type_free ".u"; Type_free_keyval "..";
    Type_get_attr "....."; Type_get_contents "........" c; Type_get_envelope "......" c; Type_get_extent "...." c;
    Type_get_extent_x "...."; Type_get_name "...."; Type_get_true_extent "...." c; Type_get_true_extent_x "....";
    Type_get_value_index "...."; Type_hindexed "......"; Type_hvector "......"; Type_indexed "......" c; Type_lb "...";
    Type_match_size "...."; Type_set_attr "...."; Type_set_name "..."; Type_size "..." c; Type_size_x "...";
    Type_struct "......"; Type_ub "..."; Type_vector "......" c; Unpack ".......c" c; Unpack_external "........" c;
    Unpublish_name "...."; Wait "wqS"; Waitall "wkQ."; Waitany "wkQiS"; Waitsome "wkQKI."; Win_allocate "....c.." c;
    Win_allocate_shared "....c.." c; Win_attach ".x.."; Win_call_errhandler ".x."; Win_complete ".x";
    Win_create ".....c." c; Win_create_dynamic "..c."; Win_create_errhandler "..."; Win_create_keyval ".....";
    Win_delete_attr ".x."; Win_detach ".x."; Win_fence "..x"; Win_flush "..x"; Win_flush_all ".x";
    Win_flush_local "..x"; Win_flush_local_all ".x"; Win_free ".."; Win_free_keyval ".."; Win_get_attr ".x..l";
    Win_get_errhandler ".x."; Win_get_group ".x."; Win_get_info ".x."; Win_get_name ".x.."; Win_lock "....x";
    Win_lock_all "..x"; Win_post "...x"; Win_set_attr ".x.."; Win_set_errhandler ".x."; Win_set_info ".x.";
    Win_set_name ".x."; Win_shared_query ".x...." c; Win_start "...x"; Win_sync ".x"; Win_test ".xl"; Win_unlock "..x";
    Win_unlock_all ".x"; Win_wait ".x"; Wtick "."; Wtime ".";
        }
    };
}
pub(super) use with_functions;

macro_rules! names {
    ($($name:ident $roles:literal $($large:ident)?;)*) => {
        /// Functions in the order of their names.
        #[allow(non_camel_case_types, dead_code, reason = "named as the functions, and used by number")]
        #[derive(Debug, Clone, Copy)]
        #[repr(u16)]
        pub(super) enum Function { $($name,)* }

        /// Names and roles in one text, so that there is nothing to relocate.
        const TEXT: &str = concat!($(stringify!($name), $roles,)*);
        /// Where each name and its roles begin in the text.
        static PLACES: [[u16; 2]; COUNT + 1] = places(&[$((stringify!($name).len(), $roles.len()),)*]);
        /// Names, for what is computed when this is compiled.
        pub const NAMES: [&str; COUNT] = [$(stringify!($name),)*];
        /// How many functions there are.
        pub const COUNT: usize = [$($roles,)*].len();
    };
}

with_functions!(names);

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

const _: () = assert!(COUNT * VARIANTS <= MOST_FUNCTIONS && TEXT.len() < u16::MAX as usize);

unsafe extern "C" {
    fn rsys_mpi_stubs_1();
    fn rsys_mpi_stubs_2();
    fn rsys_mpi_stubs_3();
}

/// The first stub of a place without names.
fn later(place: usize) -> *const () {
    match place {
        1 => rsys_mpi_stubs_1 as *const (),
        2 => rsys_mpi_stubs_2 as *const (),
        _ => rsys_mpi_stubs_3 as *const (),
    }
}

static REALS: Reals = Reals::new();

/// All of them.
pub static TABLE: FunctionTable = FunctionTable {
    find: stub_number,
    name: symbol,
    later,
    reals: &REALS,
};

fn part(from: u16, to: u16) -> &'static str {
    TEXT.get(usize::from(from)..usize::from(to)).unwrap_or("")
}

/// The name of a function, without `MPI_`.
pub fn name(function: usize) -> &'static str {
    PLACES
        .get(function)
        .map_or("", |[name, roles]| part(*name, *roles))
}

/// What a function does, and what its arguments are.
#[inline]
pub fn roles(function: usize) -> &'static [u8] {
    match (PLACES.get(function), PLACES.get(function.wrapping_add(1))) {
        (Some([_, roles]), Some([next, _])) => part(*roles, *next).as_bytes(),
        _ => &[],
    }
}

/// The function of this name, without `MPI_`, in whatever case.
#[cfg(test)]
pub fn find(name: &[u8]) -> Option<usize> {
    (0..COUNT).find(|function| self::name(*function).as_bytes().eq_ignore_ascii_case(name))
}

/// Which function a stub of place 0 stands for, and whether its counts are large.
#[inline]
pub fn function(stub: u16) -> (usize, bool) {
    let stub = usize::from(stub);
    (stub / VARIANTS, stub & LARGE != 0)
}

/// The number of the stub of this name.
fn stub_number(symbol: &[u8]) -> Option<u16> {
    let (symbol, profiling) = match symbol.strip_prefix(b"P") {
        Some(rest) => (rest, PROFILING),
        None => (symbol, 0),
    };
    let plain = symbol.strip_prefix(b"MPI_")?;
    let exact = |plain: &[u8]| (0..COUNT).find(|function| name(*function).as_bytes() == plain);
    let (function, large) = match exact(plain) {
        Some(function) => (function, 0),
        None => (exact(plain.strip_suffix(b"_c")?)?, LARGE),
    };
    u16::try_from(function.wrapping_mul(VARIANTS) | large | profiling).ok()
}

/// Whether a name is that of a function of MPI.
pub fn is_known(symbol: &[u8]) -> bool {
    stub_number(symbol).is_some()
}

/// The name of the function of a stub.
fn symbol(stub: u16, to: &mut [u8; NAME_BYTES]) {
    let stub = usize::from(stub);
    let parts = [
        if stub & PROFILING != 0 {
            "PMPI_"
        } else {
            "MPI_"
        },
        name(stub / VARIANTS),
        if stub & LARGE != 0 { "_c" } else { "" },
    ];
    let bytes = parts.iter().flat_map(|part| part.bytes());
    // The last byte stays 0.
    let room = to.split_last_mut().map_or(&mut [][..], |(_, room)| room);
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        for name in [
            "MPI_Send",
            "PMPI_Allreduce_c",
            "MPI_Wtime",
            "MPI_Abort",
            "PMPI_Win_wait",
        ] {
            let stub = stub_number(name.as_bytes()).expect(name);
            let mut back = [0; NAME_BYTES];
            symbol(stub, &mut back);
            assert_eq!(back.split(|byte| *byte == 0).next(), Some(name.as_bytes()));
        }
        assert_eq!(stub_number(b"MPI_Comm_c2f"), None);
        assert_eq!(
            find(b"allREDUCE"),
            stub_number(b"MPI_Allreduce").map(|stub| function(stub).0)
        );
    }

    #[test]
    fn roles_have_a_letter_for_each_argument() {
        let roles = |name: &[u8]| roles(find(name).unwrap_or(usize::MAX));
        assert_eq!(roles(b"Send"), b"sbntdgc");
        assert_eq!(roles(b"Sendrecv"), b"xbntdgBNTsGcS");
        assert_eq!(roles(b"Wtime"), b".");
        for function in 0..COUNT {
            let roles = super::roles(function);
            let known = b"bBnNmMvVtTwWdsrgGceozuqQkhliKISxfpy.";
            assert!(b"srxcnwpgio.".contains(&roles[0]), "{}", name(function));
            assert!(
                roles[1..].iter().all(|role| known.contains(role)),
                "{}",
                name(function)
            );
        }
    }
}
