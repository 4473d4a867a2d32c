//! `kill -9` of the player at any moment of a session with parallel groups.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{checkpoint, member, node, statuses, template};
use crate::support::{Lab, Random};

/// Kills of one session.
const KILLS: u64 = 3;

/// Each start is recorded with its key; the output is the node's name and its input.
const SCRIPT: &str = "echo \"$WF_NODE_ID $WF_ATTEMPT_KEY\" >> starts; head -c 4000000 /dev/urandom \
                      | cksum > /dev/null; echo \"out of $WF_NODE_ID after [$1]\"";

/// Thirty nodes: chains, groups of three, checkpoints that continue.
fn thirty() -> Value {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut before: Vec<String> = Vec::new();
    while nodes.len() < 30 {
        let n = nodes.len();
        let batch: Vec<Value> = match n % 6 {
            1 => (n..n + 3)
                .map(|at| member(&format!("g{n}"), &format!("N-{at:03}"), SCRIPT))
                .collect(),
            4 => vec![checkpoint(&format!("CP-{n:03}"), true)],
            _ => vec![node(&format!("N-{n:03}"), SCRIPT, "{prev_output}")],
        };
        let ids: Vec<String> = batch
            .iter()
            .map(|node| node["id"].as_str().unwrap().to_owned())
            .collect();
        for (from, to) in before
            .iter()
            .flat_map(|from| ids.iter().map(move |to| (from, to)))
        {
            edges.push(json!({ "from": from, "to": to }));
        }
        nodes.extend(batch);
        before = ids;
    }
    template(&nodes, &edges)
}

/// A state without times and ids.
fn essence(state: &Value) -> Value {
    let mut state = state.clone();
    let id = state["session_id"].as_str().unwrap().to_owned();
    let object = state.as_object_mut().unwrap();
    for key in ["created_at", "updated_at", "completed_at", "x_play"] {
        object.remove(key);
    }
    for (_, node) in object["node_states"].as_object_mut().unwrap() {
        for key in ["started_at", "completed_at", "saved_at"] {
            if let Some(time) = node.get_mut(key) {
                *time = json!(time.is_string());
            }
        }
    }
    serde_json::from_str(&state.to_string().replace(&id, "SESSION")).unwrap()
}

#[test]
fn soak_player() {
    let undisturbed = Lab::with_template(&thirty());
    undisturbed.call(&["play", "sample", "--quiet"]).with(0);
    let expected = essence(&undisturbed.state());
    let outputs = undisturbed.outputs();
    let (mut kills, mut again) = (0, 0);
    for seed in testkit::seeds(3, 150) {
        let survived = survive(seed, &expected, &outputs);
        kills += survived.0;
        again += survived.1;
    }
    testkit::figures(
        "soak_player",
        &format!("{kills} kills of the player, {again} nodes started again"),
    );
}

impl Lab {
    /// The output of every node.
    fn outputs(&self) -> BTreeMap<String, String> {
        let folder = self.sessions()[0].join("artifacts");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        files
            .map(|file| {
                let name = file.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(file.path()).unwrap())
            })
            .collect()
    }

    /// The session in which a player was killed, if it had begun.
    fn begun(&self) -> Option<Value> {
        let known = self.call(&["play", "--status", "--json"]);
        known.with(0).json_lines().into_iter().next()
    }
}

/// Kills a session, then lets it end; returns the numbers of kills and of restarted nodes.
fn survive(seed: u64, expected: &Value, outputs: &BTreeMap<String, String>) -> (u64, usize) {
    let mut random = Random::from_seed(seed);
    let lab = Lab::with_template(&thirty());
    let mut kills = 0;
    // By node: the kills during its attempt.
    let mut hit: BTreeMap<String, usize> = BTreeMap::new();
    let mut args = vec!["play".to_owned(), "sample".to_owned()];
    for _ in 0..KILLS {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut engine = lab.engine(&words);
        let lines = random.below(70);
        if (0..lines).any(|_| engine.next().is_none()) {
            engine.end();
        } else {
            engine.kill();
            kills += 1;
        }
        // Completed nodes of the log must not start again; nodes in flight may, once.
        let Some(state) = lab.begun() else { continue };
        for (node, of) in state["node_states"].as_object().unwrap() {
            if of["status"] == "running" {
                *hit.entry(node.clone()).or_default() += 1;
            }
        }
        let id = state["session_id"].as_str().unwrap().to_owned();
        args = vec!["play".into(), "--resume".into(), id];
    }
    args.push("--quiet".into());
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = lab.call(&words);
    assert_eq!(ended.code, 0, "seed {seed}: {ended:#?}");
    let state = lab.state();
    assert_eq!(essence(&state), *expected, "seed {seed}");
    assert!(statuses(&state).iter().all(|status| status == "completed"));
    assert_eq!(lab.outputs(), *outputs, "seed {seed}");

    let noted = lab.read("starts");
    let mut starts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in noted.lines() {
        let (node, key) = line.split_once(' ').unwrap();
        starts.entry(node).or_default().push(key);
    }
    for (node, keys) in &starts {
        let allowed = 1 + hit.get(*node).copied().unwrap_or(0);
        let count = keys.len();
        assert!(
            count <= allowed,
            "seed {seed}: {node} began {count} times, may {allowed}"
        );
        assert!(
            keys.iter().all(|key| key == &keys[0]),
            "seed {seed}: {node} had other keys"
        );
    }
    lab.call(&["verify"]).with(0);
    (kills, noted.lines().count() - starts.len())
}
