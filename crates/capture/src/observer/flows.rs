//! Sockets for datagrams, and whether a program sends through them.
//!
//! In place of a UDP socket a program gets one for TCP, connected to the recorder. If it sends to an
//! address, the call shows that. If it connects the socket and sends, the bytes arrive here.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};

use super::names::Destination;
use super::program::MAX_CONTENT;

/// Maximum sockets at a time.
const MAX_FLOWS: usize = 256;

/// The sockets of a command.
pub(super) struct Flows {
    listener: TcpListener,
    open: Vec<Flow>,
}

struct Flow {
    /// The number of the program's socket.
    number: u64,
    stream: TcpStream,
    /// Where the program connected it to.
    destination: Option<Destination>,
}

impl Flows {
    pub(super) fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let open = Vec::new();
        Ok(Self { listener, open })
    }

    /// The files to wait for.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|flow| flow.stream.as_fd())
    }

    /// Makes a socket for a program, with its number. The third is the name of a destination whose
    /// socket had to be given up for it.
    pub(super) fn begin(
        &mut self,
        family: AddressFamily,
    ) -> io::Result<(OwnedFd, u64, Option<String>)> {
        let (socket, stream) = self.connected(family)?;
        let number = rustix::fs::fstat(&socket)?.st_ino;
        self.open.push(Flow {
            number,
            stream,
            destination: None,
        });
        let oldest = (self.open.len() > MAX_FLOWS).then(|| self.open.remove(0));
        let dropped = oldest.and_then(|flow| Some(flow.destination?.datagram(&[])));
        Ok((socket, number, dropped))
    }

    fn connected(&self, family: AddressFamily) -> io::Result<(OwnedFd, TcpStream)> {
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let here = self.listener.local_addr()?;
        if family == AddressFamily::INET6 {
            let address = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
            connect(&socket, &SocketAddrV6::new(address, here.port(), 0, 0))?;
        } else {
            connect(&socket, &here)?;
        }
        let own = SocketAddr::try_from(getsockname(&socket)?)?;
        loop {
            let (stream, peer) = self.listener.accept()?;
            // Any process of this machine could have connected.
            if peer.port() == own.port() {
                stream.set_nonblocking(true)?;
                return Ok((socket, stream));
            }
        }
    }

    /// Notes where a program connects a socket to. Returns whether it is still observed.
    pub(super) fn aim(&mut self, number: u64, destination: Option<Destination>) -> bool {
        let mut all = self.open.iter_mut();
        let found = all.find(|flow| flow.number == number);
        found.is_some_and(|flow| {
            flow.destination = destination;
            true
        })
    }

    /// Takes what came, and returns the names of its destinations. A connected socket through which
    /// nothing came reached for nothing: the C library connects some only to sort addresses.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut content = [0; MAX_CONTENT];
        let mut names = Vec::new();
        self.open.retain_mut(|flow| {
            match (flow.stream.read(&mut content), &flow.destination) {
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => return true,
                (Ok(length @ 1..), Some(to)) => names.push(to.datagram(&content[..length])),
                _ => {}
            }
            // A reset: the program does not wait for an answer.
            let at_once = Some(Duration::ZERO);
            let _ = rustix::net::sockopt::set_socket_linger(&flow.stream, at_once);
            false
        });
        names
    }
}
