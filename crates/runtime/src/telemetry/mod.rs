//! Traces and metrics for OpenTelemetry, over OTLP by HTTP.
//!
//! Spans come from the logs of runs that have ended, metrics from what this process appends. Both
//! are for looking at, never for deciding: what cannot be delivered is left out.

mod meters;
mod otlp;
pub mod spans;

use std::time::Duration;

use bytes::Bytes;
use kernel::ids::StreamId;
use kernel::run::{CapKind, Event};
use kernel::stream::StreamHeader;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use store::{ReadFrom, Store, StoreError};
use tokio::sync::mpsc;
use url::Url;

use crate::engine::Engine;
use crate::outbound::{Allowed, Outbound, Redirects, Request};
pub use meters::Meters;
use spans::{Family, Span, spans};

/// Runs that wait for their spans to be exported; more are left out.
const WAITING: usize = 4_096;
/// Spans of one request at most; one run more may go in.
const SPANS: usize = 2_000;
/// How often is exported.
const EVERY: Duration = Duration::from_secs(1);
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How deep runs start runs at most.
const DEPTH: u32 = kernel::limits::MAX_RUN_DEPTH;

/// How exports are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    Protobuf,
    /// `http/json`.
    Json,
}

/// Where telemetry goes.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// The collector; `/v1/traces` and `/v1/metrics` are put behind it.
    pub endpoint: Url,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Headers of every request, as `name=value` between commas.
    pub headers: Option<String>,
    /// What this service is called.
    pub service: String,
}

/// The protocol's word for a cap.
fn cap(kind: CapKind) -> &'static str {
    match kind {
        CapKind::NodeExecutions => "node-executions",
        CapKind::RunDuration => "run-duration",
        CapKind::LoopIterations => "loop-iterations",
    }
}

/// Settings of an export that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOtlp {
    /// The endpoint is not http or https.
    #[error("the OTLP endpoint is an http or https URL")]
    Endpoint,
    /// A header is none.
    #[error("OTLP headers are NAME=VALUE, separated by commas")]
    Headers,
}

/// Exports for as long as the engine runs.
///
/// # Errors
/// Settings that cannot be used.
pub fn export(engine: &Engine, otlp: &Otlp) -> Result<(), BadOtlp> {
    let exporter = Exporter::new(engine.clone(), otlp)?;
    let (tell, ended) = mpsc::channel(WAITING);
    engine.door().hints().meters().tell(tell);
    engine.inner.tasks.spawn(exporter.run(ended));
    Ok(())
}

/// The runs above a run.
async fn family(store: &dyn Store, header: &StreamHeader) -> Result<Family, StoreError> {
    let mut family = Family {
        top: header.stream.clone(),
        parent_workflow: None,
    };
    let mut above = header.parent.clone();
    for level in 0..=DEPTH {
        let Some(parent) = above else { break };
        family.top = parent.run.clone();
        let loaded = match store.load(&parent.run, ReadFrom::Seq(u64::MAX), 0).await {
            Ok(loaded) => loaded,
            // Erased: the trace is still named by it.
            Err(StoreError::Missing) => break,
            Err(error) => return Err(error),
        };
        if level == 0 {
            let definition = loaded.header.definition.as_ref();
            family.parent_workflow = definition.map(|it| it.workflow.as_str().to_owned());
        }
        above = loaded.header.parent.clone();
    }
    Ok(family)
}

/// The W3C `traceparent` of what happens within a run's span.
pub(crate) async fn traceparent(
    store: &dyn Store,
    header: &StreamHeader,
) -> Result<String, StoreError> {
    let family = family(store, header).await?;
    Ok(spans::traceparent(&family.top, &header.stream))
}

struct Exporter {
    engine: Engine,
    outbound: Outbound,
    traces: Url,
    metrics: Url,
    headers: HeaderMap,
    protocol: Protocol,
    service: String,
    began: kernel::time::Timestamp,
}

impl Exporter {
    fn new(engine: Engine, otlp: &Otlp) -> Result<Self, BadOtlp> {
        let at = |path: &str| {
            let base = otlp.endpoint.as_str().trim_end_matches('/');
            Url::parse(&format!("{base}/{path}")).map_err(|_| BadOtlp::Endpoint)
        };
        if !matches!(otlp.endpoint.scheme(), "http" | "https") {
            return Err(BadOtlp::Endpoint);
        }
        let mut headers = HeaderMap::new();
        let given = otlp.headers.as_deref().unwrap_or_default();
        for pair in given.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(BadOtlp::Headers)?;
            let name: HeaderName = name.trim().parse().map_err(|_| BadOtlp::Headers)?;
            let mut value: HeaderValue = value.trim().parse().map_err(|_| BadOtlp::Headers)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(match otlp.protocol {
                Protocol::Protobuf => "application/x-protobuf",
                Protocol::Json => "application/json",
            }),
        );
        Ok(Self {
            // Whoever starts the engine named the collector.
            outbound: Outbound::new(Allowed::private()),
            traces: at("v1/traces")?,
            metrics: at("v1/metrics")?,
            headers,
            protocol: otlp.protocol,
            service: otlp.service.clone(),
            began: engine.door().store().now(),
            engine,
        })
    }

    async fn run(self, mut ended: mpsc::Receiver<StreamId>) {
        let drain = self.engine.inner.shutdown.drain.clone();
        let mut told = 0;
        loop {
            let is_last = drain.is_cancelled();
            self.export_spans(&mut ended).await;
            let values = self.engine.door().hints().meters().values();
            if values.changes != told {
                told = values.changes;
                let now = self.engine.door().store().now();
                let request = otlp::metrics(&self.service, &values, self.began, now);
                self.send(&self.metrics, otlp::encode(&request, self.protocol))
                    .await;
            }
            if is_last {
                return;
            }
            tokio::select! {
                biased;
                () = drain.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    async fn export_spans(&self, ended: &mut mpsc::Receiver<StreamId>) {
        loop {
            let mut batch: Vec<Span> = Vec::new();
            while batch.len() < SPANS {
                let Ok(run) = ended.try_recv() else { break };
                match self.spans_of(&run).await {
                    Ok(spans) => batch.extend(spans),
                    Err(error) => tracing::warn!(%run, %error, "a run was not traced"),
                }
            }
            if batch.is_empty() {
                return;
            }
            let request = otlp::traces(&self.service, &batch);
            self.send(&self.traces, otlp::encode(&request, self.protocol))
                .await;
        }
    }

    async fn spans_of(&self, run: &StreamId) -> Result<Vec<Span>, StoreError> {
        let store = self.engine.door().store();
        let loaded = store.load(run, ReadFrom::Seq(0), usize::MAX).await?;
        let family = family(&**store, &loaded.header).await?;
        let mut events: Vec<Event> = Vec::with_capacity(loaded.records.len());
        for record in &loaded.records {
            let event = serde_json::from_slice(&record.content);
            events.push(event.map_err(|error| {
                StoreError::Corrupt(format!("an event of run {run} cannot be read: {error}"))
            })?);
        }
        Ok(spans(&loaded.header, &family, &events))
    }

    async fn send(&self, url: &Url, body: Bytes) {
        let request = Request {
            method: Method::POST,
            url: url.clone(),
            headers: HeaderMap::new(),
            origin_headers: self.headers.clone(),
            body,
            timeout: TIMEOUT,
            redirects: Redirects::Return,
        };
        match self.outbound.send(request).await {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => {
                let status = response.status().as_u16();
                tracing::warn!(status, "the collector refused telemetry; it is left out");
            }
            Err(error) => tracing::warn!(%error, "telemetry was not delivered; it is left out"),
        }
    }
}
