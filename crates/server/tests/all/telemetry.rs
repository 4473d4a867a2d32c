//! Traces and metrics, sent to a collector that decodes them.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsDouble;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Gauge, Metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use runtime::telemetry::{self, Otlp, Protocol};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::gates::signoff;
use crate::host::{Host, chain};
use crate::receiver::{Received, Receiver};

async fn traced(protocol: Protocol) -> (Host, Receiver) {
    let host = Host::new().await;
    let collector = collected(&host, protocol).await;
    (host, collector)
}

/// A collector of what a host exports from now on.
pub(crate) async fn collected(host: &Host, protocol: Protocol) -> Receiver {
    let collector = Receiver::answering(|_| Some((200, String::new()))).await;
    let otlp = Otlp {
        endpoint: format!("http://{}", collector.address).parse().unwrap(),
        protocol,
        headers: Some("x-tenant=of the collector".into()),
        service: "runwright-test".into(),
    };
    telemetry::export(&host.engine, &otlp).unwrap();
    collector
}

fn decode<M: Message + Default + DeserializeOwned>(received: &Received) -> M {
    assert_eq!(received.header("x-tenant"), "of the collector");
    match received.header("content-type") {
        "application/x-protobuf" => M::decode(&received.body[..]).unwrap(),
        "application/json" => serde_json::from_slice(&received.body).unwrap(),
        other => panic!("{other}"),
    }
}

/// The exported data: spans by run, and the newest value of each metric.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) spans: BTreeMap<String, Vec<Span>>,
    pub(crate) metrics: BTreeMap<String, Metric>,
    /// Those that are gauges.
    pub(crate) gauges: BTreeMap<String, Gauge>,
}

impl Seen {
    /// Waits until every run has its span, and a metric has this value.
    pub(crate) async fn all(collector: &Receiver, runs: &[&String], ended: f64) -> Self {
        let mut seen = Self::default();
        let is_done = |seen: &Self| {
            let has_ended = seen.metrics.get("openwop.run.completed").map(total);
            runs.iter().all(|run| seen.spans.contains_key(*run)) && has_ended == Some(ended)
        };
        while !is_done(&seen) {
            seen.take(&collector.next().await);
        }
        seen
    }

    pub(crate) fn take(&mut self, received: &Received) {
        match received.path.as_str() {
            "/v1/traces" => {
                let request: ExportTraceServiceRequest = decode(received);
                for resource in request.resource_spans {
                    let service = &resource.resource.as_ref().unwrap().attributes;
                    assert_eq!(text(service, "service.name"), "runwright-test");
                    for span in resource
                        .scope_spans
                        .into_iter()
                        .flat_map(|scope| scope.spans)
                    {
                        let run = text(&span.attributes, "openwop.run_id");
                        self.spans.entry(run).or_default().push(span);
                    }
                }
            }
            "/v1/metrics" => {
                let request: ExportMetricsServiceRequest = decode(received);
                let scopes = request
                    .resource_metrics
                    .into_iter()
                    .flat_map(|it| it.scope_metrics);
                for metric in scopes.flat_map(|scope| scope.metrics) {
                    if let Some(Data::Gauge(gauge)) = &metric.data {
                        self.gauges.insert(metric.name.clone(), gauge.clone());
                    }
                    self.metrics.insert(metric.name.clone(), metric);
                }
            }
            other => panic!("{other}"),
        }
    }

    pub(crate) fn span(&self, run: &str, name: &str) -> &Span {
        let found = self.spans[run].iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no {name} of {run}"))
    }
}

pub(crate) fn value(attributes: &[KeyValue], name: &str) -> Option<Any> {
    let found = attributes.iter().find(|pair| pair.key == name)?;
    found.value.as_ref()?.value.clone()
}

pub(crate) fn text(attributes: &[KeyValue], name: &str) -> String {
    match value(attributes, name) {
        Some(Any::StringValue(text)) => text,
        other => panic!("{name}: {other:?}"),
    }
}

fn count(attributes: &[KeyValue], name: &str) -> i64 {
    match value(attributes, name) {
        Some(Any::IntValue(count)) => count,
        other => panic!("{name}: {other:?}"),
    }
}

fn total(metric: &Metric) -> f64 {
    let Some(Data::Sum(sum)) = &metric.data else {
        panic!("{} is no sum", metric.name);
    };
    assert!(sum.is_monotonic);
    assert_eq!(
        sum.aggregation_temporality(),
        AggregationTemporality::Cumulative
    );
    let values = sum.data_points.iter().map(|point| match point.value {
        Some(AsDouble(value)) => value,
        other => panic!("{other:?}"),
    });
    values.sum()
}

/// Every attribute of a metric's points.
fn labels(metric: &Metric) -> BTreeSet<String> {
    let points: Vec<&[KeyValue]> = match metric.data.as_ref().unwrap() {
        Data::Sum(sum) => sum
            .data_points
            .iter()
            .map(|it| &it.attributes[..])
            .collect(),
        Data::Gauge(gauge) => gauge
            .data_points
            .iter()
            .map(|it| &it.attributes[..])
            .collect(),
        Data::Histogram(all) => all
            .data_points
            .iter()
            .map(|it| &it.attributes[..])
            .collect(),
        other => panic!("{other:?}"),
    };
    points
        .into_iter()
        .flatten()
        .map(|pair| pair.key.clone())
        .collect()
}

fn spans_of<'a>(seen: &'a Seen, run: &str, name: &str) -> Vec<&'a Span> {
    let spans = seen.spans[run].iter();
    spans.filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn spans_and_metrics_have_the_names_of_the_protocol() {
    for protocol in [Protocol::Protobuf, Protocol::Json] {
        names(protocol).await;
    }
}

async fn names(protocol: Protocol) {
    let (host, collector) = traced(protocol).await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let calls = json!({
        "id": "call", "typeId": "core.subWorkflow", "name": "call",
        "position": { "x": 0, "y": 0 }, "config": { "workflowId": "three" }, "inputs": {},
    });
    host.add(&chain("calls", &[calls])).await;

    let three = host
        .completed(&json!({ "workflowId": "three", "scopeId": "red" }))
        .await;
    let failed = host.completed(&json!({ "workflowId": "fails" })).await;
    let capped = json!({ "workflowId": "three", "configurable": { "recursionLimit": 1 } });
    let capped = host.completed(&capped).await;
    let calls = host.completed(&json!({ "workflowId": "calls" })).await;
    let asked = host.waiting(&json!({ "workflowId": "signoff" })).await;
    host.answer(&asked, "signoff", json!({ "action": "accept" }))
        .await;
    host.ended(&asked).await;
    let fork = json!({ "mode": "branch", "fromSeq": 5 });
    let branch = host
        .post(&format!("/v1/runs/{three}:fork"), &fork)
        .await
        .json();
    let branch = branch["runId"].as_str().unwrap().to_owned();
    host.ended(&branch).await;

    let runs = [&three, &failed, &capped, &calls, &asked, &branch];
    // The six and the child.
    let seen = Seen::all(&collector, &runs, 7.0).await;

    let run = seen.span(&three, "openwop.run");
    assert_eq!((run.trace_id.len(), run.span_id.len()), (16, 8));
    assert!(run.parent_span_id.is_empty());
    assert_eq!(text(&run.attributes, "openwop.workflow_id"), "three");
    assert_eq!(text(&run.attributes, "openwop.protocol_version"), "1.0");
    assert_eq!(text(&run.attributes, "openwop.tenant_id"), "acme");
    assert_eq!(text(&run.attributes, "openwop.scope_id"), "red");
    let node = seen.span(&three, "openwop.node.core.noop");
    assert_eq!(node.parent_span_id, run.span_id);
    assert_eq!(node.trace_id, run.trace_id);
    assert_eq!(text(&node.attributes, "openwop.node_id"), "a");
    assert_eq!(text(&node.attributes, "openwop.node_type"), "core.noop");
    assert_eq!(text(&node.attributes, "openwop.workflow_id"), "three");
    assert_eq!(count(&node.attributes, "openwop.node_attempt"), 0);
    assert!(count(&node.attributes, "openwop.event_seq") > 0);
    let attempt = seen.span(&three, "openwop.node.core.noop.attempt");
    assert_eq!(attempt.parent_span_id, node.span_id);
    assert!(run.start_time_unix_nano <= node.start_time_unix_nano);
    assert!(node.end_time_unix_nano <= run.end_time_unix_nano);
    let ids: BTreeSet<&Vec<u8>> = seen.spans[&three]
        .iter()
        .map(|span| &span.span_id)
        .collect();
    let appends = spans_of(&seen, &three, "openwop.event.append");
    assert_eq!(
        ids.len(),
        7 + appends.len(),
        "a run, three nodes, three attempts, appends"
    );
    // Every event is in the span of its append, once, and the first names the span.
    let log = host.events(&three).await;
    let told: Vec<(String, i64)> = appends
        .iter()
        .flat_map(|span| {
            let first = &span.events[0];
            assert_eq!(text(&span.attributes, "openwop.event_type"), first.name);
            assert_eq!(
                count(&span.attributes, "openwop.event_seq"),
                count(&first.attributes, "openwop.event_seq")
            );
            span.events.iter()
        })
        .map(|event| {
            let seq = count(&event.attributes, "openwop.event_seq");
            (event.name.clone(), seq)
        })
        .collect();
    let logged: Vec<(String, i64)> = log
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap().to_owned();
            (kind, event["sequence"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(told, logged);

    let run = seen.span(&failed, "openwop.run");
    assert_eq!(run.status.as_ref().unwrap().code, 2);
    assert_ne!(run.trace_id, seen.span(&three, "openwop.run").trace_id);
    let run = seen.span(&capped, "openwop.run");
    assert_eq!(text(&run.attributes, "openwop.cap_kind"), "node-executions");
    assert_eq!(count(&run.attributes, "openwop.cap_limit"), 1);
    assert_eq!(count(&run.attributes, "openwop.cap_observed"), 2);

    let caller = seen.span(&calls, "openwop.node.core.subWorkflow");
    let is_child = |spans: &&Vec<Span>| {
        spans
            .iter()
            .any(|span| value(&span.attributes, "openwop.parent.run_id").is_some())
    };
    let child = seen.spans.values().find(is_child).expect("a child");
    let child = child
        .iter()
        .find(|span| span.name == "openwop.run")
        .unwrap();
    assert_eq!(child.trace_id, caller.trace_id);
    assert_eq!(child.parent_span_id, caller.span_id);
    assert_eq!(text(&child.attributes, "openwop.parent.run_id"), calls);
    assert_eq!(text(&child.attributes, "openwop.parent.node_id"), "call");
    assert_eq!(
        text(&child.attributes, "openwop.parent.workflow_id"),
        "calls"
    );

    let interrupt = seen.span(&asked, "openwop.interrupt");
    assert_eq!(
        text(&interrupt.attributes, "openwop.interrupt_kind"),
        "approval"
    );
    assert!(!text(&interrupt.attributes, "openwop.interrupt_id").is_empty());
    let names = seen.spans[&asked]
        .iter()
        .filter(|span| span.span_id == interrupt.parent_span_id);
    assert_eq!(names.count(), 1, "it lies in the span of its node");

    let run = seen.span(&branch, "openwop.run");
    assert_eq!(text(&run.attributes, "openwop.replay.source_run_id"), three);
    assert_eq!(count(&run.attributes, "openwop.replay.from_seq"), 5);
    assert_eq!(text(&run.attributes, "openwop.replay.mode"), "branch");
    assert_eq!(
        run.links[0].span_id,
        seen.span(&three, "openwop.run").span_id
    );
    assert_eq!(
        run.links[0].trace_id,
        seen.span(&three, "openwop.run").trace_id
    );

    let expected: [(&str, &[&str]); 12] = [
        ("openwop.cap.exceeded", &["cap_kind"]),
        (
            "openwop.interrupt.duration",
            &["interrupt_kind", "run_status"],
        ),
        ("openwop.interrupt.requested", &["interrupt_kind"]),
        ("openwop.node.completed", &["node_type", "run_status"]),
        ("openwop.node.duration", &["node_type", "run_status"]),
        ("openwop.queue.depth", &["queue_name", "tenant_id"]),
        ("openwop.queue.enqueued", &["tenant_id"]),
        ("openwop.run.active", &["tenant_id"]),
        ("openwop.run.backlog", &["tenant_id", "workflow_id"]),
        (
            "openwop.run.completed",
            &["run_status", "tenant_id", "workflow_id"],
        ),
        ("openwop.run.created", &["tenant_id", "workflow_id"]),
        ("openwop.run.duration", &["run_status", "workflow_id"]),
    ];
    for (name, wanted) in expected {
        let metric = &seen.metrics[name];
        let wanted: BTreeSet<String> =
            (wanted.iter().map(|label| format!("openwop.{label}"))).collect();
        assert_eq!(labels(metric), wanted, "{name}");
    }
    let known: BTreeSet<&str> = expected.iter().map(|(name, _)| *name).collect();
    let names: BTreeSet<&str> = seen.metrics.keys().map(String::as_str).collect();
    assert_eq!(names, known);
    for name in names {
        let found = telemetry::METRICS.iter().find(|metric| metric.name == name);
        let listed = found.unwrap_or_else(|| panic!("{name} is not in the list"));
        let prefixed = |label: &&str| match *label {
            "provider" | "direction" | "transport" => (*label).to_owned(),
            label => format!("openwop.{label}"),
        };
        let wanted: BTreeSet<String> = listed.attributes.iter().map(prefixed).collect();
        assert_eq!(labels(&seen.metrics[name]), wanted, "{name}");
    }
    // The wait of the run that began last, in addition to the histogram of all.
    let backlog = &seen.gauges["openwop.run.backlog"];
    assert!(!backlog.data_points.is_empty());
    for point in &backlog.data_points {
        let Some(AsDouble(seconds)) = point.value else {
            panic!("a number of seconds: {point:?}")
        };
        assert!((0.0..60.0).contains(&seconds), "{seconds}");
    }
    assert!(matches!(
        seen.metrics["openwop.run.backlog"].data,
        Some(Data::Histogram(_))
    ));
    assert_eq!(total(&seen.metrics["openwop.cap.exceeded"]), 1.0);
    assert_eq!(total(&seen.metrics["openwop.interrupt.requested"]), 1.0);
    let Some(Data::Histogram(duration)) = &seen.metrics["openwop.run.duration"].data else {
        panic!("no histogram");
    };
    let bounds = [
        0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0,
    ];
    let mut ended = 0;
    for point in &duration.data_points {
        assert_eq!(point.explicit_bounds, bounds);
        assert_eq!(point.bucket_counts.len(), bounds.len() + 1);
        ended += point.count;
    }
    assert_eq!(ended, 7);
    assert_eq!(seen.metrics["openwop.run.duration"].unit, "s");
    let Some(Data::Sum(active)) = &seen.metrics["openwop.run.active"].data else {
        panic!("no level");
    };
    assert!(!active.is_monotonic, "it goes up and down");

    let text = String::from_utf8(host.get("/metrics").await.body).unwrap();
    for line in [
        "openwop_run_completed_total{run_status=\"completed\"} 5",
        "openwop_run_completed_total{run_status=\"failed\"} 2",
        "openwop_run_created_total 7",
        "openwop_queue_enqueued_total 7",
        "openwop_run_active 0",
        "openwop_run_backlog_seconds_count 6",
        "openwop_cap_exceeded_total{cap_kind=\"node-executions\"} 1",
        "openwop_run_duration_seconds_count{run_status=\"completed\"} 5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("acme") && !text.contains("three"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    host.stop().await;
}

#[tokio::test]
async fn an_unreachable_collector_causes_no_error() {
    let host = Host::new().await;
    let otlp = |endpoint: &str| Otlp {
        endpoint: endpoint.parse().unwrap(),
        protocol: Protocol::Protobuf,
        headers: None,
        service: "runwright".into(),
    };
    telemetry::export(&host.engine, &otlp("http://127.0.0.1:1")).unwrap();
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let snapshot: Value = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "completed");
    let refused = telemetry::export(&host.engine, &otlp("ftp://127.0.0.1"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the OTLP endpoint must be an http or https URL"
    );
    host.stop().await;
}

/// How many observations a histogram has, by the values of two attributes.
fn observed(metric: &Metric, labels: [&str; 2]) -> BTreeMap<[String; 2], u64> {
    let Some(Data::Histogram(all)) = &metric.data else {
        panic!("{} is no histogram", metric.name);
    };
    let points = all.data_points.iter();
    let of = |attributes: &[KeyValue]| labels.map(|label| text(attributes, label));
    points.map(|it| (of(&it.attributes), it.count)).collect()
}

#[tokio::test]
async fn attempts_are_measured_one_by_one_and_tags_stand_on_the_span() {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let peer = Receiver::answering(move |_| {
        let nth = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Some((if nth == 0 { 500 } else { 200 }, "{}".to_owned()))
    });
    let peer = peer.await;
    let host = Host::asking(&[peer.address.to_string()]).await;
    let collector = collected(&host, Protocol::Json).await;
    let config = json!({ "url": peer.url() });
    let mut asks = crate::host::node("ask", "runwright.http", config);
    asks["settings"] = json!({ "retry": { "maxRetries": 1, "backoff": { "initialMs": 1 } } });
    let mut flow = chain("asks", &[asks]);
    flow["metadata"] = json!({ "complianceClass": "phi" });
    host.put(&[flow]).await;
    let run = host
        .completed(&json!({ "workflowId": "asks", "tags": ["red", "blue"] }))
        .await;
    assert_eq!(host.snapshot(&run).await["status"], "completed");
    let seen = Seen::all(&collector, &[&run], 1.0).await;
    let once = |of: &str, status: &str| ([of.to_owned(), status.to_owned()], 1);
    assert_eq!(
        observed(
            &seen.metrics["openwop.node.duration"],
            ["openwop.node_type", "openwop.run_status"]
        ),
        [
            once("runwright.http", "completed"),
            once("runwright.http", "failed")
        ]
        .into()
    );
    assert_eq!(
        observed(
            &seen.metrics["openwop.activity.duration"],
            ["provider", "openwop.run_status"]
        ),
        [once("http", "error"), once("http", "success")].into()
    );
    let span = seen.span(&run, "openwop.run");
    let Some(Any::ArrayValue(tags)) = value(&span.attributes, "openwop.run.tags") else {
        panic!("{span:?}");
    };
    let tags: Vec<_> = tags.values.into_iter().map(|tag| tag.value).collect();
    let tag = |tag: &str| Some(Any::StringValue(tag.into()));
    assert_eq!(tags, [tag("red"), tag("blue")]);
    assert_eq!(text(&span.attributes, "openwop.compliance_class"), "phi");
}
