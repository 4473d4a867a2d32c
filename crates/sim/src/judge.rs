//! The judge: compares logs, index, record and acknowledgements at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kernel::check;
use kernel::coordinator::WORKER_NODE;
use kernel::definition::{NodeTypes, Plan, UnknownTypes};
use kernel::digest::Digest;
use kernel::ids::{AttemptId, AttemptKey, StreamId};
use kernel::json::{self, Limits};
use kernel::run::{CausedBy, Event, Run, RunEvent, RunIndex};
use kernel::stream::StreamKind;
use serde_json::json;
use store::memory::MemoryStore;
use store::{ListQuery, Listed, Loaded, Position, ReadFrom, Store};
use tokio::runtime::{Builder, Runtime};

use crate::record::{Finish, Record};
use crate::work::WORK;
use crate::world::TENANT;

/// Reads the store of a world directly, without a line.
pub(crate) struct Judge {
    store: MemoryStore,
    runtime: Runtime,
}

/// The result of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    pub(crate) runs: usize,
    pub(crate) events: usize,
    pub(crate) starts: usize,
    pub(crate) restarts: usize,
    pub(crate) trace: Option<Digest>,
}

/// Attempts of the work node according to the logs.
#[derive(Default)]
struct Attempts {
    /// How often each may have started.
    allowed: BTreeMap<AttemptKey, u32>,
    once: BTreeSet<AttemptKey>,
    /// Which instance each completion names.
    completions: Vec<(AttemptKey, serde_json::Value)>,
}

/// The node types of a world.
struct Types;

impl NodeTypes for Types {
    fn kind(&self, type_id: &str) -> Option<kernel::definition::NodeKind> {
        [WORK, WORKER_NODE]
            .contains(&type_id)
            .then_some(kernel::definition::NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        [WORK, WORKER_NODE].map(str::to_owned).into()
    }

    fn check_config(&self, _: &str, _: &serde_json::Value) -> Vec<kernel::problem::Problem> {
        Vec::new()
    }
}

impl Judge {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        Self {
            store: store.clone(),
            runtime: Builder::new_current_thread()
                .build()
                .expect("a runtime can be made"),
        }
    }

    /// All runs.
    pub(crate) fn runs(&self) -> Vec<Listed> {
        self.streams(StreamKind::Run)
    }

    /// All streams of a kind.
    pub(crate) fn streams(&self, kind: StreamKind) -> Vec<Listed> {
        let query = ListQuery {
            kind: Some(kind),
            limit: usize::MAX,
            ..ListQuery::default()
        };
        let listed = self.runtime.block_on(self.store.list(query));
        listed.expect("memory is always there")
    }

    /// Whether everything is done: every run has settled and every message was delivered.
    pub(crate) fn is_over(&self) -> bool {
        let waiting = self.runtime.block_on(self.store.outbox(1));
        waiting.expect("memory is always there").is_empty()
            && self.runs().iter().all(|row| row.index.settled)
    }

    /// Whether a run exists and it or its first node has ended.
    pub(crate) fn has_left_its_first_node(&self, run: &StreamId) -> bool {
        let runs = self.runs();
        let Some(row) = runs.iter().find(|row| row.stream == *run) else {
            return false;
        };
        let run = self.load(run);
        let first = run.facts().and_then(|facts| facts.nodes.first());
        row.index.settled || first.is_some_and(|node| node.settled_at.is_some())
    }

    /// The current state of a run.
    pub(crate) fn load(&self, stream: &StreamId) -> Run {
        let loaded = self.read(stream);
        self.fold(&loaded).expect("the log folds")
    }

    pub(crate) fn read(&self, stream: &StreamId) -> Loaded {
        let load = self.store.load(stream, ReadFrom::Seq(0), usize::MAX);
        self.runtime.block_on(load).expect("it was listed")
    }

    fn plan(&self, loaded: &Loaded) -> Arc<Plan> {
        let definition = loaded.header.definition.as_ref().expect("a run has one");
        let tenant = TENANT.into();
        let document = self.store.blob(&tenant, &definition.digest);
        let document = self.runtime.block_on(document).expect("it was put");
        let value = json::parse(&document, Limits::DEFINITION).expect("it was checked");
        Arc::new(Plan::from_json(&value, &Types, UnknownTypes::Refuse).expect("it was checked"))
    }

    fn fold(&self, loaded: &Loaded) -> Result<Run, String> {
        let header = Arc::new(loaded.header.clone());
        let mut run = Run::unborn(header, self.plan(loaded));
        for record in &loaded.records {
            let folded = run.fold_content(&record.content);
            folded.map_err(|bad| bad.to_string())?;
        }
        Ok(run)
    }

    /// Checks all laws.
    pub(crate) fn judge(&self, record: &Record) -> Verdict {
        let mut verdict = Verdict::default();
        record.with(|seen| verdict.wrong.append(&mut seen.wrong));
        let rows = self.runs();
        let mut attempts = Attempts::default();
        let mut ends = BTreeMap::new();
        for row in &rows {
            let loaded = self.read(&row.stream);
            verdict.events += loaded.records.len();
            let mut wrong = self.judge_log(row, &loaded, record, &mut attempts);
            ends.insert(row.stream.clone(), row.index.status.clone());
            verdict.wrong.extend(
                wrong
                    .drain(..)
                    .map(|what| format!("{}: {what}", row.stream)),
            );
        }
        verdict.runs = rows.len();
        self.judge_children(&rows, &ends, &mut verdict.wrong);
        judge_effects(record, &attempts, &mut verdict);
        record.with(|seen| {
            let is_there = |run: &&StreamId| !ends.contains_key(*run);
            for run in seen.created.iter().filter(is_there) {
                verdict
                    .wrong
                    .push(format!("{run} was acknowledged and is not there"));
            }
        });
        verdict.trace = Some(self.trace(record));
        verdict
    }

    fn judge_log(
        &self,
        row: &Listed,
        loaded: &Loaded,
        record: &Record,
        attempts: &mut Attempts,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        if !row.index.settled {
            wrong.push(format!("it never ended: {}", row.index.status));
        }
        let mut events: Vec<Event> = Vec::new();
        for kept in &loaded.records {
            match serde_json::from_slice(&kept.content) {
                Ok(event) => events.push(event),
                Err(error) => wrong.push(format!("an event cannot be read: {error}")),
            }
        }
        for (seq, event) in (0..).zip(&events) {
            if event.seq != seq {
                wrong.push(format!("event {} is at {seq}", event.seq));
            }
        }
        if let Err(broken) = check::verify_chain(&loaded.header, &loaded.records) {
            wrong.push(broken.to_string());
        }
        let plan = self.plan(loaded);
        let illegal = check::check(&loaded.header, &plan, &events);
        wrong.extend(illegal.iter().map(ToString::to_string));
        match self.fold(loaded) {
            Ok(run) if RunIndex::from_run(&run) != loaded.index => {
                wrong.push("its index row is not that of its fold".into());
            }
            Ok(_) => {}
            Err(bad) => wrong.push(bad),
        }
        record.with(|seen| {
            let written = seen
                .written
                .range((row.stream.clone(), 0)..=(row.stream.clone(), u64::MAX));
            for ((_, seq), digest) in written {
                let found = loaded.records.get(*seq as usize);
                if found.is_none_or(|found| Digest::compute(&found.content) != *digest) {
                    wrong.push(format!("event {seq} was acknowledged and is lost"));
                }
            }
            for (_, id) in seen.signals.iter().filter(|(run, _)| *run == row.stream) {
                let is_it = |event: &&Event| {
                    matches!(&event.body, RunEvent::SignalReceived { id: of, .. } if of == id)
                };
                if events.iter().filter(is_it).count() != 1 {
                    wrong.push(format!("signal {id} was acknowledged and is not there once"));
                }
            }
            for (_, why) in seen.cancels.iter().filter(|(run, _)| *run == row.stream) {
                let is_it = |event: &Event| {
                    matches!(
                        event.cause.as_ref().map(|cause| &cause.command),
                        Some(CausedBy::Cancel { reason: Some(reason), .. }) if reason == why
                    )
                };
                if !events.iter().any(is_it) {
                    wrong.push(format!("cancellation {why} was acknowledged and is lost"));
                }
            }
            let claims = seen.epochs.get(&row.stream).map_or(0, |epoch| epoch.0);
            attempts.read(&row.stream, &plan, &events, claims, &mut wrong);
        });
        wrong
    }

    /// Each started child exists and was started once, and its end was reported once to its parent.
    fn judge_children(
        &self,
        rows: &[Listed],
        ends: &BTreeMap<StreamId, String>,
        wrong: &mut Vec<String>,
    ) {
        let mut started: BTreeMap<StreamId, StreamId> = BTreeMap::new();
        for row in rows {
            let mut heard = BTreeSet::new();
            for kept in self.read(&row.stream).records {
                let Ok(event) = serde_json::from_slice::<Event>(&kept.content) else {
                    continue;
                };
                let run = &row.stream;
                if let RunEvent::NodeDispatched { child_run_id, .. } = &event.body {
                    if !ends.contains_key(child_run_id) {
                        wrong.push(format!("{run} started {child_run_id}, which is not there"));
                    }
                    if let Some(other) = started.insert(child_run_id.clone(), run.clone()) {
                        wrong.push(format!("{other} and {run} started {child_run_id}"));
                    }
                }
                if let RunEvent::ChildSettled {
                    child_run_id,
                    status,
                    ..
                } = &event.body
                {
                    if !heard.insert(child_run_id.clone()) {
                        wrong.push(format!("{run} heard twice of the end of {child_run_id}"));
                    }
                    let said = json!(status);
                    let end = ends.get(child_run_id).map(String::as_str);
                    if said.as_str() != end {
                        wrong.push(format!("{run} received {said} for {child_run_id}: {end:?}"));
                    }
                }
            }
        }
        for row in rows {
            let parent = row.index.parent.as_ref();
            if parent.is_some() && started.get(&row.stream) != parent {
                wrong.push(format!("{} was not started by its parent", row.stream));
            }
        }
    }

    /// A digest of all logs in commit order and of the world's trace.
    fn trace(&self, record: &Record) -> Digest {
        let feed = self.store.feed(Position(0), usize::MAX);
        let feed = self.runtime.block_on(feed).expect("memory is always there");
        let mut text = Vec::new();
        for event in feed {
            let place = format!("{:?} {} {} ", event.position, event.stream, event.seq);
            text.extend(place.into_bytes());
            text.extend(event.content.expect("memory is never damaged"));
            text.push(b'\n');
        }
        record.with(|seen| text.extend(seen.trace.join("\n").into_bytes()));
        Digest::compute(&text)
    }
}

impl Attempts {
    fn read(
        &mut self,
        run: &StreamId,
        plan: &Plan,
        events: &[Event],
        claims: u64,
        wrong: &mut Vec<String>,
    ) {
        let key = |node: &kernel::ids::NodeId, visit: u32, attempt: u32| {
            let node = node.clone();
            AttemptId {
                node,
                visit,
                attempt,
            }
            .key(run)
        };
        for event in events {
            match &event.body {
                RunEvent::NodeStarted {
                    node_id,
                    visit,
                    attempt,
                    type_id,
                    ..
                } if type_id == WORK => {
                    let key = key(node_id, *visit, *attempt);
                    let config = plan
                        .node_ix(node_id.as_str())
                        .map(|ix| &plan.node(ix).config);
                    if config.is_some_and(|config| config["once"] == true) {
                        self.once.insert(key.clone());
                    }
                    if self.allowed.insert(key, 1).is_some() {
                        wrong.push(format!("an attempt of {node_id} is started twice"));
                    }
                }
                RunEvent::AttemptRestarted {
                    node_id,
                    visit,
                    attempt,
                    restarts,
                } => {
                    if let Some(allowed) = self.allowed.get_mut(&key(node_id, *visit, *attempt)) {
                        *allowed += 1;
                    }
                    if u64::from(*restarts) >= claims {
                        wrong.push(format!(
                            "{node_id} was restarted {restarts} times under {claims} claims"
                        ));
                    }
                }
                RunEvent::NodeCompleted {
                    node_id,
                    visit,
                    attempt,
                    outputs,
                    ..
                } => {
                    if let Some(instance) = outputs.get("instance") {
                        let key = key(node_id, *visit, *attempt);
                        self.completions.push((key, instance.clone()));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Compares the effects that the world recorded with the logs.
fn judge_effects(record: &Record, attempts: &Attempts, verdict: &mut Verdict) {
    record.with(|seen| {
        let mut starts: BTreeMap<&AttemptKey, u32> = BTreeMap::new();
        for instance in &seen.instances {
            *starts.entry(&instance.key).or_default() += 1;
        }
        verdict.starts = seen.instances.len();
        let restarts = attempts.allowed.values().map(|allowed| allowed - 1);
        verdict.restarts = restarts.sum::<u32>() as usize;
        let wrong = &mut verdict.wrong;
        for (key, times) in starts {
            let allowed = attempts.allowed.get(key).copied().unwrap_or(0);
            if times > allowed {
                wrong.push(format!(
                    "{key} started {times} times, its log says {allowed}"
                ));
            }
            if times > 1 && attempts.once.contains(key) {
                wrong.push(format!(
                    "{key} must not be repeated and started {times} times"
                ));
            }
        }
        for (key, number) in &attempts.completions {
            let of = number
                .as_u64()
                .and_then(|number| seen.instances.get(number as usize));
            if of.is_none_or(|of| of.key != *key || of.ended != Some(Finish::Completed)) {
                wrong.push(format!("{key} is said to have completed, and did not"));
            }
        }
        for left in seen.instances.iter().filter(|left| left.ended.is_none()) {
            let (key, run) = (&left.key, &left.run);
            wrong.push(format!("{key} of {run} is still running"));
        }
    });
}
