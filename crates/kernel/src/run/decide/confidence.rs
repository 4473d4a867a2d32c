//! Decisions below the floor of confidence: a person confirms, replaces or rejects them.

use serde_json::{Map, Value, json};

use super::Decision;
use crate::control::Ask;
use crate::control::decision::{CONFIDENCE_FLOOR, Choice, Decided};
use crate::control::doubt::QUESTION;
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::run::InterruptKind;
use crate::run::event::{Doubt, NodeError, RunEvent};
use crate::run::state::{Held, OpenInterrupt};

impl Decision {
    /// A decision is below the floor: it takes no effect before a person has confirmed it.
    pub(super) fn escalate(&mut self, ix: NodeIx, decided: &Decided, observed: f64) {
        let first = match &decided.choice {
            Choice::NextWorker(workers) => workers.first().cloned(),
            _ => None,
        };
        self.emit(RunEvent::ConfidenceEscalated {
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            confidence: observed,
            floor: CONFIDENCE_FLOOR,
            worker_id: first,
            original_decision: decided.value.clone(),
            follows: self.decided_at(&decided.value),
        });
        self.clarify(ix, decided, observed);
    }

    /// Asks about a decision in the form of a clarification, so that clients can show it.
    fn clarify(&mut self, ix: NodeIx, decided: &Decided, observed: f64) {
        let words = json!({ "enum": ["accept", "reject"] });
        let schema = if self.replaces(ix) {
            json!({ "anyOf": [words, { "type": "object" }] })
        } else {
            words
        };
        let question = json!({
            "id": QUESTION,
            "question": question(&decided.choice, observed),
            "schema": schema,
        });
        let data = json!({ "questions": [question], "contextType": InterruptKind::LowConfidence });
        self.ask_whether(ix, InterruptKind::Clarification, data);
    }

    /// Asks whether a decision may be carried out.
    pub(super) fn doubt(&mut self, ix: NodeIx, decision: &Value, threshold: f64, observed: f64) {
        let data = self.doubtful(decision, threshold, observed);
        self.ask_whether(ix, InterruptKind::LowConfidence, data);
    }

    fn doubtful(&self, decision: &Value, threshold: f64, observed: f64) -> Value {
        json!({
            "agentId": self.orchestrator(),
            "threshold": threshold,
            "observed": observed,
            "decision": decision,
        })
    }

    fn ask_whether(&mut self, ix: NodeIx, kind: InterruptKind, data: Value) {
        self.ask(
            ix,
            Ask {
                kind,
                key: self.node_id(ix).to_string(),
                data,
                resume_schema: None,
                timeout_ms: None,
            },
        );
    }

    /// Whether a person may replace the decision of a node. At a dispatch they may not, because the
    /// decision was made elsewhere.
    fn replaces(&self, ix: NodeIx) -> bool {
        self.run.plan.node(ix).kind == NodeKind::Control(ControlKind::Supervisor)
    }

    /// The decision that a clarification is about; `None` for another question.
    pub(super) fn held(&self, open: &OpenInterrupt) -> Option<&Held> {
        let held = self.facts().nodes[NodeIx(open.node).index()].held.as_ref();
        held.filter(|_| open.kind == InterruptKind::Clarification)
    }

    /// The details of a held decision for its suspension.
    pub(super) fn doubt_of(&self, open: &OpenInterrupt) -> Option<Doubt> {
        if let Some(held) = self.held(open) {
            return Some(Doubt {
                agent_id: self.orchestrator(),
                threshold: held.floor,
                observed: held.confidence,
            });
        }
        let decides = matches!(
            self.run.plan.node(NodeIx(open.node)).kind,
            NodeKind::Control(ControlKind::Supervisor | ControlKind::Dispatch)
        );
        if open.kind != InterruptKind::LowConfidence && !decides {
            return None;
        }
        Some(Doubt {
            agent_id: open.data.get("agentId")?.as_str()?.to_owned(),
            threshold: open.data.get("threshold")?.as_f64()?,
            observed: open.data.get("observed")?.as_f64()?,
        })
    }

    /// A person has judged a decision: it is carried out or, without one, rejected.
    pub(super) fn judged(&mut self, ix: NodeIx, decided: Option<&Decided>) {
        match (decided, self.replaces(ix)) {
            (Some(decided), true) => self.decided(ix, decided),
            (Some(_), false) => self.begin_workers(ix),
            (None, _) => {
                let error = NodeError::new("interrupt_rejected", "the decision was refused");
                self.fail_attempt(ix, error.fatal());
            }
        }
    }

    /// Records the answers to a clarification.
    pub(super) fn clarified(
        &mut self,
        open: &OpenInterrupt,
        answers: Map<String, Value>,
        by: Option<String>,
    ) {
        let ix = NodeIx(open.node);
        self.emit(RunEvent::ClarificationResolved {
            interrupt_id: open.id.clone(),
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            answers,
            answered_by: by,
        });
    }
}

/// The question to a person about a decision.
fn question(choice: &Choice, observed: f64) -> String {
    let what = match choice {
        Choice::NextWorker(workers) => match workers.as_slice() {
            [worker] => format!("Shall the worker {worker} run next?"),
            [first, others @ ..] => {
                let others = others.len();
                format!("Shall the worker {first} and {others} more run next?")
            }
            [] => "Shall no worker run next?".to_owned(),
        },
        Choice::AskUser(_) => "Shall somebody be asked?".to_owned(),
        Choice::Terminate => "Shall the work end here?".to_owned(),
    };
    format!(
        "{what} The decision is sure to {observed}, and below {CONFIDENCE_FLOOR} somebody has to \
         accept it."
    )
}
