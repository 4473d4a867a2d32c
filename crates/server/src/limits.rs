//! How much one server takes on.

use std::num::NonZeroU32;
use std::time::Duration;

use kernel::limits::{MAX_DOCUMENT_BYTES, MAX_VALUE_BYTES};

/// The bounds of a server. Every one can be met by anybody; what is refused is said so.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. A connection beyond is answered with 503 and closed.
    pub connections: usize,
    /// Streams of events at a time. One more is answered with 503.
    pub streams: usize,
    /// Requests a second of one principal; as many may come at once. `None` for any number.
    pub principal_rate: Option<NonZeroU32>,
    /// Requests a second of one tenant; as many may come at once. `None` for any number.
    pub tenant_rate: Option<NonZeroU32>,
    /// Runs in flight above which no run is created: those driven now, or, where they are more,
    /// the open streams. `None` for any number: what is beyond waits in the queue.
    pub in_flight: Option<usize>,
    /// How long runs are kept after their end, as upkeep has it; `None` for ever. It is told, and
    /// bounds nothing here.
    pub retain_finished: Option<Duration>,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of a workflow definition.
    pub definition_bytes: usize,
    /// Bytes of a workbench document or bundle, before and after decoding.
    pub document_bytes: usize,
    /// Bytes of workbench documents that are read at a time; at least those of one.
    pub reading_bytes: usize,
    /// Bytes of memory, about, of workbench documents that are worked on at a time.
    pub working_bytes: usize,
    /// How long a workbench document waits for memory before it is refused.
    pub memory_time: Duration,
    /// Bytes of a bundle of an execution snapshot: what it holds is at most half as much, before it
    /// is written as JSON.
    pub bundle_bytes: usize,
    /// Whether a save of a document that does not go on from the last one is refused.
    pub saves: Saves,
    /// Origins, such as `https://app.example.org`, whose pages may call this server beside its own.
    pub origins: Vec<String>,
    /// Host names it answers for beside those of the loopback and the address it is bound to.
    pub hosts: Vec<String>,
    /// Bytes of a request's line and headers together.
    pub head_bytes: usize,
    /// Bytes of a request's address.
    pub address_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a request's line and headers may take, and how long a connection may idle.
    pub head_time: Duration,
    /// How long a request's body may take.
    pub body_time: Duration,
    /// How long an answer may take to begin, long polls included.
    pub answer_time: Duration,
    /// An answer that takes as long to begin is slow, and the log says so; held ones are not.
    pub slow_answer: Duration,
    /// How long a peer may take nothing of what is written to it.
    pub stall_time: Duration,
    /// How often the credential of an open stream or a held poll is looked at again.
    pub recheck: Duration,
    /// How often a stream says that it is alive while it has nothing else to say.
    pub heartbeat: Duration,
    /// How long requests and runs may take to end when the server is told to.
    pub grace: Duration,
}

/// What becomes of a save of a document by somebody who did not know the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// It counts, and the one before is kept as a branch.
    LastWins,
    /// It is refused with 409.
    Continue,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8_192,
            streams: 4_096,
            principal_rate: None,
            tenant_rate: None,
            in_flight: None,
            retain_finished: None,
            body_bytes: MAX_VALUE_BYTES,
            definition_bytes: 4 << 20,
            document_bytes: MAX_DOCUMENT_BYTES,
            reading_bytes: 64 << 20,
            working_bytes: 768 << 20,
            memory_time: Duration::from_secs(10),
            bundle_bytes: 2 * provenance::MAX_BUNDLED,
            saves: Saves::LastWins,
            origins: Vec::new(),
            hosts: Vec::new(),
            head_bytes: 64 << 10,
            address_bytes: 16 << 10,
            headers: 100,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(75),
            slow_answer: Duration::from_secs(5),
            stall_time: Duration::from_secs(60),
            recheck: Duration::from_secs(2),
            heartbeat: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}
