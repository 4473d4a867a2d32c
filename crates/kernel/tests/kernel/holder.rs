//! A holder that drives a run to its end from any state.

use kernel::definition::NodeKind;
use kernel::run::event::{ChildStatus, DrainPolicy};
use kernel::run::state::Phase;
use kernel::run::{Command, Found, Outcome, schedule};
use kernel::stream::DefinitionRef;
use serde_json::{Map, json};

use crate::world::World;

/// More steps than any run of a test needs.
const STEPS: usize = 2_000;

impl World {
    /// A new holder takes over the attempts in flight and continues until the run has ended.
    pub(crate) fn drive_to_the_end(&mut self) {
        if self.run.has_live_work() {
            self.take_over(&[]).decided();
        }
        for _ in 0..STEPS {
            if self.run.is_settled() {
                return;
            }
            self.step();
        }
        panic!(
            "the run does not end: {:?}",
            crate::notation::lines(&self.events)
        );
    }

    fn step(&mut self) {
        let stopping = matches!(self.run.phase(), Some(Phase::Stopping { .. }));
        let live = self.run.live_attempts().next().map(|live| live.id);
        if let Some(attempt) = live {
            let outcome = if stopping {
                Outcome::Stopped
            } else {
                // Conditions of the scenes read it.
                Outcome::completed(Map::from_iter([("n".into(), json!(2))]))
            };
            let finish = Command::Finish { attempt, outcome };
            drop(self.when(finish).decided());
            return;
        }
        if matches!(self.run.phase(), Some(Phase::Paused { .. })) {
            drop(self.resume().decided());
            return;
        }
        let undispatched = self.run.undispatched().next().map(|live| live.id);
        if let Some(attempt) = undispatched {
            let plan = &self.run.plan;
            let found = Found::Definition(DefinitionRef {
                workflow: plan.workflow.clone(),
                version: plan.version.clone(),
                digest: plan.digest,
                put_by: Default::default(),
            });
            drop(self.when(Command::Dispatch { attempt, found }).decided());
            return;
        }
        let may_advance = *self.run.phase().expect("active") == Phase::Pending
            || !stopping && schedule::has_startable(&self.run);
        if may_advance {
            drop(self.advance().decided());
            return;
        }
        let facts = self.run.facts().expect("facts");
        let waits_for = facts
            .children
            .iter()
            .find(|(_, child)| child.status.is_none());
        if let Some((child, _)) = waits_for {
            let settled = Command::ChildSettled {
                child: child.clone(),
                status: ChildStatus::Completed,
                variables: Map::new(),
                outputs: Map::new(),
                error: None,
                spent: Default::default(),
            };
            drop(self.when(settled).decided());
            return;
        }
        if let Some(open) = facts.interrupts.first() {
            let interrupt = open.id.clone();
            // Every gate of the scenes takes one of these two; each vote comes from another voter.
            let listed = open.data["approversList"][0].as_str();
            let voter = listed.map_or_else(|| format!("voter-{}", open.votes.len()), str::to_owned);
            let is_work = self.run.plan.nodes[open.node as usize].kind == NodeKind::Work;
            let value = match open.kind.as_str() {
                "custom" if is_work => json!({ "action": "skip" }),
                "external-event" if is_work => json!({ "outputs": { "n": 2 } }),
                "clarification" => {
                    json!({ "answers": { "q1": "blue", "q2": 3, "answer": "a", "decision": "accept" } })
                }
                "low-confidence" => json!({ "action": "accept" }),
                "approval" => json!({ "action": "accept", "voter": voter.clone() }),
                _ => json!(true),
            };
            let asks_for = |key: &str| {
                let word = open.data[key].as_str();
                word.map(str::to_owned).into_iter().collect()
            };
            let is_governed = open.data["gateId"].is_string();
            let resolve = Command::Resolve {
                interrupt,
                value,
                by: is_governed.then_some(voter),
                capacity: kernel::run::Capacity {
                    roles: asks_for("requiredRole"),
                    scopes: asks_for("requiredScope"),
                    ..Default::default()
                },
            };
            drop(self.when(resolve).decided());
            return;
        }
        drop(self.next_timer().decided());
    }

    /// Pauses with a policy and resumes.
    pub(crate) fn pause_and_resume(&mut self, policy: DrainPolicy) {
        self.pause(policy).decided();
        self.resume().decided();
    }
}
