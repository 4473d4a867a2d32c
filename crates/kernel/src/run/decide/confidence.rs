//! Decisions below the floor of confidence: a person confirms, replaces or rejects them.

use serde_json::{Map, Value, json};

use super::Decision;
use super::gates::Reply;
use crate::control::decision::{CONFIDENCE_FLOOR, Choice, Decided};
use crate::control::{Ask, answer, clarification};
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::run::capacity::Answerer;
use crate::run::event::{Doubt, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::state::{Held, OpenInterrupt};

/// The kind of the question whether a decision may be carried out.
const DOUBT: &str = "low-confidence";
/// The kind of a question that is answered by question ids.
const CLARIFICATION: &str = "clarification";
/// The id of the only question about a held decision.
const QUESTION: &str = "decision";

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
        let data = json!({ "questions": [question], "contextType": DOUBT });
        self.ask_whether(ix, CLARIFICATION, data);
    }

    /// Asks whether a decision may be carried out.
    pub(super) fn doubt(&mut self, ix: NodeIx, decision: &Value, threshold: f64, observed: f64) {
        let data = self.doubtful(decision, threshold, observed);
        self.ask_whether(ix, DOUBT, data);
    }

    fn doubtful(&self, decision: &Value, threshold: f64, observed: f64) -> Value {
        json!({
            "agentId": self.orchestrator(),
            "threshold": threshold,
            "observed": observed,
            "decision": decision,
        })
    }

    fn ask_whether(&mut self, ix: NodeIx, kind: &str, data: Value) {
        self.ask(
            ix,
            Ask {
                kind: kind.to_owned(),
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
    fn held(&self, open: &OpenInterrupt) -> Option<&Held> {
        let held = self.facts().nodes[NodeIx(open.node).index()].held.as_ref();
        held.filter(|_| open.kind == CLARIFICATION)
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
        if open.kind != DOUBT && !decides {
            return None;
        }
        Some(Doubt {
            agent_id: open.data.get("agentId")?.as_str()?.to_owned(),
            threshold: open.data.get("threshold")?.as_f64()?,
            observed: open.data.get("observed")?.as_f64()?,
        })
    }

    /// The judgement of a person on the question of a supervisor or a dispatch node.
    pub(super) fn judge_decider(
        &self,
        open: &OpenInterrupt,
        value: &Value,
        who: Answerer<'_>,
    ) -> Result<Reply, Rejection> {
        let node = self.run.plan.node(NodeIx(open.node));
        if open.kind != CLARIFICATION {
            return self.judge_doubt(open, value, who);
        }
        let answers = clarification::judge(node, open, value, who)?;
        let Some(held) = self.held(open) else {
            return Ok(Reply::Answers(answers));
        };
        let decided = match answers.get(QUESTION) {
            Some(Value::String(word)) if word == "accept" => Some(self.confirmed(&held.decision)?),
            Some(other @ Value::Object(_)) => Some(self.replaced(open, Some(other))?),
            _ => None,
        };
        Ok(Reply::Judged {
            decided,
            answers: Some(answers),
        })
    }

    /// The judgement on a held decision, in the terms of approvals.
    fn judge_doubt(
        &self,
        open: &OpenInterrupt,
        value: &Value,
        who: Answerer<'_>,
    ) -> Result<Reply, Rejection> {
        answer::check(self.run.plan.node(NodeIx(open.node)), open, value, who)?;
        let decided = match value.get("action").and_then(Value::as_str) {
            Some("accept") => {
                let held = open.data.get("decision").unwrap_or(&Value::Null);
                Some(self.confirmed(held)?)
            }
            Some("edit-accept") => Some(self.replaced(open, value.get("editedArtifactData"))?),
            Some("reject") => None,
            None if value.get("decision").is_some() => {
                Some(self.replaced(open, value.get("decision"))?)
            }
            _ => {
                return Err(answer::invalid(
                    "it must have an `action`: accept, edit-accept with `editedArtifactData`, or reject",
                ));
            }
        };
        let answers = None;
        Ok(Reply::Judged { decided, answers })
    }

    /// The held decision.
    fn confirmed(&self, held: &Value) -> Result<Decided, Rejection> {
        let read = Decided::parse(held);
        read.map_err(|_| answer::invalid("there is no decision to accept"))
    }

    /// The decision that replaces the held one.
    fn replaced(&self, open: &OpenInterrupt, given: Option<&Value>) -> Result<Decided, Rejection> {
        if !self.replaces(NodeIx(open.node)) {
            let what = "a dispatch carries out what was decided; accept or reject it";
            return Err(answer::invalid(what));
        }
        let given = given.ok_or_else(|| answer::invalid("it needs the other decision"))?;
        Decided::parse(given).map_err(|why| answer::invalid(format!("the other decision {why}")))
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
