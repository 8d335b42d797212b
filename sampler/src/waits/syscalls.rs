//! What a system call waits for, in words: `nanosleep`, `read(pipe)`, `futex(FUTEX_WAIT)`,
//! `ioctl(/dev/kfd WAIT_EVENTS)`.

use syscalls::Sysno;

use super::image::Image;
use super::thread::Call;

/// What the first argument of a call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// It is a descriptor.
    Descriptor,
    /// It points to `pollfd`s; the second argument is their number.
    Poll,
    /// The second argument is an operation of futex(2).
    Futex,
    /// It is a descriptor, and the second argument is a request of ioctl(2).
    Ioctl,
}

/// Calls whose arguments say what they wait for.
const CALLS: &[(Sysno, About)] = &[
    (Sysno::read, About::Descriptor),
    (Sysno::write, About::Descriptor),
    (Sysno::readv, About::Descriptor),
    (Sysno::writev, About::Descriptor),
    (Sysno::pread64, About::Descriptor),
    (Sysno::pwrite64, About::Descriptor),
    (Sysno::preadv, About::Descriptor),
    (Sysno::pwritev, About::Descriptor),
    (Sysno::preadv2, About::Descriptor),
    (Sysno::pwritev2, About::Descriptor),
    (Sysno::close, About::Descriptor),
    (Sysno::fsync, About::Descriptor),
    (Sysno::fdatasync, About::Descriptor),
    (Sysno::syncfs, About::Descriptor),
    (Sysno::sync_file_range, About::Descriptor),
    (Sysno::fallocate, About::Descriptor),
    (Sysno::ftruncate, About::Descriptor),
    (Sysno::flock, About::Descriptor),
    (Sysno::fcntl, About::Descriptor),
    (Sysno::sendfile, About::Descriptor),
    (Sysno::splice, About::Descriptor),
    (Sysno::tee, About::Descriptor),
    (Sysno::vmsplice, About::Descriptor),
    (Sysno::copy_file_range, About::Descriptor),
    (Sysno::getdents64, About::Descriptor),
    (Sysno::fstat, About::Descriptor),
    (Sysno::ioctl, About::Ioctl),
    (Sysno::ppoll, About::Poll),
    (Sysno::futex, About::Futex),
    (Sysno::accept, About::Descriptor),
    (Sysno::accept4, About::Descriptor),
    (Sysno::connect, About::Descriptor),
    (Sysno::recvfrom, About::Descriptor),
    (Sysno::recvmsg, About::Descriptor),
    (Sysno::recvmmsg, About::Descriptor),
    (Sysno::sendto, About::Descriptor),
    (Sysno::sendmsg, About::Descriptor),
    (Sysno::sendmmsg, About::Descriptor),
    (Sysno::shutdown, About::Descriptor),
    (Sysno::poll, About::Poll),
];

/// Operations of futex(2) that wait.
const FUTEX_WAITS: &[(u64, &str)] = &[
    (0, "FUTEX_WAIT"),
    (6, "FUTEX_LOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (11, "FUTEX_WAIT_REQUEUE_PI"),
    (13, "FUTEX_LOCK_PI2"),
];

/// `FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME`.
const FUTEX_FLAGS: u64 = 128 | 256;

/// Requests of the GPU's compute driver (linux/kfd_ioctl.h): the number in the lowest byte, of type
/// `K`.
const KFD_REQUESTS: &[(u64, &str)] = &[
    (0x02, "CREATE_QUEUE"),
    (0x03, "DESTROY_QUEUE"),
    (0x07, "UPDATE_QUEUE"),
    (0x08, "CREATE_EVENT"),
    (0x0c, "WAIT_EVENTS"),
    (0x16, "ALLOC_MEMORY_OF_GPU"),
    (0x17, "FREE_MEMORY_OF_GPU"),
    (0x18, "MAP_MEMORY_TO_GPU"),
    (0x19, "UNMAP_MEMORY_FROM_GPU"),
    (0x20, "SVM"),
];

/// Requests of its graphics driver that wait (drm/drm.h, drm/amdgpu_drm.h), of type `d`.
const DRM_REQUESTS: &[(u64, &str)] = &[
    (0x44, "AMDGPU_CS"),
    (0x47, "AMDGPU_GEM_WAIT_IDLE"),
    (0x49, "AMDGPU_WAIT_CS"),
    (0x52, "AMDGPU_WAIT_FENCES"),
    (0xc3, "SYNCOBJ_WAIT"),
    (0xca, "SYNCOBJ_TIMELINE_WAIT"),
];

/// Longest name of a file that is shown.
const NAME_CHARS_MAX: usize = 48;

/// What a thread waits for that is in no system call, by its state in `/proc/PID/task/TID/stat`
/// (proc(5)).
pub fn label_outside_calls(stat: &str) -> &'static str {
    // The name in parentheses may hold anything.
    match stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
    {
        Some('T' | 't') => "[stopped]",
        // It may have gone on by now; faults that a program serves itself (userfaultfd(2)) can be interrupted.
        Some(_) => "[page fault]",
        None => "[no system call]",
    }
}

/// What a thread waits for that is blocked in a system call.
pub fn label(call: &Call, host_pid: u32, image: &Image) -> String {
    let known = usize::try_from(call.number).ok().and_then(Sysno::new);
    let Some(known) = known else {
        return format!("syscall {}", call.number);
    };
    let name = known.name();
    let about = CALLS.iter().find(|(number, _)| *number == known);
    let Some(&(_, about)) = about else {
        return name.to_owned();
    };
    let [first, second, ..] = call.arguments;
    let what = match about {
        About::Descriptor => descriptor(host_pid, first),
        About::Poll => polled(host_pid, first, second, image),
        About::Futex => {
            let operation = second & !FUTEX_FLAGS;
            FUTEX_WAITS
                .iter()
                .find(|(number, _)| *number == operation)
                .map(|(_, name)| (*name).to_owned())
        }
        About::Ioctl => descriptor(host_pid, first).map(|file| with_request(file, second)),
    };
    match what {
        Some(what) => format!("{name}({what})"),
        None => name.to_owned(),
    }
}

/// The address of the word that a call of futex(2) waits on.
pub fn awaited_word(call: &Call) -> Option<u64> {
    let [word, operation, ..] = call.arguments;
    let operation = operation & !FUTEX_FLAGS;
    let waits = FUTEX_WAITS.iter().any(|(number, _)| *number == operation);
    (call.number == libc::SYS_futex && waits).then_some(word)
}

/// What a descriptor of a process is.
fn descriptor(host_pid: u32, number: u64) -> Option<String> {
    // Descriptors are ints; the upper half of the register may hold anything.
    let link = std::fs::read_link(format!("/proc/{host_pid}/fd/{}", number as u32)).ok()?;
    Some(kind(&link.to_string_lossy()))
}

/// What a link in `/proc/PID/fd` stands for: sockets and pipes by what they are, devices by their
/// path, other files by their name.
fn kind(link: &str) -> String {
    if let Some(name) = link.strip_prefix("anon_inode:") {
        return name.trim_matches(['[', ']']).to_owned();
    }
    if link.starts_with("/dev/") && !link.starts_with("/dev/shm/") {
        return link.to_owned();
    }
    if !link.starts_with('/') {
        return link.split(':').next().unwrap_or(link).to_owned();
    }
    let name = link.rsplit('/').next().unwrap_or(link);
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// What poll(2) looks at: the one descriptor, or their number.
fn polled(host_pid: u32, address: u64, count: u64, image: &Image) -> Option<String> {
    match count {
        0 => None,
        1 => {
            let mut number = [0; 4];
            let length = image.read(address, &mut number);
            (length == number.len())
                .then(|| descriptor(host_pid, u64::from(u32::from_le_bytes(number))))
                .flatten()
        }
        _ => Some(format!("{count} descriptors")),
    }
}

fn with_request(file: String, request: u64) -> String {
    let table = match (file.as_str(), request >> 8 & 0xff) {
        ("/dev/kfd", 0x4b) => KFD_REQUESTS,
        (path, 0x64) if path.starts_with("/dev/dri/") => DRM_REQUESTS,
        _ => return file,
    };
    match table.iter().find(|(number, _)| *number == request & 0xff) {
        Some((_, name)) => format!("{file} {name}"),
        None => format!("{file} request {:#x}", request & 0xff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn links_are_told_by_what_they_are() {
        for (link, expected) in [
            ("pipe:[1234]", "pipe"),
            ("socket:[99]", "socket"),
            ("anon_inode:[eventfd]", "eventfd"),
            ("anon_inode:inotify", "inotify"),
            ("/dev/kfd", "/dev/kfd"),
            ("/dev/pts/3", "/dev/pts/3"),
            ("/data/set/part-7.bin", "part-7.bin"),
            ("/dev/shm/psm_1", "psm_1"),
        ] {
            assert_eq!(kind(link), expected, "{link}");
        }
    }

    #[test]
    fn calls_have_names() {
        let (pipe, _writer) = nix::unistd::pipe().unwrap();
        let pid = std::process::id();
        let image = Image::new(pid).unwrap();
        let fd = pipe.as_raw_fd() as u64;
        // libc has a structure for it, whose first field is the descriptor.
        let polled = [pipe.as_raw_fd(), 1];
        let place = polled.as_ptr().addr() as u64;
        for (number, arguments, expected) in [
            (libc::SYS_nanosleep, [0, 0], "nanosleep"),
            (libc::SYS_read, [fd, 0], "read(pipe)"),
            (libc::SYS_read, [1 << 32 | fd, 0], "read(pipe)"),
            (libc::SYS_read, [987_654, 0], "read"),
            (libc::SYS_futex, [0, 128], "futex(FUTEX_WAIT)"),
            (
                libc::SYS_futex,
                [0, 9 | 128 | 256],
                "futex(FUTEX_WAIT_BITSET)",
            ),
            (libc::SYS_futex, [0, 1], "futex"),
            (libc::SYS_ppoll, [0, 0], "ppoll"),
            (libc::SYS_ppoll, [place, 1], "ppoll(pipe)"),
            (libc::SYS_ppoll, [place, 3], "ppoll(3 descriptors)"),
            (libc::SYS_ioctl, [fd, 0x4b0c], "ioctl(pipe)"),
            (libc::SYS_unlinkat, [0, 0], "unlinkat"),
            (99_999, [0, 0], "syscall 99999"),
        ] {
            let [first, second] = arguments;
            let call = Call {
                number,
                arguments: [first, second, 0, 0, 0, 0],
            };
            assert_eq!(label(&call, pid, &image), expected);
        }
    }

    #[test]
    fn outside_of_calls_the_state_decides() {
        for (stat, expected) in [
            ("7 (a) T) D 1 7", "[page fault]"),
            ("7 (a) T 1 7", "[stopped]"),
            ("7 (a) S 1 7", "[page fault]"),
            ("", "[no system call]"),
        ] {
            assert_eq!(label_outside_calls(stat), expected, "{stat}");
        }
    }

    #[test]
    fn waits_for_the_gpu_are_told_by_their_request() {
        for (file, request, expected) in [
            ("/dev/kfd", 0xc018_4b0c, "/dev/kfd WAIT_EVENTS"),
            ("/dev/kfd", 0xc018_4bfe, "/dev/kfd request 0xfe"),
            ("/dev/kfd", 0x5401, "/dev/kfd"),
            (
                "/dev/dri/renderD128",
                0xc020_6449,
                "/dev/dri/renderD128 AMDGPU_WAIT_CS",
            ),
            ("/dev/tty", 0x4b0c, "/dev/tty"),
        ] {
            assert_eq!(with_request(file.to_owned(), request), expected);
        }
    }
}
