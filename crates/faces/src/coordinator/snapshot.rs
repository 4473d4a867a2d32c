//! Snapshots as JSON and as one line of text.

use kernel::coordinator::{CoordinatorStatus, LEASE_EXPIRED};
use serde::{Deserialize, Serialize};

use crate::coordinator::schema::SCHEMA_VERSION;

/// A snapshot: all its sections and fields, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the contract's table")]
pub struct SnapshotJson {
    pub schema_version: u32,
    pub authority: AuthorityJson,
    pub backlog: BacklogJson,
    pub replay: ReplayJson,
    pub readiness: ReadinessJson,
}

/// The holder of the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the contract's table")]
pub struct AuthorityJson {
    pub owner: Option<String>,
    pub lease_id: Option<String>,
    pub leased_until: Option<String>,
    pub stale: bool,
    pub stale_reason: Option<String>,
}

/// Requests by status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the contract's table")]
pub struct BacklogJson {
    pub pending: u64,
    pub notified: u64,
    pub delivered: u64,
    pub failed: u64,
}

/// The progress of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the contract's table")]
pub struct ReplayJson {
    pub cursor: Option<String>,
    pub pending_events: u64,
    pub last_replayed_event_id: Option<String>,
    pub deferred_leader_notification: bool,
}

/// Whether it is ready, and the blockers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the contract's table")]
pub struct ReadinessJson {
    pub ready: bool,
    pub reasons: Vec<String>,
}

impl From<&CoordinatorStatus> for SnapshotJson {
    fn from(standing: &CoordinatorStatus) -> Self {
        let lease = standing.lease.as_ref();
        let backlog = &standing.backlog;
        Self {
            schema_version: SCHEMA_VERSION,
            authority: AuthorityJson {
                owner: lease.map(|lease| lease.owner.clone()),
                lease_id: lease.map(|lease| lease.lease_id.clone()),
                leased_until: lease.map(|lease| lease.leased_until.clone()),
                stale: standing.is_stale,
                stale_reason: standing.is_stale.then(|| LEASE_EXPIRED.to_owned()),
            },
            backlog: BacklogJson {
                pending: backlog.pending,
                notified: backlog.notified,
                delivered: backlog.delivered,
                failed: backlog.failed,
            },
            replay: ReplayJson {
                cursor: standing.cursor.clone(),
                pending_events: standing.pending_events,
                last_replayed_event_id: standing.last_replayed.clone(),
                deferred_leader_notification: standing.leader_deferred,
            },
            readiness: ReadinessJson {
                ready: standing.blockers.is_empty(),
                reasons: standing.blockers.iter().map(ToString::to_string).collect(),
            },
        }
    }
}

/// The snapshot as one line of text.
pub fn snapshot_line(snapshot: &SnapshotJson) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let SnapshotJson {
        schema_version,
        authority,
        backlog,
        replay,
        readiness,
    } = snapshot;
    let readiness = if readiness.ready {
        "ready".to_owned()
    } else {
        format!("blocked({})", readiness.reasons.join("; "))
    };
    format!(
        "schema={schema_version} authority=owner={} lease_id={} leased_until={} stale={} \
         stale_reason={} backlog=pending={} notified={} delivered={} failed={} replay=cursor={} \
         pending_events={} last_replayed_event_id={} deferred_leader_notification={} \
         readiness={readiness}",
        or_none(&authority.owner),
        or_none(&authority.lease_id),
        or_none(&authority.leased_until),
        authority.stale,
        or_none(&authority.stale_reason),
        backlog.pending,
        backlog.notified,
        backlog.delivered,
        backlog.failed,
        or_none(&replay.cursor),
        replay.pending_events,
        or_none(&replay.last_replayed_event_id),
        replay.deferred_leader_notification,
    )
}
