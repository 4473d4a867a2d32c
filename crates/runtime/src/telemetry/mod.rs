//! Traces and metrics for OpenTelemetry, over OTLP by HTTP.
//!
//! Spans come from the logs of runs that have ended, metrics from this process's appends. Both are
//! for observation, never for decisions: undeliverable data is dropped.

mod catalogue;
mod meters;
mod otlp;
mod prometheus;
mod records;
pub mod spans;

use kernel::run::RunStatus;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kernel::ids::{StreamId, TenantId};
use kernel::run::{CapKind, Event, RunEvent};
use kernel::stream::{StreamHeader, StreamKind};
use kernel::trace::TraceContext;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use store::{DueQuery, ListCursor, ListQuery, ReadFrom, Store, StoreError};
use tokio::sync::mpsc;
use url::Url;

use crate::engine::Engine;
use crate::outbound::{Allowed, Outbound, Redirects, Request};
pub use catalogue::{Kind, METRICS, Metric};
pub(crate) use meters::Asked;
pub use meters::{Histogram, Meters};
pub use prometheus::Page;
pub use records::{ACTIVE_HOST, ACTIVE_RETRY_SECONDS};
pub(crate) use records::{conflict, of_run};
use spans::{Family, Span, spans};

/// Runs that wait for the export of their spans; more are dropped.
const WAITING: usize = 4_096;
/// The most spans of one request; it may exceed this by one run.
const SPANS: usize = 2_000;
/// The interval of exports.
const EVERY: Duration = Duration::from_secs(1);
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Runs listed at a time.
const PAGE: usize = 500;
/// The most runs counted at the start; there may be more.
const MOST_UNENDED: usize = 100_000;
/// The most waiting runs of a queue that are counted.
const MOST_WAITING: usize = 1_000;

/// The encoding of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    Protobuf,
    /// `http/json`.
    Json,
}

/// The target of exports.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// The collector; `/v1/traces` and `/v1/metrics` are appended.
    pub endpoint: Url,
    /// The encoding.
    pub protocol: Protocol,
    /// Headers of every request, as comma-separated `name=value`.
    pub headers: Option<String>,
    /// The service name.
    pub service: String,
}

/// The protocol's word for a cap.
fn cap(kind: CapKind) -> &'static str {
    match kind {
        CapKind::NodeExecutions => "node-executions",
        CapKind::RunDuration => "run-duration",
        CapKind::LoopIterations => "loop-iterations",
        CapKind::Schema => "schema",
        CapKind::BudgetTokens => "budget-tokens",
        CapKind::BudgetCost => "budget-cost",
        CapKind::BudgetToolCalls => "budget-tool-calls",
        CapKind::BudgetRetries => "budget-retries",
    }
}

/// Invalid settings of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOtlp {
    /// The endpoint is not http or https.
    #[error("the OTLP endpoint must be an http or https URL")]
    Endpoint,
    /// A header is malformed.
    #[error("OTLP headers must be NAME=VALUE, separated by commas")]
    Headers,
}

/// Exports while the engine runs.
///
/// # Errors
/// Invalid settings.
pub fn export(engine: &Engine, otlp: &Otlp) -> Result<(), BadOtlp> {
    let exporter = Exporter::new(engine.clone(), otlp)?;
    let (tell, ended) = mpsc::channel(WAITING);
    engine.door().hints().meters().tell(tell);
    engine.inner.tasks.spawn(exporter.run(ended));
    Ok(())
}

/// Counts the active runs before this engine does anything.
///
/// # Errors
/// The store's.
pub async fn begin(engine: &Engine) -> Result<(), StoreError> {
    let door = engine.door();
    let mut query = ListQuery {
        kind: Some(StreamKind::Run),
        statuses: RunStatus::ACTIVE.map(|status| status.to_string()).into(),
        limit: PAGE,
        ..ListQuery::default()
    };
    let mut active: BTreeMap<TenantId, usize> = BTreeMap::new();
    for _ in 0..MOST_UNENDED / PAGE {
        let rows = door.store().list(query.clone()).await?;
        for row in &rows {
            *active.entry(row.tenant.clone()).or_default() += 1;
            let meters = door.hints().meters();
            meters.stands(&row.stream, RunStatus::parse(&row.index.status));
        }
        let Some(last) = rows.last().filter(|_| rows.len() == PAGE) else {
            break;
        };
        query.after = Some(ListCursor {
            created_at: last.index.created_at,
            stream: last.stream.clone(),
        });
    }
    for (tenant, runs) in &active {
        door.hints().meters().active(tenant, *runs);
    }
    Ok(())
}

/// The number of runs in flight: not ended, not paused, and not waiting for anything outside. Each
/// process of a store counts those that existed when it began, and those it appended to.
pub fn in_flight(engine: &Engine) -> usize {
    engine.door().hints().meters().in_flight()
}

/// Removes runs that other processes have ended from the count. Does nothing if at least `so_many`
/// runs are in flight.
///
/// # Errors
/// The store's.
pub async fn recount_in_flight(engine: &Engine, so_many: usize) -> Result<(), StoreError> {
    let door = engine.door();
    let meters = door.hints().meters();
    let counted = meters.all_in_flight();
    let query = ListQuery {
        kind: Some(StreamKind::Run),
        statuses: RunStatus::IN_FLIGHT.map(|status| status.to_string()).into(),
        limit: so_many,
        ..ListQuery::default()
    };
    let rows = door.store().list(query).await?;
    if rows.len() >= so_many {
        return Ok(());
    }
    for run in counted {
        if !rows.iter().any(|row| row.stream == run) {
            meters.stands(&run, None);
        }
    }
    Ok(())
}

/// The trace contexts related to a run.
///
/// # Errors
/// The store's.
pub async fn family(store: &dyn Store, header: &StreamHeader) -> Result<Family, StoreError> {
    let context = header.span_context();
    let parent_workflow = match &header.parent {
        None => None,
        Some(parent) => match store.load_head(&parent.run).await {
            Ok(loaded) => loaded.header.definition.map(|it| it.workflow.to_string()),
            Err(StoreError::Missing) => None,
            Err(error) => return Err(error),
        },
    };
    let source = match &header.origin {
        None => None,
        Some(origin) => {
            let loaded = store.load_head(&origin.source).await;
            match loaded {
                Ok(loaded) => Some(loaded.header.span_context()),
                Err(StoreError::Missing) => Some(TraceContext::named_after(&origin.source)),
                Err(error) => return Err(error),
            }
        }
    };
    Ok(Family {
        context,
        parent_workflow,
        source,
        has_sensitive: None,
        class: None,
    })
}

/// The type of an event, as in the log.
fn type_of(event: &RunEvent) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    value["type"].as_str().unwrap_or_default().to_owned()
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
            // The operator chose the collector.
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
        let mut told = None;
        loop {
            let is_last = drain.is_cancelled();
            self.export_spans(&mut ended).await;
            let values = self.engine.door().hints().meters().values();
            let depth = self.depth().await;
            if told != Some((values.changes, depth)) {
                told = Some((values.changes, depth));
                let now = self.engine.door().store().now();
                let queue = (self.engine.inner.options.queue.as_str(), depth);
                let request = otlp::metrics(&self.service, &values, queue, self.began, now);
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

    /// The number of waiting runs in the engine's queue, up to the bound.
    async fn depth(&self) -> Option<usize> {
        let query = DueQuery {
            queue: self.engine.inner.options.queue.clone(),
            limit: MOST_WAITING,
        };
        let due = self.engine.door().store().due(query).await;
        due.ok().map(|due| due.ready.len())
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

    /// Empty if the run's creator does not sample its trace.
    async fn spans_of(&self, run: &StreamId) -> Result<Vec<Span>, StoreError> {
        let door = self.engine.door();
        let store = door.store();
        let loaded = store.load(run, ReadFrom::Seq(0), usize::MAX).await?;
        let mut family = family(&**store, &loaded.header).await?;
        if !family.context.is_sampled() {
            return Ok(Vec::new());
        }
        if let Some(definition) = &loaded.header.definition {
            let plan = door
                .plans()
                .load(&**store, loaded.header.tenant(), definition);
            family = family.of_workflow(&*plan.await?);
        }
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
                tracing::warn!(status, "the collector refused telemetry; it is dropped");
            }
            Err(error) => tracing::warn!(%error, "telemetry was not delivered; it is dropped"),
        }
    }
}
