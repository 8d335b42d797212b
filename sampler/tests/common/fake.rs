//! An agent without a sampler in it: it makes a segment, announces it, and writes what a test
//! wants.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, socket,
};
use rsys_wire::VERSION;
use rsys_wire::handshake::{ENV_SESSION, Hello, HelloKind, MAGIC};
use rsys_wire::layout::{Geometry, INFO_BYTES, InfoTag, Segment, push_info};
use rsys_wire::record::{self, Module};
use rsys_wire::ring::Producer;

/// The variable that tells the test program to play an agent.
pub const SCENARIO: &str = "RSYS_TEST_SCENARIO";

/// Where the module of the played program lies.
pub const MODULE_START: u64 = 0x10_0000;

/// A segment and its announcement.
pub struct FakeAgent {
    memory: OwnedFd,
    _mapping: MmapRaw,
    /// The segment.
    pub segment: Segment,
    /// What is announced.
    pub hello: Hello,
}

impl FakeAgent {
    /// A segment with so many rings of so many words.
    pub fn new(instance: u64, rings: u32, words: u32) -> Self {
        let geometry = Geometry::new(rings, words).expect("a sane geometry");
        let memory = memory(geometry.bytes() as u64, true);
        let file = File::from(memory.try_clone().expect("a descriptor"));
        let mapping = MmapOptions::new()
            .len(geometry.bytes())
            .map_raw(&file)
            .expect("a mapping");
        // SAFETY: the mapping is shared, page-aligned, of that size, sealed, and kept beside the view.
        let segment = unsafe { Segment::new(mapping.as_ptr(), geometry) };
        let mut info = [0; INFO_BYTES];
        let mut length = 0;
        let parent = std::os::unix::process::parent_id().to_string();
        let start = boot_time_ns().to_string();
        for (tag, value) in [
            (InfoTag::Executable, "/opt/played/program"),
            (InfoTag::CommandLine, "program\0--fast\0"),
            (InfoTag::ParentPid, parent.as_str()),
            (InfoTag::StartTime, start.as_str()),
            (InfoTag::Clock, "timer"),
            (InfoTag::TickNs, "4000000"),
        ] {
            length = push_info(&mut info, length, tag, value.as_bytes());
        }
        if let Ok(rank) = std::env::var("SLURM_PROCID") {
            let variable = format!("SLURM_PROCID={rank}");
            length = push_info(&mut info, length, InfoTag::Environment, variable.as_bytes());
        }
        // SAFETY: nobody else knows the mapping yet.
        unsafe { segment.initialise(0, instance, &info[..length]) };
        let hello = Hello {
            magic: MAGIC,
            version: VERSION,
            kind: HelloKind::Process as u32,
            instance,
            pid: std::process::id(),
            segment: 0,
            ring_count: rings,
            ring_words: words,
            segment_bytes: geometry.bytes() as u64,
        };
        Self {
            memory,
            _mapping: mapping,
            segment,
            hello,
        }
    }

    /// Sends the announcement to the sampler that started us.
    pub fn announce(&self) {
        send(&self.hello.to_bytes(), &[self.memory.as_raw_fd()]);
    }

    /// The writing end of a ring.
    pub fn ring(&self, index: u32) -> Producer<'_> {
        let header = self.segment.ring_header(index).expect("a ring");
        Producer::new(header, self.segment.ring_words(index).expect("a ring"))
            .expect("a power of two")
    }
}

/// A memory object, sealed or not.
pub fn memory(bytes: u64, sealed: bool) -> OwnedFd {
    // SAFETY: makes a new descriptor that nobody else has.
    let memory = unsafe {
        let fd = libc::memfd_create(
            c"rsys-test".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        );
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    };
    File::from(memory.try_clone().expect("a descriptor"))
        .set_len(bytes)
        .expect("memory");
    if sealed {
        // SAFETY: takes integers only.
        let sealed = unsafe {
            libc::fcntl(
                memory.as_raw_fd(),
                libc::F_ADD_SEALS,
                libc::F_SEAL_SHRINK | libc::F_SEAL_GROW,
            )
        };
        assert_eq!(sealed, 0);
    }
    memory
}

/// Sends bytes and descriptors to the sampler that started us.
pub fn send(bytes: &[u8], descriptors: &[i32]) {
    let session = std::env::var(ENV_SESSION).expect("a sampler started us");
    let socket = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .expect("a socket");
    let address = UnixAddr::new_abstract(session.as_bytes()).expect("a name");
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control: &[ControlMessage<'_>] = if descriptors.is_empty() { &[] } else { &rights };
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        control,
        MsgFlags::empty(),
        Some(&address),
    )
    .expect("sent");
}

/// CLOCK_BOOTTIME.
pub fn boot_time_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).expect("a clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Writes the module that all played stacks lie in.
pub fn put_module(ring: &Producer<'_>, time_ns: u64) {
    put_module_of(ring, time_ns, b"/opt/played/libwork.so");
}

/// The same with this path.
pub fn put_module_of(ring: &Producer<'_>, time_ns: u64, path: &[u8]) {
    let module = Module {
        time_ns,
        start: MODULE_START,
        end: MODULE_START + 0x10_0000,
        bias: MODULE_START,
        build_id: b"\x01\x02\x03",
        path,
    };
    assert!(record::put_module(ring, &module));
}

/// Writes a thread's start.
pub fn put_start(ring: &Producer<'_>, time_ns: u64, tid: u32, name: &str) {
    assert!(record::put_thread_start(
        ring,
        time_ns,
        tid,
        1,
        &padded(name),
        0
    ));
}

/// Writes a thread's end.
pub fn put_end(ring: &Producer<'_>, time_ns: u64, cpu_time_ns: u64, name: &str) {
    assert!(record::put_thread_end(
        ring,
        time_ns,
        cpu_time_ns,
        &padded(name)
    ));
}

fn padded(name: &str) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}

/// The word of a return address, so that it is shown as `libwork.so+0x…` with this offset.
pub fn at(offset: u64) -> u64 {
    MODULE_START + offset + 1
}
