//! Spans and metrics in OTLP.

use bytes::Bytes;
use kernel::time::Timestamp;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span, status,
};
use serde::Serialize;

use super::Protocol;
use super::meters::{Values, nanos};
use super::spans::{self, Attribute};

/// The bytes of a request.
pub(super) fn encode<M: prost::Message + Serialize>(message: &M, protocol: Protocol) -> Bytes {
    match protocol {
        Protocol::Protobuf => message.encode_to_vec().into(),
        // Every message has a JSON form.
        Protocol::Json => serde_json::to_vec(message).unwrap_or_default().into(),
    }
}

/// A request with spans.
pub(super) fn traces(service: &str, spans: &[spans::Span]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource(service)),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans: spans.iter().map(span_of).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn span_of(span: &spans::Span) -> Span {
    let attribute = |name: &str, value: &Attribute| {
        text_or(
            name,
            match value {
                Attribute::Text(text) => Value::StringValue(text.clone()),
                Attribute::Count(count) => {
                    Value::IntValue(i64::try_from(*count).unwrap_or(i64::MAX))
                }
                Attribute::Number(number) => Value::DoubleValue(*number),
                Attribute::Flag(flag) => Value::BoolValue(*flag),
                Attribute::Texts(texts) => Value::ArrayValue(ArrayValue {
                    values: (texts
                        .iter()
                        .map(|text| any(Value::StringValue(text.clone()))))
                    .collect(),
                }),
            },
        )
    };
    let attributes = span.attributes.iter();
    let attributes = attributes.map(|(name, value)| attribute(name, value));
    let events = span.events.iter().map(|moment| span::Event {
        time_unix_nano: nanos(moment.at),
        name: moment.name.clone(),
        attributes: vec![attribute("openwop.event_seq", &moment.seq.into())],
        ..span::Event::default()
    });
    let link = span.link.map(|(trace, id)| span::Link {
        trace_id: trace.to_vec(),
        span_id: id.to_vec(),
        ..span::Link::default()
    });
    let code = match &span.error {
        Some(_) => status::StatusCode::Error,
        None => status::StatusCode::Ok,
    };
    Span {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: if span.is_call {
            span::SpanKind::Client.into()
        } else {
            span::SpanKind::Internal.into()
        },
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end.unwrap_or(span.start)),
        attributes: attributes.collect(),
        events: events.collect(),
        links: link.into_iter().collect(),
        status: Some(Status {
            message: span.error.clone().unwrap_or_default(),
            code: code.into(),
        }),
        ..Span::default()
    }
}

/// A request with all metrics since `began`.
pub(super) fn metrics(
    service: &str,
    values: &Values,
    (queue, depth): (&str, Option<usize>),
    began: Timestamp,
    now: Timestamp,
) -> ExportMetricsServiceRequest {
    let (start, time) = (nanos(began), nanos(now));
    let mut metrics: Vec<Metric> = Vec::new();
    for ((name, labels), value) in &values.counters {
        let point = NumberDataPoint {
            attributes: labels.iter().map(label).collect(),
            start_time_unix_nano: start,
            time_unix_nano: time,
            value: Some(number_data_point::Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        };
        let metric = one_more(&mut metrics, name, unit(name), || {
            metric::Data::Sum(Sum {
                data_points: Vec::new(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            })
        });
        if let Some(metric::Data::Sum(sum)) = &mut metric.data {
            sum.data_points.push(point);
        }
    }
    let point = |labels: Vec<KeyValue>, value: f64| NumberDataPoint {
        attributes: labels,
        start_time_unix_nano: start,
        time_unix_nano: time,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    for ((name, labels), value) in &values.levels {
        let metric = one_more(&mut metrics, name, "1", || {
            metric::Data::Sum(Sum {
                data_points: Vec::new(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: false,
            })
        });
        if let Some(metric::Data::Sum(sum)) = &mut metric.data {
            sum.data_points
                .push(point(labels.iter().map(label).collect(), *value));
        }
    }
    if let Some(depth) = depth {
        let labels = [("tenant_id", "all"), ("queue_name", queue)];
        let labels = labels.map(|(name, value)| label(&(name, value.to_owned())));
        #[expect(clippy::cast_precision_loss, reason = "a count is exact enough")]
        let depth = depth as f64;
        metrics.push(Metric {
            name: "openwop.queue.depth".into(),
            unit: "{run}".into(),
            data: Some(metric::Data::Gauge(Gauge {
                data_points: vec![point(labels.into(), depth)],
            })),
            ..Metric::default()
        });
    }
    for ((name, labels), value) in &values.histograms {
        let point = HistogramDataPoint {
            attributes: labels.iter().map(label).collect(),
            start_time_unix_nano: start,
            time_unix_nano: time,
            count: value.counts.iter().sum(),
            sum: Some(value.sum),
            bucket_counts: value.counts.clone(),
            explicit_bounds: value.bounds.to_vec(),
            ..HistogramDataPoint::default()
        };
        let unit = match *name {
            "openwop.orchestrator.iterations" => "1",
            _ => "s",
        };
        let metric = one_more(&mut metrics, name, unit, || {
            metric::Data::Histogram(Histogram {
                data_points: Vec::new(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
            })
        });
        if let Some(metric::Data::Histogram(histogram)) = &mut metric.data {
            histogram.data_points.push(point);
        }
    }
    let mut gauges: Vec<Metric> = Vec::new();
    for ((name, labels), value) in &values.latest {
        let metric = one_more(&mut gauges, name, "s", || {
            metric::Data::Gauge(Gauge {
                data_points: Vec::new(),
            })
        });
        if let Some(metric::Data::Gauge(gauge)) = &mut metric.data {
            gauge
                .data_points
                .push(point(labels.iter().map(label).collect(), *value));
        }
    }
    // They share names with metrics of another kind: a scope of their own separates them.
    let latest = InstrumentationScope {
        name: "runwright.latest".into(),
        ..scope()
    };
    let scopes = [(latest, gauges), (scope(), metrics)];
    let scopes = scopes.into_iter().filter(|(_, of)| !of.is_empty());
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource(service)),
            scope_metrics: scopes
                .map(|(scope, metrics)| ScopeMetrics {
                    scope: Some(scope),
                    metrics,
                    ..ScopeMetrics::default()
                })
                .collect(),
            ..ResourceMetrics::default()
        }],
    }
}

/// The metric of a name: the last one or a new one.
fn one_more<'a>(
    metrics: &'a mut Vec<Metric>,
    name: &str,
    unit: &str,
    data: impl FnOnce() -> metric::Data,
) -> &'a mut Metric {
    let last = metrics.last().is_some_and(|last| last.name == name);
    if !last {
        metrics.push(Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            data: Some(data()),
            ..Metric::default()
        });
    }
    let at = metrics.len() - 1;
    &mut metrics[at]
}

fn unit(name: &str) -> &'static str {
    match name {
        "openwop.activity.tokens" => "{token}",
        "openwop.cost.usd" => "USD",
        _ => "1",
    }
}

/// The protocol's own attributes are in its namespace; a few have plain names.
fn label((name, value): &(&'static str, String)) -> KeyValue {
    let value = Value::StringValue(value.clone());
    match *name {
        "provider" | "direction" | "transport" => text_or(name, value),
        name => text_or(&format!("openwop.{name}"), value),
    }
}

fn text_or(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    }
}

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn resource(service: &str) -> Resource {
    let text = |name: &str, value: &str| text_or(name, Value::StringValue(value.to_owned()));
    Resource {
        attributes: vec![
            text("service.name", service),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ],
        ..Resource::default()
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "runwright".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    }
}
