//! The limits of a server.

use std::num::NonZeroU32;
use std::time::Duration;

use kernel::limits::{MAX_DOCUMENT_BYTES, MAX_VALUE_BYTES};
use kernel::time::Timestamp;

/// The limits of a server. A request above one of them is rejected with an explanation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent connections. Further ones are answered with 503 and closed.
    pub connections: usize,
    /// Concurrent event streams. Further ones are answered with 503.
    pub streams: usize,
    /// Requests per second of one principal, and its burst. `None` means unlimited.
    pub principal_rate: Option<NonZeroU32>,
    /// Requests per second of one tenant, and its burst. `None` means unlimited.
    pub tenant_rate: Option<NonZeroU32>,
    /// Runs in flight above which no run is created: the larger of the driven runs and the open
    /// streams. `None` means unlimited: further runs wait in the queue.
    pub in_flight: Option<usize>,
    /// The retention of runs after their end, as configured for maintenance; `None` means
    /// unlimited. Only advertised here.
    pub retain_finished: Option<Duration>,
    /// When OpenWOP 1 ends here. `None` means that no end is announced.
    pub v1_sunset: Option<Timestamp>,
    /// Bytes of a request body.
    pub body_bytes: usize,
    /// Bytes of a workflow definition.
    pub definition_bytes: usize,
    /// Bytes of a workbench document or bundle, before and after decoding.
    pub document_bytes: usize,
    /// Bytes of workbench documents read at a time; at least those of one.
    pub reading_bytes: usize,
    /// Approximate memory in bytes of workbench documents processed at a time.
    pub working_bytes: usize,
    /// How long a workbench document waits for memory before it is rejected.
    pub memory_time: Duration,
    /// Bytes of a bundle of an execution snapshot: its contents are at most half as much before
    /// they are encoded as JSON.
    pub bundle_bytes: usize,
    /// Whether a save of a document that does not follow the last one is rejected.
    pub saves: Saves,
    /// Origins, such as `https://app.example.org`, whose pages may call this server in addition to
    /// its own.
    pub origins: Vec<String>,
    /// Host names it accepts in addition to those of the loopback and the address it is bound to.
    pub hosts: Vec<String>,
    /// Bytes of a request's line and headers together.
    pub head_bytes: usize,
    /// Bytes of a request's URL.
    pub address_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// The time limit of a request's line and headers, and of an idle connection.
    pub head_time: Duration,
    /// The time limit of a request body.
    pub body_time: Duration,
    /// The time limit until a response begins, including long polls.
    pub answer_time: Duration,
    /// The time after which a response counts as slow and is logged; long polls are excluded.
    pub slow_answer: Duration,
    /// How long a peer may read nothing of the response.
    pub stall_time: Duration,
    /// How often the credential of an open stream or a long poll is checked again.
    pub recheck: Duration,
    /// The interval of a stream's heartbeats while it has no events.
    pub heartbeat: Duration,
    /// How long requests and runs may take to end during a shutdown.
    pub grace: Duration,
}

/// The treatment of a document's save by a client that did not know the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// It is accepted, and the previous one is kept as a branch.
    LastWins,
    /// It is rejected with 409.
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
            v1_sunset: None,
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
