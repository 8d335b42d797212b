//! AQL packets, as in the HSA specification and ROCr's vendor extension.

/// Bytes of a packet.
pub const PACKET_BYTES: u64 = 64;

/// PM4's packet that executes commands elsewhere, with its length.
const INDIRECT_BUFFER: u32 = 0xc002_3f00;

/// Header of a slot that holds nothing.
pub const INVALID: u16 = 1;

/// A kernel to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// Work-items of a group, in each dimension.
    pub workgroup: [u16; 3],
    /// Work-items, in each dimension.
    pub grid: [u32; 3],
    /// Scratch memory of a work-item.
    pub private_bytes: u32,
    /// Address of the kernel's descriptor.
    pub kernel_object: u64,
    /// Address of its arguments.
    pub arguments: u64,
}

impl Dispatch {
    /// Work-items in all dimensions.
    pub fn items(&self) -> u64 {
        self.grid.iter().map(|size| u64::from(*size)).product()
    }

    /// Work-items of a group, in all dimensions.
    pub fn group_items(&self) -> u64 {
        self.workgroup.iter().map(|size| u64::from(*size)).product()
    }
}

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A kernel.
    Dispatch(Dispatch),
    /// To wait until all of these signals are zero.
    And([u64; 5]),
    /// To wait until one of these signals is zero.
    Or([u64; 5]),
    /// To wait for a signal's value.
    Value {
        /// The signal; none: nothing to wait for.
        signal: u64,
        /// What its value is compared with.
        value: i64,
        /// Bits of its value that count.
        mask: i64,
        /// How it is compared.
        condition: u32,
    },
    /// Commands for the command processor itself, PM4: cache maintenance, nothing to see, and performance counters.
    Commands {
        /// Where they are; 0: in the packet itself.
        address: u64,
        /// How many words.
        words: u32,
    },
    /// Something that a GPU cannot do.
    Unsupported(u8),
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Whether it waits for everything before it.
    pub barrier: bool,
    /// The signal to complete; zero: none.
    pub completion: u64,
    /// What to do.
    pub request: Request,
}

impl Packet {
    /// Reads a packet.
    pub fn parse(bytes: &[u8; PACKET_BYTES as usize]) -> Self {
        let u16_at = |offset| u16::from_le_bytes([bytes[offset], bytes[offset + 1]]);
        let u32_at = |offset| u32::from(u16_at(offset)) | u32::from(u16_at(offset + 2)) << 16;
        let u64_at = |offset| u64::from(u32_at(offset)) | u64::from(u32_at(offset + 4)) << 32;
        let signals = || std::array::from_fn(|index| u64_at(8 + 8 * index));
        let header = u16_at(0);
        let request = match (header as u8, bytes[2]) {
            (0, 1) if u32_at(4) == INDIRECT_BUFFER => Request::Commands {
                address: u64_at(8) & 0xffff_ffff_ffff,
                words: u32_at(16) & 0xf_ffff,
            },
            (0, 1) => Request::Commands {
                address: 0,
                words: 0,
            },
            (0, 2) => Request::Value {
                signal: u64_at(8),
                value: u64_at(16).cast_signed(),
                mask: u64_at(24).cast_signed(),
                condition: u32_at(32),
            },
            (2, _) => Request::Dispatch(Dispatch {
                workgroup: [u16_at(4), u16_at(6), u16_at(8)],
                grid: [u32_at(12), u32_at(16), u32_at(20)],
                private_bytes: u32_at(24),
                kernel_object: u64_at(32),
                arguments: u64_at(40),
            }),
            (3, _) => Request::And(signals()),
            (5, _) => Request::Or(signals()),
            (other, _) => Request::Unsupported(other),
        };
        Self {
            barrier: header & 0x100 != 0,
            completion: u64_at(56),
            request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_dispatch() {
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&[2, 1, 3, 0]);
        bytes[4..10].copy_from_slice(&[0, 1, 2, 0, 1, 0]);
        bytes[12] = 64;
        bytes[16] = 2;
        bytes[20] = 1;
        bytes[32..34].copy_from_slice(&[0x40, 0x12]);
        bytes[40] = 8;
        bytes[56] = 0x80;
        let packet = Packet::parse(&bytes);
        assert!(packet.barrier);
        assert_eq!(packet.completion, 0x80);
        let Request::Dispatch(dispatch) = packet.request else {
            panic!("{packet:?}");
        };
        assert_eq!(
            (dispatch.workgroup, dispatch.grid),
            ([256, 2, 1], [64, 2, 1])
        );
        assert_eq!((dispatch.kernel_object, dispatch.arguments), (0x1240, 8));
        assert_eq!((dispatch.items(), dispatch.group_items()), (128, 512));
    }

    #[test]
    fn reads_barriers() {
        let mut bytes = [0; 64];
        bytes[0] = 3;
        bytes[8] = 0x40;
        bytes[40] = 0x41;
        let packet = Packet::parse(&bytes);
        assert_eq!(packet.request, Request::And([0x40, 0, 0, 0, 0x41]));
        assert!(!packet.barrier);
        bytes[0] = 5;
        assert_eq!(
            Packet::parse(&bytes).request,
            Request::Or([0x40, 0, 0, 0, 0x41])
        );
        bytes[0] = 4;
        assert_eq!(Packet::parse(&bytes).request, Request::Unsupported(4));
        bytes[0] = 0;
        bytes[2] = 2;
        bytes[32] = 3;
        let Request::Value { condition, .. } = Packet::parse(&bytes).request else {
            panic!();
        };
        assert_eq!(condition, 3);
    }
}
