//! The arguments of a call, as the table says where they are.

use std::ffi::c_void;

use rsys_wire::event::Value;

use crate::signals::faults;
use crate::sources::gpu::hip::copies::{Direction, Said};
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hip::table::Form;
use crate::sources::gpu::hip_functions;

/// Of longer batches the sum is not made.
const LONGEST_BATCH: u64 = 1 << 16;
/// `hipMemcpy3DBatchOp`: its size, where it says what its two ends are, and its extent (headers of 7.2.4).
const BATCH_OP_BYTES: u64 = 112;
const BATCH_OP_ENDS: [u64; 2] = [0, 40];
const BATCH_OP_EXTENT: u64 = 80;
/// `hipMemcpyOperandTypeArray`.
const IS_ARRAY: u32 = 2;

/// Where arguments are.
#[derive(Debug, Clone, Copy)]
pub enum Arguments {
    /// In HIP's record of the call.
    Record(*const c_void),
    /// In memory that the program has passed a pointer to, good or not.
    Program(u64),
}

impl Arguments {
    fn u32(self, offset: u16) -> Option<u32> {
        match self {
            Arguments::Record(record) => {
                let place = record.wrapping_byte_add(usize::from(offset));
                // SAFETY: the table's offsets lie within the arguments of the call; so below.
                Some(unsafe { place.cast::<u32>().read() })
            }
            Arguments::Program(address) => faults::read_u32(address.wrapping_add(offset.into())),
        }
    }

    /// A number of 64 bits.
    pub fn u64(self, offset: u16) -> Option<u64> {
        match self {
            Arguments::Record(record) => {
                let place = record.wrapping_byte_add(usize::from(offset));
                // SAFETY: as above.
                Some(unsafe { place.cast::<u64>().read() })
            }
            Arguments::Program(address) => faults::read_u64(address.wrapping_add(offset.into())),
        }
    }

    fn size3(self, offset: u16) -> Option<[u32; 3]> {
        Some([
            self.u32(offset)?,
            self.u32(offset + 4)?,
            self.u32(offset + 8)?,
        ])
    }

    fn pointer(self, offset: u16) -> Option<*const c_void> {
        let address = self.u64(offset)?;
        Some(std::ptr::with_exposed_provenance(address as usize))
    }
}

/// An argument as the table says. `None` when there is nothing to say.
#[inline]
pub fn decode(arguments: Arguments, form: Form, said: &mut Said) -> Option<Value<'static>> {
    Some(match form {
        Form::Pointer(at) => Value::Pointer(arguments.u64(at)?),
        Form::U32(at) => Value::Uint(u64::from(arguments.u32(at)?)),
        Form::U64(at) => Value::Uint(arguments.u64(at)?),
        Form::Times(at, times) => Value::Uint(arguments.u64(at)?.wrapping_mul(times)),
        Form::Area(at, times) => {
            let area = arguments.u64(at)?.wrapping_mul(arguments.u64(at + 8)?);
            Value::Uint(area.wrapping_mul(times))
        }
        Form::Size3(at) => Value::Size3(arguments.size3(at)?),
        Form::Items3(at) => {
            let mut groups = arguments.size3(at)?;
            for (items, group) in groups.iter_mut().zip(arguments.size3(at + 12)?) {
                *items = items.div_ceil(group.max(1));
            }
            Value::Size3(groups)
        }
        Form::Kind(at) => return direction(Direction::from_kind(arguments.u32(at)?), said),
        Form::Means(means) => return direction(means, said),
        Form::Function(at) => {
            let stream = std::ptr::null();
            // SAFETY: the program launches this very function.
            let name_of = |function| unsafe {
                Some(hip_functions::kernel_by_pointer::get()?(function, stream))
            };
            // SAFETY: as above.
            kernel(unsafe { names::kernel(arguments.pointer(at)?, name_of) })?
        }
        Form::Handle(at) => {
            // SAFETY: the program launches this very kernel.
            let name_of = |handle| unsafe { Some(hip_functions::kernel_by_handle::get()?(handle)) };
            // SAFETY: as above.
            kernel(unsafe { names::kernel(arguments.pointer(at)?, name_of) })?
        }
        Form::DefaultStream => Value::Pointer(0),
        Form::In(at, form) => {
            let address = arguments.u64(at).filter(|address| *address != 0)?;
            return decode(Arguments::Program(address), *form, said);
        }
        Form::Box(at, arrays) => {
            let is_array = |at: &u16| arguments.u64(*at) != Some(0);
            if arrays.iter().any(is_array) {
                return None;
            }
            let rows = arguments.u64(at + 8)?.wrapping_mul(arguments.u64(at + 16)?);
            Value::Uint(arguments.u64(at)?.wrapping_mul(rows))
        }
        Form::Sum(list, count) => sum(arguments, list, count, 8, faults::read_u64)?,
        Form::Boxes(list, count) => sum(arguments, list, count, BATCH_OP_BYTES, bytes_of_op)?,
    })
}

/// The sum over a list that the program has passed: the places of its address and its length.
fn sum(
    arguments: Arguments,
    list: u16,
    count: u16,
    stride: u64,
    bytes_at: impl Fn(u64) -> Option<u64>,
) -> Option<Value<'static>> {
    let (list, count) = (arguments.u64(list)?, arguments.u64(count)?);
    if count > LONGEST_BATCH {
        return None;
    }
    let mut sum = 0_u64;
    for index in 0..count {
        sum = sum.wrapping_add(bytes_at(list.wrapping_add(index.wrapping_mul(stride)))?);
    }
    Some(Value::Uint(sum))
}

/// The bytes that one operation of a batch copies, unless an array is involved: then its extent counts elements.
fn bytes_of_op(op: u64) -> Option<u64> {
    for end in BATCH_OP_ENDS {
        if faults::read_u32(op.wrapping_add(end))? == IS_ARRAY {
            return None;
        }
    }
    let extent = op.wrapping_add(BATCH_OP_EXTENT);
    let rows = faults::read_u64(extent.wrapping_add(8))?
        .wrapping_mul(faults::read_u64(extent.wrapping_add(16))?);
    Some(faults::read_u64(extent)?.wrapping_mul(rows))
}

fn kernel(name: u64) -> Option<Value<'static>> {
    (name != 0).then_some(Value::Known(name))
}

fn direction(direction: Direction, said: &mut Said) -> Option<Value<'static>> {
    said.direction = direction;
    (direction != Direction::Unknown).then(|| Value::Known(names::key(direction.text())))
}
