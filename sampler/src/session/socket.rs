//! The socket that agents announce themselves at.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr,
    UnixCredentials, bind, recvmsg, sendto, setsockopt, shutdown, socket, sockopt,
};
use rsys_wire::handshake::{Hello, PATH_BYTES};

use crate::os;

/// Room for datagrams that wait, in bytes; the number that may wait is the kernel's choice.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The most descriptors that one message can carry.
const DESCRIPTORS_MAX: usize = 253;

/// A datagram with what came beside it.
#[derive(Debug)]
pub struct Datagram {
    /// Its bytes; one more than a [`Hello`] with a path has, if it is longer.
    pub bytes: Vec<u8>,
    /// The descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// Who sent it, as the kernel says.
    pub sender: Option<UnixCredentials>,
}

/// The bound socket.
#[derive(Debug)]
pub struct SessionSocket {
    socket: OwnedFd,
    /// What we send ourselves comes from here.
    own_sender: OwnedFd,
    name: String,
}

impl SessionSocket {
    /// Makes a socket with a name that nobody can guess.
    ///
    /// # Errors
    /// When the system has no socket or no random numbers for us.
    pub fn bind() -> io::Result<Self> {
        let name = format!("rsys-{:032x}", os::random()?);
        let flags = SockFlag::SOCK_CLOEXEC;
        let make = || socket(AddressFamily::Unix, SockType::Datagram, flags, None);
        let (socket, own_sender) = (make()?, make()?);
        setsockopt(&socket, sockopt::PassCred, &true)?;
        // The limit of the system may be lower; the receiver is quick anyway.
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES).ok();
        bind(
            socket.as_raw_fd(),
            &UnixAddr::new_abstract(name.as_bytes())?,
        )?;
        Ok(Self {
            socket,
            own_sender,
            name,
        })
    }

    /// The name, for the environment of the target.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next datagram.
    ///
    /// # Errors
    /// What the system says; after [`SessionSocket::stop`] it returns empty datagrams at once.
    pub fn receive(&self) -> Result<Datagram, Errno> {
        let mut bytes = vec![0; Hello::BYTES + PATH_BYTES + 1];
        let mut control = cmsg_space!(UnixCredentials, [i32; DESCRIPTORS_MAX]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg::<UnixAddr>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        let length = message.bytes;
        let mut descriptors = Vec::new();
        let mut sender = None;
        for one in message.cmsgs()? {
            match one {
                ControlMessageOwned::ScmRights(received) => {
                    // SAFETY: the kernel just installed these descriptors for us alone.
                    descriptors.extend(
                        received
                            .into_iter()
                            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                    );
                }
                ControlMessageOwned::ScmCredentials(credentials) => sender = Some(credentials),
                _ => {}
            }
        }
        bytes.truncate(length);
        Ok(Datagram {
            bytes,
            descriptors,
            sender,
        })
    }

    /// Sends ourselves bytes, behind all that waits.
    ///
    /// # Errors
    /// What the system says.
    pub fn send_to_ourselves(&self, bytes: &[u8]) -> io::Result<()> {
        let address = UnixAddr::new_abstract(self.name.as_bytes())?;
        let sender = self.own_sender.as_raw_fd();
        sendto(sender, bytes, &address, MsgFlags::empty())?;
        Ok(())
    }

    /// Makes a waiting [`SessionSocket::receive`] return.
    pub fn stop(&self) {
        // It can only fail for what is no socket.
        shutdown(self.socket.as_raw_fd(), Shutdown::Both).ok();
    }
}

impl AsFd for SessionSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
