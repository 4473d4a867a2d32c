//! Which of two contracts a coordinator keeps, and how it stands at a moment under it.

use serde::{Deserialize, Serialize};

use crate::coordinator::dispatch::Backlog;
use crate::coordinator::event::Lease;
use crate::coordinator::{Coordinator, Cursor};
use crate::time::Timestamp;

/// Which rules a coordinator keeps. Said once, in the header of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contract {
    /// Leases expire and can then be taken over; without a live authority nothing is handed out;
    /// a request fails only after its target was told.
    #[default]
    Native,
    /// What the published program does: leases expire only where the caller enforces them, and
    /// any pending request may fail.
    Published,
}

/// Whether a lease can expire. The published contract leaves it to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRule {
    /// As the contract says.
    Contract,
    /// They expire.
    Enforced,
}

/// Why a lease does not count any more, as snapshots say it.
pub const LEASE_EXPIRED: &str = "lease expired";

/// How a coordinator stands at a moment. A view of (state, now); nothing of it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The lease, live or not.
    pub lease: Option<Lease>,
    /// Whether the lease has run out.
    pub is_stale: bool,
    /// Requests by status.
    pub backlog: Backlog,
    /// The replay cursor.
    pub cursor: Option<String>,
    /// Events behind the cursor that were not applied again.
    pub pending_events: u64,
    /// The last event that was.
    pub last_replayed: Option<String>,
    /// The leader is to be told later.
    pub leader_deferred: bool,
    /// What keeps it from being ready; nothing means it is.
    pub blockers: Vec<Blocker>,
}

/// What keeps a coordinator from being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// Nobody holds the authority.
    NoAuthority,
    /// Its lease has run out.
    StaleAuthority,
    /// Events wait to be applied again.
    ReplayPending(u64),
    /// No event is named by the replay cursor.
    UnknownCursor,
}

impl std::fmt::Display for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Published => "published",
        })
    }
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
    /// When it runs out. `None` where its end is no time.
    pub fn ends(&self) -> Option<Timestamp> {
        Timestamp::parse_end(&self.leased_until)
    }

    /// Whether the lease has run out. One whose end is no time never does where the published
    /// program may have made it on purpose; the native contract has such a lease only of that
    /// program, and nobody could ever take it over.
    pub(super) fn is_expired(&self, contract: Contract, now: Timestamp) -> bool {
        match self.ends() {
            Some(until) => until <= now,
            None => contract == Contract::Native,
        }
    }
}

impl Coordinator {
    /// The contract it keeps.
    pub fn contract(&self) -> Contract {
        self.header.policy.contract.unwrap_or_default()
    }

    /// How it stands.
    pub fn standing(&self, now: Timestamp, rule: LeaseRule) -> Standing {
        let state = &self.state;
        let contract = self.contract();
        let is_over = |lease: &Lease| lease.is_expired(contract, now);
        let is_stale = contract.expires(rule) && state.lease.as_ref().is_some_and(is_over);
        // Published clients put cursors of their own making and expect no counting.
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
        Standing {
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
