//! The audit trail: its entries, and their verification.

use faces::openwop::v1;
use hyper::Method;
use kernel::audit::{AuditEvent, Event};
use runtime::access::Action;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The default number of entries, and the most.
const ENTRIES: u64 = 100;
const MAX_ENTRIES: u64 = 1_000;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![entries_route(), verify_route()]
}

fn entries_route() -> Route {
    let route = Route::new(
        Method::GET,
        "/v1/audit",
        Access::May(Action::ReadAudit),
        entries,
        Doc {
            operation: "listAuditEntries",
            summary: "Entries of the tenant's audit trail, newest first (extension)",
            parameters: &[
                ("query", "before", "only entries before this sequence"),
                ("query", "limit", "entries at most, 1 to 1000"),
            ],
            request: None,
            responses: &[(200, "AuditEntries")],
        },
    );
    route.closed()
}

fn verify_route() -> Route {
    Route::new(
        Method::GET,
        "/v1/audit/verify",
        Access::May(Action::ReadAudit),
        verify,
        Doc {
            operation: "verifyAuditLog",
            summary: "Recomputes hashes, roots and signatures of the tenant's audit trail",
            parameters: &[
                (
                    "query",
                    "fromSeq",
                    "the first entry; the first of the trail by default",
                ),
                (
                    "query",
                    "toSeq",
                    "the last entry; the last of the trail by default",
                ),
            ],
            request: None,
            responses: &[(200, "AuditVerification")],
        },
    )
}

async fn entries(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let query = cx.query();
    let limit = query.number("limit", 1..=MAX_ENTRIES)?.unwrap_or(ENTRIES);
    let before = query.seq("before")?;
    let events = cx.app.api().audit_entries(&who, before, limit).await?;
    let next = events.last().map(|last| last.seq).filter(|seq| *seq > 0);
    let entries: Vec<Value> = events.iter().map(entry).collect();
    Ok(Reply::ok(
        &json!({ "entries": entries, "nextBefore": next }),
    ))
}

/// An entry. A checkpoint is one of the action `checkpoint`.
fn entry(event: &Event) -> Value {
    let mut shown = json!({ "sequence": event.seq, "recordedAt": event.at.to_string() });
    let more = match &event.body {
        AuditEvent::Recorded(entry) => json!({
            "decidedAt": entry.decided_at.to_string(), "action": entry.action, "by": entry.by,
            "on": entry.on, "outcome": entry.outcome,
        }),
        AuditEvent::Checkpointed(checkpoint) => {
            json!({ "action": "checkpoint", "on": { "kind": "trail", "id": checkpoint.checkpoint } })
        }
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

pub(super) async fn verify(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let query = cx.query();
    let from = query.seq("fromSeq")?.unwrap_or(0);
    let to = query.seq("toSeq")?;
    if to.is_some_and(|to| to < from) {
        return Err(Problem::invalid("toSeq must not be below fromSeq"));
    }
    let api = cx.app.api();
    let found = api.verify_audit(&who, from, to.unwrap_or(u64::MAX)).await?;
    let last = found.entries.saturating_sub(1).max(from);
    let to = to.unwrap_or(last);
    Ok(Reply::ok(&v1::audit_verification(from, to, &found.report)))
}
