//! Answers to the observed calls of a command.
//!
//! The kernel is what refuses: a program has only sockets that connect to the proxy or to nothing
//! ([stand-ins](super::stand_ins)). So no answer, and no memory that a program changes after it was
//! read, lets a connection through.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use seccomp_notify::{Answer, Listener};

use super::flows::Flows;
use super::names::{Destination, UNKNOWN};
use super::program::{Message, Opened, Place, Stopped};
use super::stand_ins::{Requested, StandIn, StandIns, set_flags};
use crate::elsewhere::tell;

/// The second interface of x86-64 has the same calls with this bit.
const X32: i64 = 0x4000_0000;

/// Answers calls and collects the names of refused destinations.
pub(super) struct Calls<'a> {
    listener: &'a Listener,
    /// The port of the proxy.
    port: u16,
    stand_ins: StandIns,
    flows: Flows,
    refused: BTreeSet<String>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(listener: &'a Listener, port: u16) -> io::Result<Self> {
        Ok(Self {
            listener,
            port,
            stand_ins: StandIns::default(),
            flows: Flows::new()?,
            refused: BTreeSet::new(),
        })
    }

    /// The files to wait for, apart from the listener.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.flows.files()
    }

    /// Takes the datagrams that came.
    pub(super) fn take_datagrams(&mut self) {
        for name in self.flows.take() {
            self.refuse(&name);
        }
    }

    /// The names of refused destinations.
    pub(super) fn refused(mut self) -> BTreeSet<String> {
        self.take_datagrams();
        self.refused
    }

    /// Receives the next call and answers it.
    pub(super) fn answer_next(&mut self) -> io::Result<()> {
        let Some(call) = self.listener.receive()? else {
            return Ok(());
        };
        let answer = self.answer(&Stopped::new(self.listener, call));
        let answered = self.listener.answer(call.id, &answer);
        answered.or_else(|error| {
            // The program has no room for a descriptor.
            let number = error.raw_os_error().unwrap_or(libc::EPERM);
            self.listener.answer(call.id, &Answer::Error(number))
        })
    }

    fn refuse(&mut self, name: &str) {
        tell(&mut self.refused, name);
    }

    fn answer(&mut self, call: &Stopped<'_>) -> Answer {
        let [first, second, third, fourth, fifth, sixth] = call.arguments();
        match call.number() & !X32 {
            libc::SYS_socket => self.socket(first as i32, second as i32, third as i32),
            libc::SYS_socketpair => {
                self.refuse("a pair of datagram sockets");
                Answer::Error(libc::EPERM)
            }
            libc::SYS_bind => self.bind(call),
            libc::SYS_connect => self.connect(
                call,
                Place {
                    at: second,
                    length: third,
                },
            ),
            libc::SYS_sendto => {
                let address = Place {
                    at: fifth,
                    length: sixth,
                };
                let content = Place {
                    at: second,
                    length: third,
                };
                self.send(call, fourth, || Some(vec![Message { address, content }]))
            }
            libc::SYS_sendmsg => self.send(call, third, || Some(vec![call.message(second)?])),
            libc::SYS_sendmmsg => self.send(call, fourth, || call.messages(second, third)),
            // The filter reports no other call.
            _ => Answer::Error(libc::ENOSYS),
        }
    }

    /// Answers a call that would make a socket other than for TCP. It depends on registers alone, and
    /// the kernel never makes such a socket.
    fn socket(&mut self, family: i32, kind: i32, protocol: i32) -> Answer {
        let made = match Requested::from_arguments(family, kind, protocol) {
            Requested::Datagrams(family) => self.datagrams(family),
            Requested::Unix => self.stand_ins.unix(),
            // One path, as with a server that knows only TCP. Its connections are answered as others.
            Requested::Multipath(family) => {
                socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                    .map_err(io::Error::from)
            }
            Requested::OfTheKernel => return Answer::Error(libc::EPERM),
            Requested::Raw => {
                self.refuse("raw socket");
                return Answer::Error(libc::EPERM);
            }
            Requested::Other => {
                self.refuse(&format!("socket of family {family}, protocol {protocol}"));
                return Answer::Error(libc::EPERM);
            }
        };
        match made.and_then(|made| set_flags(&made, kind).map(|()| made)) {
            Ok(file) => Answer::Descriptor {
                file,
                close_on_exec: kind & libc::SOCK_CLOEXEC != 0,
            },
            Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EPERM)),
        }
    }

    fn datagrams(&mut self, family: AddressFamily) -> io::Result<OwnedFd> {
        let (socket, number, dropped) = self.flows.begin(family)?;
        self.stand_ins.remember_datagrams(number);
        if let Some(name) = dropped {
            self.refuse(&name);
        }
        Ok(socket)
    }

    /// Only sockets for TCP are bound. A stand-in has an address already, or would leave a file.
    fn bind(&self, call: &Stopped<'_>) -> Answer {
        match self.stand_ins.find(call.opened()) {
            Some(StandIn::Datagrams(_)) => Answer::Value(0),
            Some(StandIn::Unix) => Answer::Error(libc::EACCES),
            None => Answer::Continue,
        }
    }

    fn connect(&mut self, call: &Stopped<'_>, address: Place) -> Answer {
        let opened = call.opened();
        if opened == Opened::Other {
            return Answer::Continue;
        }
        let destination = call.destination(address);
        match (self.stand_ins.find(opened), &destination) {
            (Some(StandIn::Unix), _) => self.refuse_unix(&destination),
            (Some(StandIn::Datagrams(number)), _) => self.connect_datagrams(number, destination),
            (None, Destination::Unspecified) => Answer::Continue,
            (None, Destination::Internet(address)) => self.connect_tcp(*address),
            // No socket for TCP takes such an address.
            (None, Destination::Unix(_)) => Answer::Continue,
            (None, Destination::Other) => {
                self.refuse(UNKNOWN);
                Answer::Continue
            }
        }
    }

    /// Landlock refuses every other port.
    fn connect_tcp(&mut self, address: SocketAddr) -> Answer {
        if address == SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)) {
            return Answer::Continue;
        }
        self.refuse(&address.to_string());
        if address.port() == self.port {
            return Answer::Error(libc::EACCES);
        }
        Answer::Continue
    }

    fn connect_datagrams(&mut self, number: u64, destination: Destination) -> Answer {
        let is_observed = match &destination {
            Destination::Internet(_) => self.flows.aim(number, Some(destination.clone())),
            Destination::Unspecified => {
                self.flows.aim(number, None);
                return Answer::Value(0);
            }
            Destination::Unix(_) | Destination::Other => false,
        };
        if is_observed {
            return Answer::Value(0);
        }
        self.refuse(&destination.datagram(&[]));
        Answer::Error(libc::ENETUNREACH)
    }

    fn refuse_unix(&mut self, destination: &Destination) -> Answer {
        match destination.unix() {
            Some(name) => {
                self.refuse(&name);
                Answer::Error(libc::EACCES)
            }
            // As where the service does not run.
            None => Answer::Error(libc::ENOENT),
        }
    }

    /// Answers a call that sends messages.
    fn send(
        &mut self,
        call: &Stopped<'_>,
        flags: u64,
        messages: impl FnOnce() -> Option<Vec<Message>>,
    ) -> Answer {
        // Data in the first packet would connect without Landlock.
        let is_fast = flags & libc::MSG_FASTOPEN as u64 != 0;
        let stand_in = self.stand_ins.find(call.opened());
        if stand_in.is_none() && !is_fast {
            return Answer::Continue;
        }
        let Some(messages) = messages() else {
            self.refuse(UNKNOWN);
            return Answer::Error(libc::EPERM);
        };
        let mut answer = if is_fast {
            Answer::Error(libc::EPERM)
        } else {
            Answer::Continue
        };
        for message in messages {
            if message.address.at == 0 {
                continue;
            }
            let destination = call.destination(message.address);
            answer = match stand_in {
                Some(StandIn::Unix) => self.refuse_unix(&destination),
                Some(StandIn::Datagrams(_)) => {
                    self.refuse(&destination.datagram(&call.content(message)));
                    Answer::Error(libc::EPERM)
                }
                None => {
                    self.refuse(&destination.tcp());
                    Answer::Error(libc::EPERM)
                }
            };
        }
        answer
    }
}
