//! The capabilities of the contract, as its program lists them.

use serde::Serialize;

/// The version of the contract.
pub const SCHEMA_VERSION: u32 = 1;

/// Names of commands and events, in kebab case; events with dots keep them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The commands.
    pub commands: &'static [&'static str],
    /// The events.
    pub events: &'static [&'static str],
    /// The version of the contract.
    pub schema_version: u32,
    /// How requests reach their targets.
    pub transport: &'static str,
}

/// The schema.
pub fn schema() -> Schema {
    Schema {
        commands: COMMANDS,
        events: EVENTS,
        schema_version: SCHEMA_VERSION,
        transport: "tmux",
    }
}

/// Whether a name is an event of the contract, in the spelling of logs.
pub fn is_event(name: &str) -> bool {
    if name.contains('.') {
        return EVENTS.contains(&name);
    }
    let mut listed = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !listed.is_empty() {
            listed.push('-');
        }
        listed.push(c.to_ascii_lowercase());
    }
    name.starts_with(|c: char| c.is_ascii_uppercase()) && EVENTS.contains(&listed.as_str())
}

const COMMANDS: &[&str] = &[
    "acquire-authority",
    "renew-authority",
    "queue-dispatch",
    "mark-notified",
    "mark-delivered",
    "mark-failed",
    "remove-dispatch-records",
    "request-replay",
    "capture-snapshot",
    "create-mailbox-message",
    "mark-mailbox-notified",
    "mark-mailbox-delivered",
    "release-authority",
    "heartbeat",
    "block-on-user",
    "block-on-system",
    "assign-worker",
    "stall-worker",
    "recover-worker",
    "defer-leader-notification",
    "clear-deferred-leader-notification",
    "mark-replayed",
];

const EVENTS: &[&str] = &[
    "authority-acquired",
    "authority-renewed",
    "dispatch-queued",
    "dispatch-notified",
    "dispatch-delivered",
    "dispatch-failed",
    "dispatch-records-removed",
    "replay-requested",
    "snapshot-captured",
    "mailbox-message-created",
    "mailbox-notified",
    "mailbox-delivered",
    "authority-released",
    "dispatches-compacted",
    "replay-marked",
    "leader-notification-deferred",
    "leader-notification-cleared",
    "run.heartbeat",
    "run.blocked_on_user",
    "run.blocked_on_system",
    "worker.assigned",
    "worker.began",
    "worker.released",
    "worker.stalled",
    "worker.recovered",
];
