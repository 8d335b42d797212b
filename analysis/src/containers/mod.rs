//! Collections that stay small, whatever is put in.

pub mod id_map;
pub mod packed_rows;
pub mod quantiles;
pub mod sets;
