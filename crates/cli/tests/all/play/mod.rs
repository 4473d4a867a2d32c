//! `runwright play`: templates, real processes, files on disk.

mod crash;
mod documented;
mod ending;
mod evidence;
mod failing;
mod files;
mod going_on;
mod messages;
mod neighbours;
mod others;
mod outside;
mod playing;
mod replanning;
mod rounds;
mod terminal;
mod values;
mod watching;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::Lab;

/// Executors of every type: the called command is a script, and its arguments are `$1`.
const SHELL: &str = r#"
[[executor]]
type = "skill"
preset = "shell"
[[executor]]
type = "command"
preset = "shell"
[[executor]]
type = "agent"
preset = "shell"
[[executor]]
type = "cli"
argv = ["sh", "-c", "{executor}", "sh", "{args}", "{cli_tool}", "{cli_mode}", ["rule", "{cli_rule}"]]
"#;

/// A node that runs a script.
pub(crate) fn node(id: &str, script: &str, args: &str) -> Value {
    json!({
        "id": id, "name": id, "type": "skill", "executor": script, "args_template": args,
    })
}

/// A member of a parallel group.
fn member(group: &str, id: &str, script: &str) -> Value {
    let mut node = node(id, script, "");
    node["parallel_group"] = json!(group);
    node
}

/// A checkpoint.
pub(crate) fn checkpoint(id: &str, is_auto: bool) -> Value {
    json!({ "id": id, "name": id, "type": "checkpoint", "auto_continue": is_auto })
}

/// A template of sequential nodes.
pub(crate) fn chain(nodes: &[Value]) -> Value {
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| json!({ "from": pair[0]["id"], "to": pair[1]["id"] }))
        .collect();
    template(nodes, &edges)
}

fn template(nodes: &[Value], edges: &[Value]) -> Value {
    json!({
        "template_id": "wft-sample-20260310", "name": "Sample", "tags": ["custom"],
        "context_schema": {}, "nodes": nodes, "edges": edges,
    })
}

impl Lab {
    /// A project with executors and a template `sample`.
    pub(crate) fn with_template(template: &Value) -> Self {
        let lab = Self::new();
        lab.write("runwright.toml", SHELL);
        lab.template("sample", template);
        lab
    }

    fn template(&self, slug: &str, template: &Value) {
        let folder = self.path().join(".workflow/templates");
        fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string_pretty(template).unwrap();
        fs::write(folder.join(format!("{slug}.json")), text).unwrap();
    }

    /// The state file of a session that another player began.
    fn left_by_another(&self, state: &Value) {
        let id = state["session_id"].as_str().unwrap();
        let folder = self.path().join(".workflow/sessions").join(id);
        fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string_pretty(state).unwrap();
        fs::write(folder.join("session-state.json"), text).unwrap();
    }

    /// A named pipe: opening it waits for the other end.
    fn pipe(&self, name: &str) {
        let path = self.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    }

    /// The folders of sessions, oldest first.
    fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join(".workflow/sessions"));
        let folders = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let mut folders: Vec<PathBuf> = folders
            .filter(|path| path.file_name().unwrap() != "archive")
            .collect();
        folders.sort();
        folders
    }

    /// The id of the only session.
    #[track_caller]
    fn session(&self) -> String {
        let folders = self.sessions();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// The id of the one session other than the known ones.
    #[track_caller]
    fn newest(&self, known: &[&str]) -> String {
        let names = self.sessions().into_iter();
        let names = names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut new: Vec<String> = names.filter(|id| !known.contains(&id.as_str())).collect();
        assert_eq!(new.len(), 1, "{new:?}");
        new.remove(0)
    }

    /// Its state, from the file.
    #[track_caller]
    fn state(&self) -> Value {
        self.state_of(&self.session())
    }

    #[track_caller]
    fn state_of(&self, id: &str) -> Value {
        let text = self.read(&format!(".workflow/sessions/{id}/session-state.json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The output of a node of the one session.
    #[track_caller]
    fn log(&self, node: &str) -> String {
        self.read(&format!(
            ".workflow/sessions/{}/artifacts/{node}.log",
            self.session()
        ))
    }
}

/// The statuses of nodes, in the order they run.
fn statuses(state: &Value) -> Vec<String> {
    let plan = state["execution_plan"].as_array().unwrap();
    let ids = plan
        .iter()
        .flat_map(|batch| batch["nodes"].as_array().unwrap());
    ids.map(|id| {
        let status = &state["node_states"][id.as_str().unwrap()]["status"];
        status.as_str().unwrap().to_owned()
    })
    .collect()
}
