//! For operators of the server. Contains no tenant's data, so that no key is needed.

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use runtime::access::trail;
use serde_json::json;

use crate::app::Phase;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let doc = |operation, summary, response| Doc {
        operation,
        summary,
        parameters: &[],
        request: None,
        responses: response,
    };
    vec![
        Route::new(
            Method::GET,
            "/healthz",
            Access::Anyone,
            |cx| probe(cx, Probe::Alive),
            doc(
                "getHealth",
                "Whether the process answers",
                &[(200, "Health")],
            ),
        )
        .for_probes(),
        Route::new(
            Method::GET,
            "/readyz",
            Access::Anyone,
            |cx| probe(cx, Probe::Ready),
            doc(
                "getReadiness",
                "Whether runs are accepted and driven",
                &[(200, "Health")],
            ),
        )
        .for_probes(),
        Route::new(
            Method::GET,
            "/metrics",
            Access::Anyone,
            metrics,
            doc("getMetrics", "Counters for Prometheus", &[(200, "metrics")]),
        ),
    ]
}

#[derive(Clone, Copy)]
enum Probe {
    Alive,
    Ready,
}

async fn probe(cx: Cx, probe: Probe) -> Result<Reply, Problem> {
    let phase = cx.app.phase();
    match (probe, phase) {
        (Probe::Alive, _) => Ok(Reply::ok(&json!({ "status": "ok" }))),
        (Probe::Ready, Phase::Ready) => Ok(Reply::ok(&json!({ "status": "ready" }))),
        (Probe::Ready, Phase::Starting) => Err(Problem::unavailable("the server is starting")),
        (Probe::Ready, Phase::Draining) => Err(Problem::unavailable("the server is being stopped")),
    }
}

async fn metrics(cx: Cx) -> Result<Reply, Problem> {
    let driven = cx.app.api().engine().driving();
    let store = cx.app.api().engine().door().store();
    let lag = trail::lag(&**store).await?;
    let runs = cx.app.api().engine().door().hints().meters();
    let text = cx.app.metrics().text(driven, lag, runs);
    let media =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(Reply::bytes(StatusCode::OK, media, text.into()))
}
