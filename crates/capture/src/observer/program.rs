//! A stopped call, and what its program has in its memory and files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use seccomp_notify::{Listener, Notification};

use super::names::Destination;

/// Maximum bytes read of an address.
const MAX_ADDRESS: u64 = 128;
/// Maximum bytes read of a datagram.
pub(super) const MAX_CONTENT: usize = 512;
/// Maximum messages read of one call.
const MAX_MESSAGES: u64 = 64;
/// The size of a `msghdr`.
const MESSAGE: u64 = 56;
/// The size of a `mmsghdr`, which begins with a `msghdr`.
const MESSAGE_OF_MANY: u64 = 64;

/// The place and the length of bytes in the memory of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub at: u64,
    pub length: u64,
}

/// A message that a call sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub address: Place,
    /// The first piece of its content.
    pub content: Place,
}

/// The file of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// A socket with this number.
    Socket(u64),
    /// Another file, or none.
    Other,
    /// This process may not see it.
    Hidden,
}

/// A stopped call.
pub(super) struct Stopped<'a> {
    listener: &'a Listener,
    call: Notification,
}

impl<'a> Stopped<'a> {
    pub(super) fn new(listener: &'a Listener, call: Notification) -> Self {
        Self { listener, call }
    }

    /// The number of the call.
    pub(super) fn number(&self) -> i64 {
        self.call.call
    }

    pub(super) fn arguments(&self) -> [u64; 6] {
        self.call.arguments
    }

    /// The file of the first argument.
    pub(super) fn opened(&self) -> Opened {
        let descriptor = self.call.arguments[0] as i32;
        let Ok(link) = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.call.thread)) else {
            return Opened::Hidden;
        };
        let link = link.to_string_lossy();
        let number = link.strip_prefix("socket:[");
        let number = number.and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        number.map_or(Opened::Other, Opened::Socket)
    }

    /// The destination at a place.
    pub(super) fn destination(&self, address: Place) -> Destination {
        // The kernel takes the length as a number of 32 bits.
        let length = (address.length & u64::from(u32::MAX)).min(MAX_ADDRESS);
        let bytes = self.read(address.at, length).unwrap_or_default();
        Destination::parse(&bytes)
    }

    /// The start of the content of a message.
    pub(super) fn content(&self, message: Message) -> Vec<u8> {
        let Place { at, length } = message.content;
        self.read(at, length.min(MAX_CONTENT as u64))
            .unwrap_or_default()
    }

    /// The `msghdr` at a place.
    pub(super) fn message(&self, at: u64) -> Option<Message> {
        let head = self.read(at, MESSAGE)?;
        let length = head.get(8..)?.first_chunk().copied();
        let address = Place {
            at: word(&head, 0)?,
            length: u32::from_ne_bytes(length?).into(),
        };
        let has_pieces = word(&head, 24)? > 0;
        let first = has_pieces.then(|| self.read(word(&head, 16)?, 16));
        let first = first.flatten().unwrap_or_else(|| vec![0; 16]);
        let content = Place {
            at: word(&first, 0)?,
            length: word(&first, 8)?,
        };
        Some(Message { address, content })
    }

    /// Several `mmsghdr` at a place.
    pub(super) fn messages(&self, at: u64, count: u64) -> Option<Vec<Message>> {
        let places = (0..count.min(MAX_MESSAGES)).map(|nth| at.checked_add(nth * MESSAGE_OF_MANY));
        places.map(|place| self.message(place?)).collect()
    }

    /// Reads the memory of the program, as far as it goes.
    fn read(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let memory = File::open(format!("/proc/{}/mem", self.call.thread)).ok()?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        let mut filled = 0;
        while filled < bytes.len() {
            let from = at.checked_add(filled as u64)?;
            match memory.read_at(&mut bytes[filled..], from) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        bytes.truncate(filled);
        self.listener.is_waiting(self.call.id).then_some(bytes)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}
