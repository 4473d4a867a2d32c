//! Metrics as text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use super::meters::{Histogram, Meters, NOT_SECONDS, Series};

/// Attributes that name objects of a tenant: exported by OTLP only.
const OF_TENANTS: [&str; 2] = ["tenant_id", "workflow_id"];

/// A page of metrics.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// Begins a metric of a kind: `counter`, `gauge` or `histogram`.
    pub fn metric(&mut self, name: &str, kind: &str, help: Option<&str>) {
        if let Some(help) = help {
            let _ = writeln!(self.0, "# HELP {name} {help}.");
        }
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// Adds a value of the metric.
    pub fn value(&mut self, name: &str, labels: &[(&str, String)], value: impl Display) {
        let _ = writeln!(self.0, "{name}{} {value}", braces(labels, None));
    }

    /// Adds a histogram of the metric.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, String)], histogram: &Histogram) {
        let bounds = histogram.bounds.iter().map(f64::to_string);
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, of_bucket) in bounds.zip(&histogram.counts) {
            count += of_bucket;
            let labels = braces(labels, Some(&bound));
            let _ = writeln!(self.0, "{name}_bucket{labels} {count}");
        }
        self.value(&format!("{name}_sum"), labels, histogram.sum);
        self.value(&format!("{name}_count"), labels, count);
    }

    /// The text of the page.
    pub fn finish(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

impl Meters {
    /// Adds all metrics of runs, without attributes that name objects of a tenant.
    pub fn print(&self, page: &mut Page) {
        let values = self.values();
        let mut last = "";
        let mut begin = |page: &mut Page, name: &'static str, metric: &str, kind: &str| {
            if name != last {
                page.metric(metric, kind, None);
                last = name;
            }
        };
        for ((name, labels), value) in plain(values.counters, |sum: &mut f64, one| *sum += one) {
            let metric = name.replace('.', "_");
            begin(page, name, &metric, "counter");
            page.value(&format!("{metric}_total"), &labels, value);
        }
        for ((name, labels), value) in plain(values.levels, |sum: &mut f64, one| *sum += one) {
            let metric = name.replace('.', "_");
            begin(page, name, &metric, "gauge");
            page.value(&metric, &labels, value);
        }
        let add = |sum: &mut Histogram, one: Histogram| {
            sum.sum += one.sum;
            let pairs = sum.counts.iter_mut().zip(one.counts);
            pairs.for_each(|(sum, one)| *sum += one);
        };
        for ((name, labels), value) in plain(values.histograms, add) {
            let mut metric = name.replace('.', "_");
            if name != NOT_SECONDS {
                metric.push_str("_seconds");
            }
            begin(page, name, &metric, "histogram");
            page.histogram(&metric, &labels, &value);
        }
    }
}

/// The series without attributes that name objects of a tenant, added up.
fn plain<V>(series: BTreeMap<Series, V>, mut add: impl FnMut(&mut V, V)) -> BTreeMap<Series, V> {
    let mut sums: BTreeMap<Series, V> = BTreeMap::new();
    for ((name, mut labels), value) in series {
        labels.retain(|(label, _)| !OF_TENANTS.contains(label));
        match sums.get_mut(&(name, labels.clone())) {
            Some(sum) => add(sum, value),
            None => {
                sums.insert((name, labels), value);
            }
        }
    }
    sums
}

fn braces(labels: &[(&str, String)], bound: Option<&str>) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let mut parts: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    parts.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    if parts.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", parts.join(","))
    }
}
