//! The log of a stream that is not a run: the state it folds to, and the batches that extend it.
//!
//! An [`Aggregate`] holds the rules of one kind of stream. Reading, folding, the hash chain,
//! checkpoints and building a batch are the same for all of them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, IndexRow, KeyClaim, Message, Record};
use crate::digest::Digest;
use crate::ids::{MessageId, Seq, StreamId};
use crate::json;
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// An event as most streams store it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<B> {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub body: B,
}

impl<B> Event<B> {
    /// The event that follows in a log.
    pub(crate) fn next<S>(log: &Log<S>, at: Timestamp, body: B) -> Self {
        let seq = log.next_seq;
        Self { seq, at, body }
    }
}

/// The rules of one kind of stream.
pub trait Aggregate: Clone {
    /// An event as it is stored.
    type Event: Serialize + DeserializeOwned;
    /// An event without its place and time.
    type Body;

    /// The state before the first event.
    fn at_start() -> Self;

    /// The event that follows in a log.
    fn event(log: &Log<Self>, at: Timestamp, body: Self::Body) -> Self::Event;

    /// The place and time of an event.
    fn place(event: &Self::Event) -> (Seq, Timestamp);

    /// Whether an event with the right place and time may follow.
    fn accepts(log: &Log<Self>, event: &Self::Event) -> bool;

    /// Folds an event. `content` holds its stored bytes.
    fn fold(&mut self, header: &StreamHeader, event: &Self::Event, content: &[u8]);

    /// The index row of a log.
    fn index(log: &Log<Self>) -> IndexRow;

    /// The bytes to store for an event. It may move large parts out of the event.
    fn content(event: &mut Self::Event) -> Vec<u8> {
        json::canonical(event)
    }
}

/// An aggregate whose state goes into checkpoints.
pub trait Checkpointed: Aggregate + Serialize + DeserializeOwned {
    /// Increased whenever a checkpoint of an earlier build would be misread.
    const VERSION: u32;
}

/// An aggregate whose state is known from the last record and the index row alone.
pub trait Resumable: Aggregate {
    /// The state after the last event of a log.
    fn after(event: Self::Event, content: &[u8], index: &IndexRow) -> Self;
}

/// A log: its header, its end, and the state it folds to.
#[derive(Clone, Debug)]
pub struct Log<S> {
    pub(crate) header: StreamHeader,
    pub(crate) next_seq: Seq,
    pub(crate) chain: Digest,
    /// The time of the last event.
    pub(crate) at: Timestamp,
    pub(crate) state: S,
}

impl<S: Aggregate> Log<S> {
    /// A log before its first event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            state: S::at_start(),
            header,
        }
    }

    /// Folds a stored event and returns it. `None` when it is not an event of this stream's format
    /// or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<S::Event> {
        let event: S::Event = json::from_slice(content).ok()?;
        let (seq, at) = S::place(&event);
        let is_next = seq == self.next_seq && at >= self.at;
        (is_next && S::accepts(self, &event)).then_some(())?;
        self.fold(&event, content);
        Some(event)
    }

    fn fold(&mut self, event: &S::Event, content: &[u8]) {
        self.state.fold(&self.header, event, content);
        self.next_seq += 1;
        self.at = S::place(event).1;
        self.chain = self.chain.chain(content);
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        S::index(self)
    }
}

impl<S> Log<S> {
    /// Its header.
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// How many events it has, which is the place of the next one.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The last link of the hash chain.
    pub fn chain(&self) -> Digest {
        self.chain
    }
}

impl<S: Checkpointed> Log<S> {
    /// The state as bytes, for a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        serde_json::to_vec(&(S::VERSION, self.at, &self.state)).expect("a state is always JSON")
    }

    /// A log at its checkpoint: after `next_seq` events, the last of which has this link of the
    /// hash chain. `None` when the bytes are not a state of this build: the log is then folded from
    /// its start.
    pub fn from_checkpoint(
        header: StreamHeader,
        next_seq: Seq,
        chain: Digest,
        state: &[u8],
    ) -> Option<Self> {
        let (version, at, state): (u32, _, _) = json::from_slice(state).ok()?;
        (version == S::VERSION).then_some(Self {
            header,
            next_seq,
            chain,
            at,
            state,
        })
    }
}

impl<S: Resumable> Log<S> {
    /// The fold of a log, from its last record and its index row alone. `None` where the record is
    /// not an event of this stream.
    pub fn at_end(header: StreamHeader, last: &Record, index: &IndexRow) -> Option<Self> {
        let event: S::Event = json::from_slice(&last.content).ok()?;
        let (seq, at) = S::place(&event);
        Some(Self {
            header,
            next_seq: seq + 1,
            chain: last.chain,
            at,
            state: S::after(event, &last.content, index),
        })
    }
}

/// A log of any kind of stream, for readers that fold all of them.
pub trait AnyLog: Send {
    /// Folds a stored event. `false` when it is not an event of the stream's format or place.
    fn accept(&mut self, content: &[u8]) -> bool;

    /// The index row of this state.
    fn index_row(&self) -> IndexRow;
}

impl<S: Aggregate + Send> AnyLog for Log<S> {
    fn accept(&mut self, content: &[u8]) -> bool {
        self.fold_content(content).is_some()
    }

    fn index_row(&self) -> IndexRow {
        self.index()
    }
}

/// A batch under construction. Every event is folded as it is emitted.
#[derive(Debug)]
pub(crate) struct Draft<S> {
    pub(crate) log: Log<S>,
    pub(crate) now: Timestamp,
    pub(crate) first_seq: Seq,
    pub(crate) records: Vec<Record>,
    pub(crate) keys: Vec<KeyClaim>,
    pub(crate) blobs: Vec<Digest>,
    outbox: Vec<Message>,
}

impl<S: Aggregate> Draft<S> {
    /// Time in a log never goes back, so `now` is at least the time of the last event.
    pub(crate) fn new(log: Log<S>, now: Timestamp) -> Self {
        Self {
            first_seq: log.next_seq,
            now: now.max(log.at),
            log,
            records: Vec::new(),
            keys: Vec::new(),
            blobs: Vec::new(),
            outbox: Vec::new(),
        }
    }

    pub(crate) fn emit(&mut self, body: S::Body) {
        let mut event = S::event(&self.log, self.now, body);
        let content = S::content(&mut event);
        self.log.fold(&event, &content);
        self.records.push(Record {
            content,
            chain: self.log.chain,
        });
    }

    /// Sends a message whose command contains its id.
    pub(crate) fn send(&mut self, target: StreamId, command: impl FnOnce(MessageId) -> Vec<u8>) {
        let (stream, place) = (&self.log.header.stream, self.outbox.len());
        let id = MessageId::new(format!("{stream}.{}.{place}", self.first_seq));
        self.outbox.push(Message {
            command: command(id.clone()),
            target,
            id,
        });
    }

    pub(crate) fn seal(self) -> (Batch, Log<S>) {
        let header = &self.log.header;
        let batch = Batch {
            stream: header.stream.clone(),
            tenant: header.tenant().clone(),
            header: (self.first_seq == 0).then(|| header.clone()),
            first_seq: self.first_seq,
            records: self.records,
            index: self.log.index(),
            timers: Vec::new(),
            keys: self.keys,
            outbox: self.outbox,
            blobs: self.blobs,
        };
        (batch, self.log)
    }
}
