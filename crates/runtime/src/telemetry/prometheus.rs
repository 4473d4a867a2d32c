//! Metrics as text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::meters::{Histogram, Meters, NOT_SECONDS, Series};

/// Attributes that name objects of a tenant: exported by OTLP only.
const OF_TENANTS: [&str; 2] = ["tenant_id", "workflow_id"];

impl Meters {
    /// All metrics for Prometheus, without attributes that name objects of a tenant.
    pub fn text(&self) -> String {
        let values = self.values();
        let mut text = String::new();
        let mut last = "";
        for ((name, labels), value) in plain(values.counters, |sum: &mut f64, one| *sum += one) {
            let metric = name.replace('.', "_");
            if name != last {
                let _ = writeln!(text, "# TYPE {metric} counter");
                last = name;
            }
            let _ = writeln!(text, "{metric}_total{} {value}", braces(&labels, None));
        }
        for ((name, labels), value) in plain(values.levels, |sum: &mut f64, one| *sum += one) {
            let metric = name.replace('.', "_");
            if name != last {
                let _ = writeln!(text, "# TYPE {metric} gauge");
                last = name;
            }
            let _ = writeln!(text, "{metric}{} {value}", braces(&labels, None));
        }
        let add = |sum: &mut Histogram, one: Histogram| {
            sum.sum += one.sum;
            let pairs = sum.counts.iter_mut().zip(one.counts);
            pairs.for_each(|(sum, one)| *sum += one);
        };
        for ((name, labels), value) in plain(values.histograms, add) {
            let metric = match name {
                NOT_SECONDS => name.replace('.', "_"),
                _ => format!("{}_seconds", name.replace('.', "_")),
            };
            if name != last {
                let _ = writeln!(text, "# TYPE {metric} histogram");
                last = name;
            }
            let mut count = 0;
            for (n, of_bucket) in value.counts.iter().enumerate() {
                count += of_bucket;
                let bound = value
                    .bounds
                    .get(n)
                    .map_or("+Inf".to_owned(), f64::to_string);
                let labels = braces(&labels, Some(&bound));
                let _ = writeln!(text, "{metric}_bucket{labels} {count}");
            }
            let labels = braces(&labels, None);
            let _ = writeln!(text, "{metric}_sum{labels} {}", value.sum);
            let _ = writeln!(text, "{metric}_count{labels} {count}");
        }
        text
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

fn braces(labels: &[(&'static str, String)], bound: Option<&str>) -> String {
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
