//! Packets of the copy engines (SDMA 4.x and later), as ROCr writes them.

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyRequest {
    /// Nothing.
    Nothing,
    /// To copy bytes.
    Linear {
        /// From this address.
        from: u64,
        /// To this address.
        to: u64,
        /// So many.
        bytes: u64,
    },
    /// To copy a box.
    Rect(Rect),
    /// To fill with a repeated value of 1, 2 or 4 bytes.
    Fill {
        /// From this address on.
        to: u64,
        /// The value.
        value: [u8; 4],
        /// Bytes of the value.
        value_bytes: usize,
        /// So many bytes.
        bytes: u64,
    },
    /// To store what follows the packet's header.
    Write {
        /// At this address.
        to: u64,
        /// 32-bit words.
        words: usize,
    },
    /// To store a 32-bit value.
    Fence {
        /// At this address.
        to: u64,
        /// The value.
        value: u32,
    },
    /// To raise an event.
    Trap {
        /// Which.
        event_id: u32,
    },
    /// To wait for a value in memory.
    Poll {
        /// At this address.
        address: u64,
        /// What it is compared with.
        value: u32,
        /// Bits that count.
        mask: u32,
        /// How it is compared.
        function: u8,
    },
    /// To add to a 64-bit value.
    Add {
        /// At this address.
        to: u64,
        /// How much.
        value: u64,
    },
    /// To store the clock's ticks.
    Timestamp {
        /// At this address.
        to: u64,
    },
    /// Something else.
    Unknown(u32),
}

/// A box in two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Source.
    pub from: Corner,
    /// Target.
    pub to: Corner,
    /// Elements in each dimension.
    pub size: [u64; 3],
}

/// One corner of a box, in a larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corner {
    /// First byte of the larger one.
    pub base: u64,
    /// Offset in elements, rows and slices.
    pub offset: [u64; 3],
    /// Elements from row to row.
    pub pitch: u64,
    /// Elements from slice to slice.
    pub slice: u64,
}

impl Corner {
    /// Address of an element of the box.
    pub fn address(&self, element_bytes: u64, [x, y, z]: [u64; 3]) -> u64 {
        let [left, top, front] = self.offset;
        self.base + element_bytes * (left + x + (top + y) * self.pitch + (front + z) * self.slice)
    }
}

/// How many 32-bit words a packet has that starts with this one. A write tells it in its fourth word.
pub fn words_of(first: u32, fourth: u32) -> Option<usize> {
    Some(match (first as u8, (first >> 8) as u8) {
        (0, _) => 1 + (first >> 16 & 0x3fff) as usize,
        (1, 0) => 7,
        (1, 4) => 13,
        (2, _) => 5 + (fourth & 0xf_ffff) as usize,
        (5, _) => 4,
        (6, _) => 2,
        (8, _) => 6,
        (10, _) => 8,
        (11 | 17, _) => 5,
        (13, 2) => 3,
        _ => return None,
    })
}

impl CopyRequest {
    /// Reads a packet; `words` are as many as [`words_of`] says.
    pub fn parse(words: &[u32]) -> Self {
        let wide = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let first = words[0];
        match (first as u8, (first >> 8) as u8) {
            (0 | 17, _) => Self::Nothing,
            (1, 0) => Self::Linear {
                bytes: u64::from(words[1] & 0x3fff_ffff) + 1,
                from: wide(3),
                to: wide(5),
            },
            (1, 4) => Self::Rect(Rect {
                element_bytes: 1 << (first >> 29),
                from: corner(words, 1),
                to: corner(words, 6),
                size: [
                    u64::from(words[11] & 0x3fff) + 1,
                    u64::from(words[11] >> 16 & 0x3fff) + 1,
                    u64::from(words[12] & 0x1fff) + 1,
                ],
            }),
            (2, _) => Self::Write {
                to: wide(1),
                words: words.len() - 4,
            },
            (5, _) => Self::Fence {
                to: wide(1),
                value: words[3],
            },
            (6, _) => Self::Trap {
                event_id: words[1] & 0x0fff_ffff,
            },
            // Bit 31: memory; else a register of the host path, at once.
            (8, _) if first >> 31 == 0 => Self::Nothing,
            (8, _) => Self::Poll {
                address: wide(1),
                value: words[3],
                mask: words[4],
                function: (first >> 28 & 7) as u8,
            },
            (10, _) if first >> 25 == 47 => Self::Add {
                to: wide(1),
                value: wide(3),
            },
            (11, _) => Self::Fill {
                to: wide(1),
                value: words[3].to_le_bytes(),
                value_bytes: 1 << (first >> 30).min(2),
                bytes: u64::from(words[4] & 0x3fff_ffff) + 1,
            },
            (13, 2) => Self::Timestamp { to: wide(1) },
            _ => Self::Unknown(first),
        }
    }
}

fn corner(words: &[u32], at: usize) -> Corner {
    Corner {
        base: u64::from(words[at]) | u64::from(words[at + 1]) << 32,
        offset: [
            u64::from(words[at + 2] & 0x3fff),
            u64::from(words[at + 2] >> 16 & 0x3fff),
            u64::from(words[at + 3] & 0x1fff),
        ],
        pitch: u64::from(words[at + 3] >> 13) + 1,
        slice: u64::from(words[at + 4] & 0x0fff_ffff) + 1,
    }
}

/// Whether a value is what a poll waits for.
pub fn compares(function: u8, seen: u32, value: u32) -> bool {
    match function {
        1 => seen < value,
        2 => seen <= value,
        3 => seen == value,
        4 => seen != value,
        5 => seen >= value,
        6 => seen > value,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_linear_copy() {
        let words = [1, 0xfff, 0, 0x1000, 2, 0x2000, 3];
        assert_eq!(words_of(words[0], words[3]), Some(7));
        assert_eq!(
            CopyRequest::parse(&words),
            CopyRequest::Linear {
                from: 0x2_0000_1000,
                to: 0x3_0000_2000,
                bytes: 4096
            }
        );
    }

    #[test]
    fn reads_the_packets_around_a_copy() {
        assert_eq!(words_of(0, 0), Some(1));
        assert_eq!(words_of(5 << 16, 0), Some(6));
        let poll = [8 | 1 << 31 | 3 << 28, 0x10, 0, 7, u32::MAX, 0];
        assert_eq!(
            CopyRequest::parse(&poll),
            CopyRequest::Poll {
                address: 0x10,
                value: 7,
                mask: u32::MAX,
                function: 3
            }
        );
        assert_eq!(
            CopyRequest::parse(&[8, 0, 0, 0, 0, 0]),
            CopyRequest::Nothing
        );
        let add = [10 | 47 << 25, 0x20, 0, u32::MAX, u32::MAX, 0, 0, 0];
        assert_eq!(
            CopyRequest::parse(&add),
            CopyRequest::Add {
                to: 0x20,
                value: u64::MAX
            }
        );
        assert_eq!(words_of(2, 9), Some(14));
        assert_eq!(words_of(99, 0), None);
    }

    #[test]
    fn finds_the_elements_of_a_box() {
        let corner = Corner {
            base: 1000,
            offset: [1, 2, 3],
            pitch: 10,
            slice: 100,
        };
        assert_eq!(corner.address(4, [0, 0, 0]), 1000 + 4 * 321);
        assert_eq!(corner.address(4, [1, 1, 1]), 1000 + 4 * 432);
    }

    #[test]
    fn compares_as_told() {
        let results = |seen| {
            (0..8)
                .map(|function| compares(function, seen, 5))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            results(4),
            [true, true, true, false, true, false, false, true]
        );
        assert_eq!(
            results(5),
            [true, false, true, true, false, true, false, true]
        );
    }
}
