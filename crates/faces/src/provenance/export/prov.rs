//! PROV-JSON, as submitted to the W3C in 2013.
//!
//! One run is one activity. A file's content is an entity of its own, a specialisation of the file,
//! since an entity of PROV does not change. Start and end are members of the activity; relations
//! for them are left out, as the published schema misspells one of them.

use std::collections::BTreeMap;

use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::super::calls::Attempt;
use super::super::document::{Operation, Snapshot};
use super::super::hash;
use super::span;

/// A document in the making.
#[derive(Default)]
struct Prov {
    parts: BTreeMap<&'static str, Map<String, Value>>,
    relations: usize,
}

impl Prov {
    fn part(&mut self, part: &'static str) -> &mut Map<String, Value> {
        self.parts.entry(part).or_default()
    }

    fn declare(&mut self, part: &'static str, id: &str, members: Value) {
        self.part(part).entry(id).or_insert(members);
    }

    fn relate(&mut self, relation: &'static str, members: Value) {
        self.relations += 1;
        let id = format!("_:r{}", self.relations);
        self.part(relation).insert(id, members);
    }

    /// The content of a file as an entity; returns its id.
    fn content(&mut self, path: &str, hash: Option<&str>) -> String {
        let file = format!("aiwg:artifact:{}", escaped(path));
        self.declare("entity", &file, json!({ "prov:label": path }));
        let Some(hash) = hash else {
            return file;
        };
        let id = format!("{file}@{}", address(hash));
        if !self.part("entity").contains_key(&id) {
            self.declare("entity", &id, json!({ "aiwg:checksum": address(hash) }));
            let special = json!({ "prov:specificEntity": id, "prov:generalEntity": file });
            self.relate("specializationOf", special);
        }
        id
    }

    /// A text that is known by its hash; returns its id.
    fn text(&mut self, kind: &str, hash: &str) -> String {
        let id = format!("aiwg:{kind}:{}", address(hash));
        let members =
            json!({ "prov:type": format!("aiwg:{kind}"), "aiwg:checksum": address(hash) });
        self.declare("entity", &id, members);
        id
    }
}

/// The document of a snapshot and the attempts to replay it.
pub fn document(snapshot: &Snapshot, attempts: &[Attempt]) -> Value {
    let mut prov = Prov::default();
    prov.part("prefix")
        .insert("aiwg".into(), "urn:aiwg:".into());
    let id = &snapshot.snapshot_id;
    let (workflow, local) = (escaped(&snapshot.workflow_id), escaped(id));
    let run = format!("aiwg:activity:generation:{workflow}:{local}");
    let (started, ended) = span(snapshot);
    let config = &snapshot.config;
    let mut activity = json!({
        "prov:startTime": started.to_string(),
        "prov:endTime": ended.to_string(),
        "prov:type": "aiwg:generation",
        "aiwg:execution_mode": config.execution_mode.as_str(),
    });
    if let Some(temperature) = config.temperature {
        activity["aiwg:temperature"] = temperature.into();
    }
    if let Some(seed) = config.seed {
        activity["aiwg:seed"] = seed.into();
    }
    prov.declare("activity", &run, activity);
    let evidence = format!("aiwg:snapshot:{local}");
    prov.declare(
        "entity",
        &evidence,
        json!({ "prov:type": "aiwg:execution-snapshot" }),
    );
    prov.relate(
        "wasGeneratedBy",
        json!({ "prov:entity": evidence, "prov:activity": run }),
    );
    let agent = agents(&mut prov, snapshot, &run);
    inputs(&mut prov, snapshot, &run);
    outputs(&mut prov, snapshot, &run, &agent);
    calls(&mut prov, snapshot, (&run, ended), &local);
    for (place, attempt) in attempts.iter().enumerate() {
        let at = &attempt.at;
        // By its line: older files give an abandoned attempt the number of the next one.
        let number = place + 1;
        let activity = format!("aiwg:activity:validation:{workflow}:{local}:{number}");
        let mut members = json!({
            "prov:endTime": at, "prov:type": "aiwg:validation", "aiwg:kind": attempt.kind,
            "aiwg:match_status": attempt.status.map(|status| status.as_str()).unwrap_or("aborted"),
        });
        let took = attempt.other.get("duration_ms").and_then(Value::as_u64);
        if let (Some(ended), Some(took)) = (Timestamp::parse(at), took) {
            let started = Timestamp(ended.0 - took.max(1).cast_signed());
            members["prov:startTime"] = started.to_string().into();
        }
        prov.declare("activity", &activity, members);
        let informed = json!({ "prov:informed": activity, "prov:informant": run });
        prov.relate("wasInformedBy", informed);
    }
    let parent = snapshot
        .extensions
        .as_ref()
        .and_then(|more| more.parent.as_ref());
    if let Some(parent) = parent {
        let source = format!("aiwg:snapshot:{}", escaped(&parent.snapshot_id));
        prov.declare(
            "entity",
            &source,
            json!({ "prov:type": "aiwg:execution-snapshot" }),
        );
        let derived = json!({ "prov:generatedEntity": evidence, "prov:usedEntity": source });
        prov.relate("wasDerivedFrom", derived);
    }
    let parts = prov.parts.into_iter();
    parts
        .map(|(part, members)| (part.to_owned(), Value::Object(members)))
        .collect()
}

/// The model, and the agent it acts for; returns the id of the responsible one.
fn agents(prov: &mut Prov, snapshot: &Snapshot, run: &str) -> String {
    let model = &snapshot.config.model;
    let id = format!("aiwg:agent:{}", escaped(&model.id));
    let mut members =
        json!({ "prov:type": "prov:SoftwareAgent", "aiwg:agent_type": "ai_assistant" });
    if let Some(provider) = &model.provider {
        members["aiwg:provider"] = provider.as_str().into();
    }
    prov.declare("agent", &id, members);
    let named = snapshot
        .agent
        .as_ref()
        .and_then(|agent| agent.name.as_deref());
    let maker = match named.map(|name| format!("aiwg:agent:{}", escaped(name))) {
        Some(agent) if agent != id => {
            let members =
                json!({ "prov:type": "prov:SoftwareAgent", "aiwg:agent_type": "aiwg_agent" });
            prov.declare("agent", &agent, members);
            let acted = json!({ "prov:delegate": agent, "prov:responsible": id });
            prov.relate("actedOnBehalfOf", acted);
            agent
        }
        _ => id.clone(),
    };
    for agent in [&id, &maker].into_iter().take(1 + usize::from(maker != id)) {
        let with = json!({ "prov:activity": run, "prov:agent": agent });
        prov.relate("wasAssociatedWith", with);
    }
    maker
}

fn inputs(prov: &mut Prov, snapshot: &Snapshot, run: &str) {
    let mut used = Vec::new();
    if let Some(hash) = &snapshot.inputs.user_prompt_hash {
        used.push((prov.text("prompt", hash), "prompt"));
    }
    if let Some(hash) = &snapshot.config.system_prompt_hash {
        used.push((prov.text("system-prompt", hash), "system"));
    }
    for file in snapshot.inputs.context_files.iter().flatten() {
        let path = file.path.as_deref().unwrap_or_default();
        used.push((prov.content(path, file.hash.as_deref()), "context"));
    }
    for (entity, role) in used {
        let members = json!({ "prov:activity": run, "prov:entity": entity, "prov:role": role });
        prov.relate("used", members);
    }
}

fn outputs(prov: &mut Prov, snapshot: &Snapshot, run: &str, agent: &str) {
    let outputs = &snapshot.outputs;
    let mut made = Vec::new();
    if let Some(hash) = &outputs.response_hash {
        made.push(prov.text("response", hash));
    }
    for artifact in outputs.artifacts_created.iter().flatten() {
        let path = artifact.path.as_deref().unwrap_or_default();
        let entity = prov.content(path, artifact.hash.as_deref());
        if artifact.operation == Some(Operation::Deleted) {
            let gone = json!({ "prov:entity": entity, "prov:activity": run });
            prov.relate("wasInvalidatedBy", gone);
            continue;
        }
        if artifact.operation == Some(Operation::Modified) {
            // Its previous content is known by its path only.
            let before = format!("aiwg:artifact:{}", escaped(path));
            let revised = json!({
                "prov:generatedEntity": entity, "prov:usedEntity": before, "prov:type": "prov:Revision",
            });
            prov.relate("wasDerivedFrom", revised);
        }
        made.push(entity);
    }
    for entity in made {
        let generated = json!({ "prov:entity": entity, "prov:activity": run });
        prov.relate("wasGeneratedBy", generated);
        let by = json!({ "prov:entity": entity, "prov:agent": agent });
        prov.relate("wasAttributedTo", by);
    }
}

/// The end of a tool derives from its duration; an interrupted one ends with the run.
fn calls(prov: &mut Prov, snapshot: &Snapshot, (run, run_ended): (&str, Timestamp), local: &str) {
    for (at, call) in snapshot.outputs.tool_calls.iter().flatten().enumerate() {
        let tool = call.tool.as_deref().unwrap_or("unknown");
        let activity = format!("aiwg:activity:tool:{}:{local}:{at}", escaped(tool));
        let mut members = json!({ "prov:type": "aiwg:tool-call", "prov:label": tool });
        if let Some(timestamp) = &call.timestamp {
            members["prov:startTime"] = timestamp.as_str().into();
            if let Some(started) = Timestamp::parse(timestamp) {
                let took = call.other.get("duration_ms").and_then(Value::as_u64);
                let ended = match took {
                    Some(took) => started.0 + took.cast_signed(),
                    None => run_ended.0,
                };
                members["prov:endTime"] = Timestamp(ended.max(started.0 + 1)).to_string().into();
            }
        }
        prov.declare("activity", &activity, members);
        let informed = json!({ "prov:informed": activity, "prov:informant": run });
        prov.relate("wasInformedBy", informed);
        if let Some(hash) = &call.input_hash {
            let entity = prov.text("tool-input", hash);
            prov.relate(
                "used",
                json!({ "prov:activity": activity, "prov:entity": entity }),
            );
        }
        if let Some(hash) = &call.output_hash {
            // Two calls may have the same output: each gets its own entity.
            let entity = format!("aiwg:tool-output:{local}:{at}:{}", address(hash));
            prov.declare("entity", &entity, json!({ "aiwg:checksum": address(hash) }));
            let made = json!({ "prov:entity": entity, "prov:activity": activity });
            prov.relate("wasGeneratedBy", made);
        }
    }
}

/// A hash in its normal form; a placeholder without characters that ids forbid.
fn address(text: &str) -> String {
    match hash::digest(text) {
        Some(digest) => hash::written(&digest),
        None => escaped(text),
    }
}

/// A text with percent-encoding for URNs.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
