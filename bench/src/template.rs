//! A template of 10,000 nodes: read and planned, as every session and every dry run begins, and
//! compiled to a definition, as a session continues. It has chains, groups of nine, and in each
//! node a reference to an earlier one.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use faces::player::compile::{self, Settings as CompileSettings};
use faces::player::template::Template;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use serde_json::json;

use crate::series::Series;
use crate::{Benchmark, Settings};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "template",
    about: "read, plan and compile a workflow template of 10,000 nodes",
    run,
};

/// Nodes between two that run alone.
const GROUP: usize = 9;

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let count = settings.count(10_000);
    let text = template(count);
    let plans = Plans::new(Arc::new(Registry::standard()));
    let (mut planned, mut compiled) = (Vec::new(), Vec::new());
    for _ in 0..settings.repeat {
        let began = Instant::now();
        let template = Template::parse(&text, &BTreeSet::new()).map_err(io::Error::other)?;
        let plan = black_box(&template.plan);
        planned.push(began.elapsed().as_secs_f64() * 1e3);

        let began = Instant::now();
        let compiling = CompileSettings {
            context: ["goal".to_owned()].into(),
            ..CompileSettings::default()
        };
        let definition = compile::compile(&template, plan, &compiling);
        let document = serde_json::to_vec(&definition).map_err(io::Error::other)?;
        black_box(plans.compile(&document).map_err(io::Error::other)?);
        compiled.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let series = |what: &str, samples| Series {
        name: format!("template/{what}/{count}"),
        unit: "ms",
        samples,
    };
    Ok(vec![series("plan", planned), series("compile", compiled)])
}

fn template(count: usize) -> Vec<u8> {
    let id = |n: usize| format!("N-{n:05}");
    let is_alone = |n: usize| n.is_multiple_of(GROUP + 1);
    let node = |n: usize| {
        json!({
            "id": id(n), "name": format!("Step {n}"), "type": "skill", "executor": "flow-step",
            "args_template": format!("{{goal}} after {{{}.output_path}}", id(n.saturating_sub(GROUP + 1))),
            "input_ports": [], "output_ports": [], "on_fail": "abort",
            "parallel_group": (!is_alone(n)).then(|| format!("g{}", n / (GROUP + 1))),
        })
    };
    let mut edges = Vec::new();
    for n in 1..count {
        if is_alone(n) {
            edges.extend((n - GROUP..n).map(|before| (before, n)))
        } else {
            edges.push((n - n % (GROUP + 1), n))
        }
    }
    let edges: Vec<_> = edges
        .into_iter()
        .map(|(from, to)| json!({ "from": id(from), "to": id(to) }))
        .collect();
    let document = json!({
        "template_id": "wft-large-20260310", "name": "Large",
        "context_schema": { "goal": { "type": "string", "required": true } },
        "nodes": (0..count).map(node).collect::<Vec<_>>(), "edges": edges,
    });
    serde_json::to_vec_pretty(&document).unwrap_or_default()
}
