//! The metrics: those of runs from the table of the engine, those of a server as it prints them.

use runtime::telemetry::METRICS;

use super::{cell, check_page, head, row};
use crate::secrets::send;
use crate::serving::{Serving, lab};

#[test]
fn reference_of_metrics_is_current() {
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    send(&serving, "", "GET", "/healthz", "");
    let (status, printed) = send(&serving, "", "GET", "/metrics", "");
    assert_eq!(status, 200, "{printed}");
    serving.stop();

    let mut text = String::from(
        "## Runs\n\nSent by OTLP under these names. `GET /metrics` prints the same with `_` instead \
         of `.`, summed over tenants and workflows.\n\n",
    );
    text.push_str(&head(&["Metric", "Kind", "Attributes", "Description"]));
    for metric in METRICS {
        let attributes: Vec<String> =
            (metric.attributes.iter().map(|name| format!("`{name}`"))).collect();
        let name = format!("`{}`", metric.name);
        let cells = [
            &name,
            metric.kind.as_str(),
            &attributes.join(", "),
            &cell(metric.about),
        ];
        text.push_str(&row(&cells));
    }
    text.push_str("\n## Server\n\nPrinted by `GET /metrics` only.\n\n");
    text.push_str(&head(&["Metric", "Kind", "Labels", "Description"]));
    let helped = printed
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "));
    for (name, about) in helped.filter_map(|line| line.split_once(' ')) {
        let kind = format!("# TYPE {name} ");
        let kind = printed
            .lines()
            .find_map(|line| line.strip_prefix(&kind))
            .unwrap();
        let name = format!("`{name}`");
        text.push_str(&row(&[
            &name,
            kind,
            &labels(&printed, name.trim_matches('`')),
            &cell(about),
        ]));
    }
    check_page("metrics.md", "Metrics", &text);
}

/// The labels of a metric's samples, but for the bound of a bucket.
fn labels(printed: &str, name: &str) -> String {
    let samples = printed.lines().filter(|line| line.starts_with(name));
    let braces = samples.filter_map(|line| line.split_once('{')?.1.split_once('}'));
    let Some((labels, _)) = braces.max_by_key(|(labels, _)| labels.len()) else {
        return String::new();
    };
    let names = labels.split(',').filter_map(|label| label.split_once('='));
    let names = names.filter(|(name, _)| *name != "le");
    let names: Vec<String> = names.map(|(name, _)| format!("`{name}`")).collect();
    names.join(", ")
}
