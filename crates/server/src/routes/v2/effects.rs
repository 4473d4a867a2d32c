//! The ledger of a run's effects.

use faces::openwop::v2;
use runtime::access::Action;

use super::{doc, reads};
use crate::admission;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Cx, Route};
use crate::routes::runs::named;
use crate::routes::workbench::view;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![reads(
        "/runs/{runId}/effects",
        Action::ReadRun,
        effects,
        doc(
            "getRunEffects",
            "Every attempt of every effect of a run's nodes",
            None,
            &[(200, "Effects")],
        ),
    )]
}

async fn effects(cx: Cx) -> Result<Reply, Problem> {
    if !admission::keeps_effects(cx.app.limits()) {
        // The family is not claimed.
        return Err(Problem::no_route());
    }
    let (who, run) = (cx.who()?, named(&cx)?);
    let api = cx.app.api();
    let attempts = if view::is_document(&run) {
        // A browser had the effects of a run that it recorded.
        api.document_view(&who, &run).await?;
        Vec::new()
    } else {
        api.effects(&who, &run).await?
    };
    Ok(Reply::ok(&v2::effects(&who.tenant, &run, &attempts)))
}
