//! The two contracts of a coordinator, and its status at a time.

use crate::coordinator::dispatch::Backlog;
use crate::coordinator::event::Lease;
use crate::coordinator::{Coordinator, Cursor};
pub use crate::stream::Contract;
use crate::time::Timestamp;

/// Whether a lease can expire. The published contract leaves it to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRule {
    /// As the contract defines.
    Contract,
    /// They expire.
    Enforced,
}

/// The reason for a stale lease in snapshots.
pub const LEASE_EXPIRED: &str = "lease expired";

/// The status of a coordinator: a view of its state at a time, stored nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorStatus {
    /// The lease, live or not.
    pub lease: Option<Lease>,
    /// Whether the lease has expired.
    pub is_stale: bool,
    /// Requests by status.
    pub backlog: Backlog,
    /// The replay cursor.
    pub cursor: Option<String>,
    /// Events after the cursor that were not applied again.
    pub pending_events: u64,
    /// The last event that was applied again.
    pub last_replayed: Option<String>,
    /// The leader is to be notified later.
    pub leader_deferred: bool,
    /// The reasons why it is not ready; empty means ready.
    pub blockers: Vec<Blocker>,
}

/// A reason why a coordinator is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The authority has no holder.
    NoAuthority,
    /// Its lease has expired.
    StaleAuthority,
    /// Events have to be applied again.
    ReplayPending(u64),
    /// The replay cursor names an unknown event.
    UnknownCursor,
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAuthority => f.write_str("authority lease not acquired"),
            Self::StaleAuthority => write!(f, "authority lease is stale: {LEASE_EXPIRED}"),
            Self::ReplayPending(count) => write!(f, "replay has {count} pending events"),
            Self::UnknownCursor => f.write_str("replay cursor names no known event"),
        }
    }
}

impl Contract {
    /// Whether leases expire.
    pub(super) fn expires(self, rule: LeaseRule) -> bool {
        self == Self::Native || rule == LeaseRule::Enforced
    }
}

impl Lease {
    /// The end of the lease. `None` if its text is not a time.
    pub fn ends(&self) -> Option<Timestamp> {
        Timestamp::parse_end(&self.leased_until)
    }

    /// Whether the lease has expired. A lease with an invalid end never expires under the published
    /// contract, where it may be on purpose. Under the native contract such a lease can only come
    /// from that program and always counts as expired, so that it can be taken over.
    pub(super) fn is_expired(&self, contract: Contract, now: Timestamp) -> bool {
        match self.ends() {
            Some(until) => until <= now,
            None => contract == Contract::Native,
        }
    }
}

impl Coordinator {
    /// The contract of its stream.
    pub fn contract(&self) -> Contract {
        self.header.policy.contract.unwrap_or_default()
    }

    /// Its status at a time.
    pub fn standing(&self, now: Timestamp, rule: LeaseRule) -> CoordinatorStatus {
        let state = &self.state;
        let contract = self.contract();
        let is_over = |lease: &Lease| lease.is_expired(contract, now);
        let is_stale = contract.expires(rule) && state.lease.as_ref().is_some_and(is_over);
        // Published clients set cursors of their own and expect no counting.
        let replay = (contract == Contract::Native).then_some(&state.replay);
        let pending_events = match replay.map(|replay| &replay.applied) {
            Some(Cursor::Event(n)) => state.replayable - n,
            Some(Cursor::None | Cursor::Unknown) | None => 0,
        };
        let mut blockers = Vec::new();
        match &state.lease {
            None => blockers.push(Blocker::NoAuthority),
            Some(_) if is_stale => blockers.push(Blocker::StaleAuthority),
            Some(_) => {}
        }
        if pending_events > 0 {
            blockers.push(Blocker::ReplayPending(pending_events));
        }
        if replay.is_some_and(|replay| replay.applied == Cursor::Unknown) {
            blockers.push(Blocker::UnknownCursor);
        }
        CoordinatorStatus {
            lease: state.lease.clone(),
            is_stale,
            backlog: state.backlog,
            cursor: state.replay.cursor.clone(),
            pending_events,
            last_replayed: replay.and_then(|replay| replay.last.clone()),
            leader_deferred: replay.is_some() && state.leader_deferred,
            blockers,
        }
    }
}
