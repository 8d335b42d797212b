//! Datagrams to the sampler.

use std::ffi::c_int;

use crate::sys::calls;
use crate::sys::{address, checked, close};

/// Sends one datagram, with a descriptor if there is one, to a socket in the abstract namespace.
///
/// Waits a bounded time when the receiver's queue is full.
///
/// # Errors
/// The kernel's error number.
pub fn send(name: &[u8], datagram: &[u8], fd: Option<c_int>) -> Result<(), i32> {
    let socket = datagrams()?;
    let wait = libc::timeval {
        tv_sec: 2,
        tv_usec: 0,
    };
    let (level, option) = (libc::SOL_SOCKET as u64, libc::SO_SNDTIMEO as u64);
    let bytes = size_of::<libc::timeval>() as u64;
    // SAFETY: a time with its size.
    unsafe {
        calls::setsockopt(
            socket as u64,
            level,
            option,
            address(&raw const wait),
            bytes,
        )
    };
    let (mut target, address_bytes) = address_of(name);
    let part = libc::iovec {
        iov_base: datagram.as_ptr().cast_mut().cast(),
        iov_len: datagram.len(),
    };
    // A cmsghdr, one descriptor, and padding: 24 bytes.
    let control: [u64; 3] = [
        20,
        (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32,
        u64::from(fd.unwrap_or_default() as u32),
    ];
    // SAFETY: zero is a valid value of every field.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut target).cast();
    message.msg_namelen = address_bytes;
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    if fd.is_some() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = size_of_val(&control) as _;
    }
    let sent = loop {
        let flags = libc::MSG_NOSIGNAL as u64;
        // SAFETY: all that the message refers to lives across the call.
        let result = unsafe { calls::sendmsg(socket as u64, address(&raw const message), flags) };
        if result != -i64::from(libc::EINTR) {
            break checked(result);
        }
    };
    close(socket);
    sent.map(|_| ())
}

/// Whether nothing receives at a socket in the abstract namespace. Sends nothing.
pub fn is_closed(name: &[u8]) -> bool {
    let Ok(socket) = datagrams() else {
        return false;
    };
    let (target, bytes) = address_of(name);
    // SAFETY: an address with its size.
    let result =
        unsafe { calls::connect(socket as u64, address(&raw const target), u64::from(bytes)) };
    close(socket);
    result == -i64::from(libc::ECONNREFUSED)
}

fn datagrams() -> Result<c_int, i32> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: numbers.
    let made = unsafe { calls::socket(libc::AF_UNIX as u64, kind as u64, 0) };
    Ok(checked(made)? as c_int)
}

/// The address of a socket in the abstract namespace, and its size.
fn address_of(name: &[u8]) -> (libc::sockaddr_un, u32) {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().skip(1).zip(name) {
        *to = *from as libc::c_char;
    }
    (address, 2 + 1 + name.len().min(107) as u32)
}
