//! A report about a store.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kernel::ids::HolderId;
use kernel::time::Timestamp;
use serde::Deserialize;

use super::{Cell, Column, Kind, Row};
use crate::Position;

/// The namespace of the unique key whose answer lists the live servers of a store as JSON.
pub const SERVERS_NAMESPACE: &str = "runwright.servers";
/// That key.
pub const SERVERS_KEY: &str = "alive";

/// A report about a store. Its parts are read one after the other, while others may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Tables by name, each with its indexes.
    pub tables: Vec<TableSize>,
    /// The number of streams.
    pub streams: u64,
    /// The number of events in them.
    pub events: u64,
    /// The age of the oldest snapshot that keeps deleted rows from being reused. `None` if there is
    /// none, or if the store cannot know it.
    pub oldest_snapshot: Option<Duration>,
    /// The end of the feed.
    pub feed_end: Position,
    /// How many appends wait for their positions in the feed. Zero in a store with one writer.
    pub feed_waiting: u64,
    /// The messages that wait for delivery.
    pub outbox: Outbox,
    /// Servers and other holders of leases that are alive by the store's clock.
    pub servers: Vec<LiveServer>,
}

/// The size of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Its name.
    pub name: String,
    /// Bytes on disk, with its indexes.
    pub bytes: u64,
}

/// The messages that wait for delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// How many.
    pub messages: u64,
    /// When the sender of the oldest one last appended: the message has waited at least since then.
    pub oldest: Option<Timestamp>,
}

/// A process that holds leases, or a server that entered itself in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveServer {
    /// The name under which it holds leases.
    pub holder: HolderId,
    /// The address of a server.
    pub address: Option<String>,
    /// How many streams it holds.
    pub leases: u64,
    /// When its entry or the last of its leases expires.
    pub expires_at: Timestamp,
}

impl fmt::Display for LiveServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "{address} ({})", self.holder),
            None => write!(f, "{}", self.holder),
        }
    }
}

/// An entry of the list of servers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    holder: HolderId,
    address: String,
    expires_at: Timestamp,
}

impl Status {
    /// The columns of a fact: its name, what it is about, a number, a time and bytes.
    pub const FACTS: &'static [Column] = &[
        ("fact", Kind::Text),
        ("about", Kind::Text),
        ("number", Kind::Number),
        ("at", Kind::Number),
        ("bytes", Kind::Bytes),
    ];

    /// A report made of facts, each a row: a `table` with its bytes; `streams`, `events`,
    /// `feed_end`, `feed_waiting`; `outbox` with the number of messages and the time of the oldest;
    /// `snapshot` with the age of the oldest in milliseconds; a `holder` with the number of its live
    /// leases and their last expiry; `servers` with the answer of a key that lists them.
    pub fn from_facts(now: Timestamp, facts: Vec<Row>) -> Self {
        let (mut status, mut servers) = (Self::default(), BTreeMap::new());
        for fact in facts {
            let [Cell::Text(name), about, number, at, bytes] = &fact[..] else {
                continue;
            };
            let number = match number {
                Cell::Number(number) => number.unsigned_abs(),
                _ => 0,
            };
            match (name.as_str(), about, at, bytes) {
                ("table", Cell::Text(name), ..) => status.tables.push(TableSize {
                    name: name.clone(),
                    bytes: number,
                }),
                ("streams", ..) => status.streams = number,
                ("events", ..) => status.events = number,
                ("feed_end", ..) => status.feed_end = Position(number),
                ("feed_waiting", ..) => status.feed_waiting = number,
                ("snapshot", ..) => status.oldest_snapshot = Some(Duration::from_millis(number)),
                ("outbox", _, at, _) => {
                    status.outbox.messages = number;
                    if let Cell::Number(at) = at {
                        status.outbox.oldest = Some(Timestamp(*at));
                    }
                }
                ("holder", Cell::Text(holder), Cell::Number(at), _) => {
                    let server = server(&mut servers, holder.as_str().into());
                    server.leases = number;
                    server.expires_at = server.expires_at.max(Timestamp(*at));
                }
                ("servers", _, _, Cell::Bytes(list)) => {
                    let entries: Vec<Entry> = serde_json::from_slice(list).unwrap_or_default();
                    for entry in entries.into_iter().filter(|entry| entry.expires_at > now) {
                        let server = server(&mut servers, entry.holder);
                        server.address = Some(entry.address);
                        server.expires_at = server.expires_at.max(entry.expires_at);
                    }
                }
                _ => {}
            }
        }
        status.servers = servers.into_values().collect();
        status
    }
}

/// The server with this name, a new one where there is none.
fn server(servers: &mut BTreeMap<HolderId, LiveServer>, holder: HolderId) -> &mut LiveServer {
    servers.entry(holder.clone()).or_insert(LiveServer {
        holder,
        address: None,
        leases: 0,
        expires_at: Timestamp(i64::MIN),
    })
}
