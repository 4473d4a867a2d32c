//! Sockets that a program gets instead of those that the kernel would refuse.
//!
//! Their use shows the destination, and none of them reaches it: for datagrams a [socket for
//! TCP](super::flows), which Landlock restricts; for a Unix socket one end of a connected pair whose
//! other end is closed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::program::Opened;

/// Maximum remembered sockets; the oldest are forgotten first.
const MAX_STAND_INS: usize = 65_536;
/// The bits of a socket's type without its flags.
const TYPE: i32 = 0xf;

/// A requested socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// For datagrams, of a family.
    Datagrams(AddressFamily),
    /// A Unix socket.
    Unix,
    /// For TCP over several paths, of a family.
    Multipath(AddressFamily),
    /// One that reaches the kernel only. The C library asks by one for the addresses of this machine.
    OfTheKernel,
    /// For packets of other protocols.
    Raw,
    /// Any other.
    Other,
}

impl Requested {
    /// From the arguments of `socket`.
    pub(super) fn from_arguments(family: i32, kind: i32, protocol: i32) -> Self {
        use libc::{SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM};
        match (family, kind & TYPE, protocol) {
            (libc::AF_UNIX, SOCK_STREAM | SOCK_DGRAM | SOCK_SEQPACKET, _) => Self::Unix,
            (libc::AF_INET, SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => {
                Self::Datagrams(AddressFamily::INET)
            }
            (libc::AF_INET6, SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => {
                Self::Datagrams(AddressFamily::INET6)
            }
            (libc::AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP) => {
                Self::Multipath(AddressFamily::INET)
            }
            (libc::AF_INET6, SOCK_STREAM, libc::IPPROTO_MPTCP) => {
                Self::Multipath(AddressFamily::INET6)
            }
            (libc::AF_NETLINK | libc::AF_ALG, ..) => Self::OfTheKernel,
            (libc::AF_PACKET, ..)
            | (libc::AF_INET | libc::AF_INET6, SOCK_RAW, _)
            | (libc::AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP)
            | (libc::AF_INET6, SOCK_DGRAM, libc::IPPROTO_ICMPV6) => Self::Raw,
            _ => Self::Other,
        }
    }
}

/// The kind of a socket that a program got instead of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn {
    /// A socket for datagrams, with its number.
    Datagrams(u64),
    /// A Unix socket.
    Unix,
}

/// The sockets, by their numbers.
#[derive(Default)]
pub(super) struct StandIns(BTreeMap<u64, StandIn>);

impl StandIns {
    pub(super) fn find(&self, opened: Opened) -> Option<StandIn> {
        match opened {
            Opened::Socket(number) => self.0.get(&number).copied(),
            Opened::Other | Opened::Hidden => None,
        }
    }

    /// Remembers a socket for datagrams.
    pub(super) fn remember_datagrams(&mut self, number: u64) {
        self.remember(number, StandIn::Datagrams(number));
    }

    /// Makes a Unix socket.
    pub(super) fn unix(&mut self) -> io::Result<OwnedFd> {
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        let (made, _closed) = socketpair(unix, stream, SocketFlags::CLOEXEC, None)?;
        self.remember(rustix::fs::fstat(&made)?.st_ino, StandIn::Unix);
        Ok(made)
    }

    fn remember(&mut self, number: u64, stand_in: StandIn) {
        self.0.insert(number, stand_in);
        if self.0.len() > MAX_STAND_INS {
            self.0.pop_first();
        }
    }
}

/// Gives a socket the flags that are part of its requested type.
pub(super) fn set_flags(socket: &OwnedFd, kind: i32) -> io::Result<()> {
    if kind & libc::SOCK_NONBLOCK != 0 {
        rustix::fs::fcntl_setfl(socket, OFlags::NONBLOCK)?;
    }
    Ok(())
}
