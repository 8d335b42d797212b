//! Identifiers that stay distinct when traces of many processes are merged.

/// Bits of a track uuid that the process numbers itself.
const TRACK_BITS: u32 = 24;
/// Bits of a flow id that the process numbers itself.
const FLOW_BITS: u32 = 32;
/// The upper 16 bits of flow ids that traces of several processes share; those of one process have them by chance.
const SHARED_FLOW: u64 = 0xf10e;
/// Bits of such an id that say whose it is.
const SHARED_FLOW_BITS: u32 = 48;
/// Bits of a sequence id.
const SEQUENCE_BITS: u32 = 21;
/// Distance between the sequence ids of processes.
const SEQUENCES: u32 = 256;

/// The id of a flow that begins in one process and ends in another. Both make it of what they both know: a text and some numbers.
pub fn shared_flow(text: &[u8], numbers: &[u64]) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(text);
    for number in numbers {
        hash.bytes(&number.to_le_bytes());
    }
    let whose = hash.finish() & ((1 << SHARED_FLOW_BITS) - 1);
    SHARED_FLOW << SHARED_FLOW_BITS | whose
}

/// Whether a flow's id is one of [`shared_flow`], and stays what it is where traces are merged.
pub fn is_shared_flow(id: u64) -> bool {
    id >> SHARED_FLOW_BITS == SHARED_FLOW
}

/// The identifiers of one process instance: a hash of where and when it ran, and which program image.
///
/// Track uuids are 39 bits of hash over 24 local bits (bit 63 stays clear, which saves a byte wherever a uuid is written); flow ids are 32 bits of
/// hash over 32 local bits. Sequence ids are on every packet, so they are numbers of three bytes: which 256 they are is told by 13 bits of hash. Where
/// those of two processes meet, a merger gives them out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessNamespace {
    hash: u64,
}

impl ProcessNamespace {
    /// The namespace of process `pid` started at `start_time` (any fixed unit) on the boot `boot_id`, after `exec_count` calls of exec.
    pub fn new(boot_id: &str, pid: u32, start_time: u64, exec_count: u32) -> Self {
        let mut hash = Fnv::new();
        hash.bytes(boot_id.as_bytes());
        hash.bytes(&[0]);
        hash.bytes(&pid.to_le_bytes());
        hash.bytes(&start_time.to_le_bytes());
        hash.bytes(&exec_count.to_le_bytes());
        Self {
            hash: hash.finish(),
        }
    }

    /// The namespace of what belongs to a machine, as long as it is up, and to no process: its sensors. All traces that tell of one have the
    /// same id for it.
    pub fn machine(boot_id: &str) -> Self {
        Self::new(boot_id, 0, 0, 0)
    }

    /// The 64-bit hash that the identifiers are built from.
    pub fn hash(self) -> u64 {
        self.hash
    }

    /// The track uuid number `local` of this process; only the low 24 bits of `local` count.
    pub fn track(self, local: u32) -> u64 {
        let mask = (1 << TRACK_BITS) - 1;
        // A uuid of 0 would be the global track.
        let space = (self.hash & (u64::MAX >> 1) & !mask) | 1 << (TRACK_BITS + 7);
        space | (u64::from(local) & mask)
    }

    /// The uuid of a track that is known by its name. Seldom, two names have the same.
    pub fn named_track(self, name: &str) -> u64 {
        let mut hash = Fnv::new();
        hash.bytes(name.as_bytes());
        self.track(hash.finish() as u32)
    }

    /// Whether a track's uuid is one of this namespace.
    pub fn has_track(self, uuid: u64) -> bool {
        uuid >> TRACK_BITS == self.track(0) >> TRACK_BITS
    }

    /// The flow id number `local` of this process; only the low 32 bits of `local` count.
    pub fn flow(self, local: u64) -> u64 {
        let mask = (1 << FLOW_BITS) - 1;
        (self.hash & !mask) | (local & mask)
    }

    /// Where the sequence ids of this process begin: between 256 and 2^21, the most that three bytes hold.
    pub fn sequence_base(self) -> u32 {
        let slots = (1 << SEQUENCE_BITS) / SEQUENCES as u64;
        (1 + (self.hash >> 11) % (slots - 1)) as u32 * SEQUENCES
    }

    /// A trace uuid for the file of this process.
    pub fn trace_uuid(self) -> [u8; 16] {
        let mut second = Fnv::new();
        second.bytes(b"trace");
        second.bytes(&self.hash.to_le_bytes());
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.hash.to_be_bytes());
        uuid[8..].copy_from_slice(&second.finish().to_be_bytes());
        // Version 8 (vendor specific), variant 1.
        uuid[6] = 0x80 | (uuid[6] & 0x0F);
        uuid[8] = 0x80 | (uuid[8] & 0x3F);
        uuid
    }
}

/// What the uuid of one track tells of the identifiers of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KnownNamespace {
    tracks: u64,
}

impl KnownNamespace {
    /// The namespace of the track `uuid`; `None` for numbers too small to bear one.
    pub fn of_track(uuid: u64) -> Option<Self> {
        (uuid >> FLOW_BITS != 0).then_some(Self {
            tracks: uuid >> TRACK_BITS,
        })
    }

    /// Whether a track's uuid is one of this namespace.
    pub fn has_track(self, uuid: u64) -> bool {
        uuid >> TRACK_BITS == self.tracks
    }

    /// Whether a flow's id is one of this namespace.
    pub fn has_flow(self, id: u64) -> bool {
        (id & (u64::MAX >> 1)) >> FLOW_BITS == self.key()
    }

    /// The number of a flow within its process, as [`ProcessNamespace::flow`] took it; `None` for ids that are not of this namespace.
    pub fn local_flow(self, id: u64) -> Option<u64> {
        self.has_flow(id).then_some(id & ((1 << FLOW_BITS) - 1))
    }

    /// What tracks and flows have in common: when two namespaces have the same, their identifiers may meet.
    pub fn key(self) -> u64 {
        self.tracks >> (FLOW_BITS - TRACK_BITS) & (u64::from(u32::MAX) >> 1)
    }
}

/// FNV-1a with a final mix, because FNV alone leaves the upper bits of similar short keys alike.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn finish(self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        hash ^ (hash >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn shared_flows_are_made_of_what_both_ends_know() {
        let flow = shared_flow(b"5ca26389c62ed223", &[0, 1, 7, 42]);
        assert_eq!(flow, shared_flow(b"5ca26389c62ed223", &[0, 1, 7, 42]));
        assert!(is_shared_flow(flow));
        for other in [[1, 0, 7, 42], [0, 1, 8, 42], [0, 1, 7, 43]] {
            assert_ne!(flow, shared_flow(b"5ca26389c62ed223", &other));
        }
        assert!(!is_shared_flow(
            ProcessNamespace::new("boot", 1, 2, 0).flow(3)
        ));
    }

    #[test]
    fn processes_do_not_share_identifiers() {
        let mut tracks = HashSet::new();
        let mut flows = HashSet::new();
        for pid in 1..2_000 {
            for exec_count in 0..2 {
                let namespace = ProcessNamespace::new("b00t", pid, 77, exec_count);
                assert!(tracks.insert(namespace.track(1)));
                assert!(flows.insert(namespace.flow(1)));
                assert_ne!(namespace.track(0), 0);
                assert!(namespace.track(0xFF_FFFF) < 1 << 63);
            }
        }
    }

    #[test]
    fn what_is_of_the_machine_is_known_by_its_name() {
        let (one, other) = (
            ProcessNamespace::machine("b00t"),
            ProcessNamespace::machine("b01t"),
        );
        let power = one.named_track("GPU Power [0]");
        assert_eq!(
            power,
            ProcessNamespace::machine("b00t").named_track("GPU Power [0]")
        );
        assert_ne!(power, one.named_track("GPU Power [1]"));
        assert_ne!(power, other.named_track("GPU Power [0]"));
        assert!(one.has_track(power) && !other.has_track(power));
        assert!(!one.has_track(ProcessNamespace::new("b00t", 1, 0, 0).track(1)));
    }

    #[test]
    fn a_track_tells_the_namespace() {
        let (one, other) = (
            ProcessNamespace::new("b00t", 1, 2, 0),
            ProcessNamespace::new("b00t", 2, 2, 0),
        );
        let known = KnownNamespace::of_track(one.track(1)).unwrap();
        assert!(known.has_track(one.track(77)) && known.has_flow(one.flow(1 << 31)));
        assert!(!known.has_track(other.track(1)) && !known.has_flow(other.flow(1)));
        assert_eq!(
            known.local_flow(one.flow(4_000_000_007)),
            Some(4_000_000_007)
        );
        assert_eq!(known.local_flow(other.flow(7)), None);
        assert_eq!(KnownNamespace::of_track(13), None);
    }

    #[test]
    fn sequence_ids_begin_apart_and_have_three_bytes() {
        let bases: HashSet<u32> = (1..100)
            .map(|pid| ProcessNamespace::new("b00t", pid, 77, 0).sequence_base())
            .collect();
        assert!(bases.len() > 95, "{}", bases.len());
        assert!(bases.iter().all(|&base| (256..1 << 21).contains(&base)));
    }

    #[test]
    fn local_numbers_do_not_leave_their_bits() {
        let namespace = ProcessNamespace::new("", 1, 2, 3);
        assert_eq!(namespace.track(5) ^ namespace.track(6), 3);
        assert_eq!(namespace.track(1 << 24), namespace.track(0));
        assert_eq!(namespace.flow(1 << 32), namespace.flow(0));
    }
}
