//! The node types and the keys of their `config`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{check_page, schema};
use crate::support::Lab;

/// Types that only tests of the protocol use.
const FOR_TESTS: &str = "conformance.";

#[test]
fn reference_of_node_types_is_current() {
    let listed = Lab::new().call(&["workflow", "nodes", "--json"]).with(0);
    let mut text = String::from(
        "Control nodes are decided by the engine alone; work nodes do something outside it. \
         `runwright workflow nodes --json` prints the same as JSON Schema. Keys with a dot belong \
         to an object, keys with `[]` to each element of an array.\n\n",
    );
    // Types with the same keys are described together.
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for node in listed.json_lines() {
        let id = node["typeId"].as_str().unwrap();
        if !id.starts_with(FOR_TESTS) {
            let table = schema::table(&node["configSchema"]);
            let key = if table.is_empty() {
                id.to_owned()
            } else {
                table
            };
            groups.entry(key).or_default().push(node);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(_, a), (_, b)| a[0]["typeId"].as_str().cmp(&b[0]["typeId"].as_str()));
    for (table, nodes) in groups {
        let ids: Vec<&str> = nodes
            .iter()
            .filter_map(|node| node["typeId"].as_str())
            .collect();
        text.push_str(&format!("## {}\n\n", ids.join(", ")));
        for node in &nodes {
            let of = |name: &str| node[name].as_str().unwrap_or_default();
            let id = match nodes.len() {
                1 => String::new(),
                _ => format!("`{}`: ", of("typeId")),
            };
            text.push_str(&format!("{id}{} ({} node)\n\n", of("summary"), of("kind")));
        }
        match (
            table.starts_with('|'),
            &nodes[0]["configSchema"]["additionalProperties"],
        ) {
            (true, _) => text.push_str(&table),
            (false, Value::Bool(false)) => text.push_str("No keys.\n\n"),
            (false, _) => text.push_str("No keys of its own; others are kept.\n\n"),
        }
    }
    check_page("nodes.md", "Node types", &text);
}
