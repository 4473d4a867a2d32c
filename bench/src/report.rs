//! Results for people and for programs.

use serde_json::json;

use crate::machine::Machine;
use crate::series::Series;

/// All measurements, samples included.
pub(crate) fn json(machine: &Machine, all: &[Series]) -> String {
    let series: Vec<serde_json::Value> = all
        .iter()
        .map(|series| {
            json!({
                "name": series.name,
                "unit": series.unit,
                "median": series.median(),
                "min": series.min(),
                "max": series.max(),
                "spreadPercent": series.spread(),
                "samples": series.samples,
            })
        })
        .collect();
    format!("{:#}", json!({ "machine": machine, "series": series }))
}

/// A Markdown table for documents.
pub(crate) fn table(machine: &Machine, all: &[Series]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "{}, {} cores, {} MiB, Linux {}, {}, load {}, {} build\n\n",
        machine.cpu,
        machine.cores,
        known(machine.memory_mib.map(|mib| mib.to_string())),
        machine.kernel,
        machine.filesystem,
        known(machine.load.map(|load| load.to_string())),
        machine.profile,
    );
    let row = |cells: [&str; 6]| {
        let [name, unit, numbers @ ..] = cells;
        let numbers = numbers.map(|number| format!("{number:>12} |")).join(" ");
        format!("| {name:<32} | {unit:<10} | {numbers}\n")
    };
    text += &row(["measurement", "unit", "median", "min", "max", "spread"]);
    text += "|---|---|--:|--:|--:|--:|\n";
    for series in all {
        text += &row([
            &series.name,
            series.unit,
            &figure(series.median()),
            &figure(series.min()),
            &figure(series.max()),
            &format!("{:.0} %", series.spread()),
        ]);
    }
    let samples = all
        .iter()
        .map(|series| series.samples.len())
        .max()
        .unwrap_or(0);
    text + &format!("\n{samples} samples each; spread is (max - min) / median")
}

/// About three significant digits.
fn figure(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> (Machine, Vec<Series>) {
        let machine = Machine {
            cpu: "Some CPU".to_owned(),
            cores: 2,
            memory_mib: None,
            kernel: "6.1".to_owned(),
            filesystem: "ext4".to_owned(),
            load: Some(0.25),
            profile: "optimised",
        };
        let samples = vec![4_000.0, 5_000.0, 4_500.0];
        let series = Series {
            name: "raw-log/1-writer".to_owned(),
            unit: "events/s",
            samples,
        };
        (machine, vec![series])
    }

    #[test]
    fn the_table_has_the_machine_and_a_row_per_series() {
        let (machine, series) = results();
        let text = table(&machine, &series);
        assert!(text.starts_with("Some CPU, 2 cores, unknown MiB, Linux 6.1, ext4, load 0.25"));
        let row: Vec<&str> = text
            .lines()
            .find(|line| line.contains("raw-log"))
            .into_iter()
            .flat_map(|line| line.split('|').map(str::trim))
            .collect();
        assert_eq!(
            row,
            [
                "",
                "raw-log/1-writer",
                "events/s",
                "4500",
                "4000",
                "5000",
                "22 %",
                ""
            ]
        );
    }

    #[test]
    fn the_json_keeps_every_sample() {
        let (machine, series) = results();
        let value: serde_json::Value = serde_json::from_str(&json(&machine, &series)).unwrap();
        assert_eq!(value["machine"]["cores"], 2);
        assert_eq!(
            value["series"][0]["samples"],
            json!([4_000.0, 5_000.0, 4_500.0])
        );
        assert_eq!(value["series"][0]["median"], 4_500.0);
    }
}
