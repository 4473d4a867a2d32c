//! Debug bundles: everything about a run.

use faces::openwop::v1;
use hyper::Method;
use runtime::access::Action;
use runtime::api::BundledRun;
use runtime::redact::Redactor;
use runtime::telemetry::spans::{shown, spans};

use super::runs::named;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// Events read at a time.
const PAGE: usize = 64;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        Method::GET,
        "/v1/runs/{runId}/debug-bundle",
        Access::May(Action::ReadRun),
        get,
        Doc {
            operation: "getDebugBundle",
            summary: "State, events and annotations of a run in one document of about 8 MiB at most",
            parameters: &[("query", "maxEvents", "events at most (extension)")],
            request: None,
            responses: &[(200, "DebugBundle")],
        },
    )]
}

async fn get(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let api = cx.app.api();
    // Ownership is checked before the query.
    let bundled = api.bundle(&who, &run, Some(cx.trace.id())).await?;
    let most = cx.query().number("maxEvents", 0..=u64::MAX)?;
    let most = most.map_or(usize::MAX, |most| {
        usize::try_from(most).unwrap_or(usize::MAX)
    });
    let BundledRun {
        run,
        mut log,
        notes,
        family,
    } = bundled;
    let mut bundle = v1::Bundle::new(&run, most);
    let mut events = Vec::new();
    // Events appended after the state was read are left out.
    'log: loop {
        let page = log.page(PAGE).await?;
        for (event, cause) in &page.events {
            let is_newer = event.seq >= run.head.next_seq;
            if is_newer || !bundle.add(&run, event, *cause) {
                break 'log;
            }
            events.push(event.clone());
        }
        if page.events.is_empty() {
            break;
        }
    }
    let at = api.engine().door().store().now();
    let spans = spans(&run.header, &family, &events);
    let (spans, is_whole) = shown(&spans, v1::SPANS_BYTES);
    bundle.show_spans(spans, is_whole);
    let mut document = bundle.build(&notes, at);
    // The log contains no secrets; this is the second line of defence.
    Redactor::masking().value(&mut document);
    Ok(Reply::ok(&document))
}
