//! What PyTorch's profiler says of memory (`profile_memory`), an instant for each time that its allocator gives some or takes it back.

use crate::model::MemoryEvent;
use crate::read::json::number;
use crate::read::json::syntax::{members, value};

/// `c10::DeviceType::CPU`; all others are of devices.
const CPU: i64 = 0;

/// Reads the arguments that begin at a place, which was read before.
pub(super) fn read(bytes: &[u8], at: usize) -> MemoryEvent {
    let mut event = MemoryEvent::default();
    let (mut kind, mut id) = (CPU, -1);
    let read = members(bytes, at, |key, at| {
        let (span, behind) = value(bytes, at)?;
        let told = number(span.of(bytes));
        let count = told.and_then(|told| u64::try_from(told).ok());
        match key {
            b"Bytes" => event.bytes = told.unwrap_or(0),
            // Addresses have all 64 bits.
            b"Addr" => event.address = told.map_or(0, i64::cast_unsigned),
            b"Device Type" => kind = told.unwrap_or(CPU),
            b"Device Id" => id = told.unwrap_or(-1),
            b"Total Allocated" => event.allocated = count,
            b"Total Reserved" => event.reserved = count,
            _ => {}
        }
        Ok(behind)
    });
    debug_assert!(read.is_ok());
    event.device = u32::try_from(id).ok().filter(|_| kind != CPU);
    event
}
