//! The audit trail, verified.

use faces::openwop::v1;
use hyper::Method;
use runtime::access::Action;

use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
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
    )]
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
