//! Observes the connections of a command that the kernel refuses, and names their destinations.
//!
//! The step that starts the command confines itself by a filter of system calls with a listener
//! (seccomp user notification), gives the listener to the recorder, and executes the command. From
//! then on each call of the command and its descendants that binds or connects a socket, sends to an
//! address or makes a socket other than for TCP waits until a thread of the recorder has read its address and
//! [answered](calls).

mod calls;
mod flows;
mod names;
mod program;
mod stand_ins;

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use runtime::programs::{Observation, confine_observed};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use seccomp_notify::Listener;

use calls::Calls;

/// Maximum calls answered after the end of the command.
const MAX_LATE: usize = 10_000;
/// Maximum bytes of a reason.
const MAX_REASON: usize = 512;
/// Says that a message was received, or that it has a listener.
const TAKEN: &[u8] = b"+";

/// The refused connections of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Their destinations.
    pub names: BTreeSet<String>,
    /// Why some may be missing.
    pub problem: Option<String>,
}

/// Waits for the listener of a command that is not yet started.
pub(crate) struct Entrance {
    socket: UnixListener,
    name: String,
}

impl Entrance {
    /// Opens it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open() -> io::Result<Self> {
        // A path below a long temporary folder could exceed the limit of such an address.
        let name = format!("runwright-{}", uuid::Uuid::new_v4());
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(Self { socket, name })
    }

    /// Its name, for [`confine_under`].
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Observes the process that was started with the name. The proxy listens on the port.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn observe(self, process: u32, port: u16) -> io::Result<Observer> {
        let (stopped, stop) = io::pipe()?;
        let thread = thread::Builder::new().name("observer".to_owned());
        let thread = thread.spawn(move || {
            let listener = match self.receive(process, &stopped) {
                Ok(Some(listener)) => listener,
                Ok(None) => return Refused::default(),
                Err(why) => {
                    return Refused {
                        problem: Some(why.to_string()),
                        ..Refused::default()
                    };
                }
            };
            follow(&listener, port, &stopped)
        })?;
        Ok(Observer { stop, thread })
    }

    /// The listener; `None` if the process ended before it had one.
    fn receive(self, process: u32, stopped: &PipeReader) -> io::Result<Option<Listener>> {
        loop {
            let [came, is_stopped] = wait([self.socket.as_fd(), stopped.as_fd()])?;
            if came.is_empty() && !is_stopped.is_empty() {
                return Ok(None);
            }
            let (mut stream, _) = self.socket.accept()?;
            // Every process of this machine could connect.
            let peer = sockopt::socket_peercred(&stream)?.pid.as_raw_nonzero();
            if peer.get().cast_unsigned() != process {
                continue;
            }
            let (text, listener) = receive_from(&stream)?;
            if text.is_empty() {
                return Ok(None);
            }
            // It executes the command after this.
            stream.write_all(TAKEN)?;
            return match listener {
                Some(listener) => Ok(Some(listener)),
                None => Err(io::Error::other(
                    String::from_utf8_lossy(&text).into_owned(),
                )),
            };
        }
    }
}

/// Observes a command until it is dropped or [finished](Self::finish).
pub(crate) struct Observer {
    /// Its end stops the thread.
    stop: PipeWriter,
    thread: JoinHandle<Refused>,
}

impl Observer {
    /// Ends the observation, after the command. Blocks.
    pub(crate) fn finish(self) -> Refused {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Refused {
            problem: Some("the observation of its connections failed".to_owned()),
            ..Refused::default()
        })
    }
}

/// Answers every call until the processes of the command have ended, or the observation is stopped.
fn follow(listener: &Listener, port: u16, stopped: &PipeReader) -> Refused {
    let mut calls = match Calls::new(listener, port) {
        Ok(calls) => calls,
        Err(error) => return failed(BTreeSet::new(), &error),
    };
    let mut late = 0;
    loop {
        let [came, is_stopped] = {
            let files = [listener.as_fd(), stopped.as_fd()].into_iter();
            match wait_for(files.chain(calls.files())) {
                Ok(events) => [events[0], events[1]],
                Err(error) => return failed(calls.refused(), &error),
            }
        };
        calls.take_datagrams();
        if came.contains(PollFlags::IN) && late < MAX_LATE {
            if let Err(error) = calls.answer_next() {
                return failed(calls.refused(), &error);
            }
            late += usize::from(!is_stopped.is_empty());
        } else if !came.is_empty() || !is_stopped.is_empty() {
            let names = calls.refused();
            return Refused {
                names,
                problem: None,
            };
        }
    }
}

fn failed(names: BTreeSet<String>, error: &io::Error) -> Refused {
    Refused {
        names,
        problem: Some(format!(
            "the observation of its connections failed: {error}"
        )),
    }
}

fn wait<const N: usize>(files: [BorrowedFd<'_>; N]) -> io::Result<[PollFlags; N]> {
    let events = wait_for(files.into_iter())?;
    Ok(std::array::from_fn(|nth| events[nth]))
}

/// Waits for an event of one of the files; returns those of each.
fn wait_for<'a>(files: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Vec<PollFlags>> {
    let mut waiting: Vec<PollFd<'_>> = files
        .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
        .collect();
    loop {
        match poll(&mut waiting, None) {
            Ok(_) => return Ok(waiting.iter().map(PollFd::revents).collect()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn receive_from(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<Listener>)> {
    let mut text = [0; MAX_REASON];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut text)];
    let got = recvmsg(stream, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut listener = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            for file in files {
                listener = Some(Listener::from(file));
            }
        }
    }
    Ok((text[..got.bytes].to_vec(), listener))
}

/// Confines this process to connections to a port, and gives the listener of its calls to the
/// recorder that opened the entrance of this name.
///
/// # Errors
/// If it could not be confined, or the recorder is gone: nothing may be executed then.
pub(crate) fn confine_under(name: &str, port: u16) -> io::Result<()> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    let (give, given) = channel();
    // The filter is that of one thread: this other one can still send.
    let sending = thread::Builder::new().spawn(move || match given.recv() {
        Ok(observation) => hand_over(stream, observation),
        Err(_) => Ok(()),
    })?;
    let observation = confine_observed(port)?;
    give.send(observation).map_err(io::Error::other)?;
    let sent = sending.join();
    sent.map_err(|_| io::Error::other("the recorder could not be reached"))?
}

fn hand_over(mut stream: UnixStream, observation: Observation) -> io::Result<()> {
    match observation {
        Observation::By(listener) => {
            let files = [listener.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
            let pieces = [io::IoSlice::new(TAKEN)];
            sendmsg(&stream, &pieces, &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Observation::Missing(why) => {
            let why = match why.kind() {
                io::ErrorKind::ResourceBusy => format!("another program observes it: {why}"),
                _ => why.to_string(),
            };
            stream.write_all(why.as_bytes())?;
        }
    }
    stream.read_exact(&mut [0])
}
