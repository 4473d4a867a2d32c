//! Questions by their kind: their announcement, and the effect of an answer.

use serde_json::{Map, Value, json};

use super::Decision;
use super::failures::{self, Choice};
use crate::control::approval::{self, Answer, Terms};
use crate::control::{self, ControlNode, Given, Unrouted, answer};
use crate::coordinator::WORKER_NODE;
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::run::capacity::Answerer;
use crate::run::command::Outcome;
use crate::run::event::{ApprovalAction, NodeError, RunEvent, Vote};
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The meaning of a valid answer.
pub(super) enum Reply {
    /// An answer to a control node.
    Control(control::Reply),
    /// The choice for a failed work node.
    Choice(Choice),
    /// The end of the work that a node left to an outside party.
    Ended(Outcome),
}

impl Reply {
    /// Whether the question is closed by it.
    pub(super) fn ends_the_question(&self) -> bool {
        match self {
            Self::Control(reply) => reply.ends_the_question(),
            Self::Choice(_) | Self::Ended(_) => true,
        }
    }
}

impl Decision {
    /// The meaning of an answer, without applying it.
    pub(super) fn judge(
        &self,
        open: &OpenInterrupt,
        value: &Value,
        who: Answerer<'_>,
    ) -> Result<Reply, Rejection> {
        let node = self.run.plan.node(NodeIx(open.node));
        let given = Given {
            node,
            open,
            value,
            who,
            held: self.held(open),
        };
        match self.control_of(open) {
            Some(control) => control.judge(&given).map(Reply::Control),
            None => {
                answer::check(&given)?;
                failures::judge(open, value, node.type_id == WORKER_NODE)
            }
        }
    }

    /// The rules for a question: those of its node, or of the gate whose form it has. `None` for a
    /// question of a work node.
    pub(super) fn control_of(&self, open: &OpenInterrupt) -> Option<&'static dyn ControlNode> {
        let control = self.run.plan.node(NodeIx(open.node)).kind.control()?;
        Some(control.asks_as(open).map_or(control, ControlKind::node))
    }

    /// Applies a judged answer.
    pub(super) fn reply(
        &mut self,
        open: &OpenInterrupt,
        reply: Reply,
        value: Value,
        by: Option<String>,
    ) {
        let ix = NodeIx(open.node);
        match reply {
            Reply::Control(reply) => self.reply_to_control(open, reply, value, by),
            Reply::Choice(choice) => {
                self.resolved(open, value, by);
                self.resumed(open);
                self.choose(open, choice);
            }
            Reply::Ended(outcome) => {
                if !self.came_by_message {
                    // The end was not reported by its worker.
                    self.withdraw_from_workers(ix);
                }
                self.resolved(open, value, by);
                self.resumed(open);
                match outcome {
                    Outcome::Completed(completion) => self.complete(ix, completion.outputs, None),
                    Outcome::Failed { error, .. } => self.fail_attempt(ix, error),
                    Outcome::Waits { .. } | Outcome::Stopped => {}
                }
            }
        }
    }

    fn reply_to_control(
        &mut self,
        open: &OpenInterrupt,
        reply: control::Reply,
        value: Value,
        by: Option<String>,
    ) {
        use control::Reply;

        let ix = NodeIx(open.node);
        match reply {
            Reply::Value => {
                self.resolved(open, value.clone(), by);
                self.resumed(open);
                let outputs = Map::from_iter([("value".to_owned(), value)]);
                self.complete(ix, outputs, None);
            }
            Reply::Answers(answers) => {
                self.resolved(open, value.clone(), by.clone());
                self.clarified(open, answers.clone(), by);
                self.resumed(open);
                let outputs = Map::from_iter([
                    ("value".to_owned(), value),
                    ("answers".to_owned(), Value::Object(answers)),
                ]);
                self.complete(ix, outputs, None);
            }
            Reply::Judged { decided, answers } => {
                self.resolved(open, value, by.clone());
                if let Some(answers) = answers {
                    self.clarified(open, answers, by);
                }
                self.resumed(open);
                self.judged(ix, decided.as_ref());
            }
            Reply::Governed(ruling) => self.govern(open, &ruling, value, by),
            Reply::Asked => {
                let vote = Vote {
                    resume_value: Some(value),
                    resolved_by: by,
                };
                self.emit(RunEvent::ApprovalAsked {
                    interrupt_id: open.id.clone(),
                    node_id: self.node_id(ix),
                    visit: self.visit(ix),
                    vote,
                });
            }
            Reply::Voted(answer) => {
                let vote = Vote {
                    resume_value: Some(value),
                    resolved_by: by,
                };
                self.vote(open, &answer, vote);
            }
            Reply::Decided(answer) => {
                self.resolved(open, value.clone(), by);
                self.received(open, &answer);
                if Terms::new(&open.data).required > 1 && answer.action != ApprovalAction::Refine {
                    self.vote(open, &answer, Vote::default());
                }
                self.leave_gate(open, &answer, value);
            }
        }
    }

    /// Announces a question in the form of its kind.
    pub(super) fn announce(&mut self, open: &OpenInterrupt) {
        let ix = NodeIx(open.node);
        let (node, visit) = (self.node_id(ix), self.visit(ix));
        let control = self.control_of(open);
        if let Some(body) = control.and_then(|control| control.announcement(open, &node, visit)) {
            self.emit(body);
        }
    }

    /// Leaves a decided gate by the port of the decision, fails, or asks again.
    pub(super) fn leave_gate(&mut self, open: &OpenInterrupt, answer: &Answer, value: Value) {
        self.resumed(open);
        let ix = NodeIx(open.node);
        let NodeKind::Control(kind) = self.run.plan.node(ix).kind else {
            return;
        };
        let port = approval::port(answer.action);
        let outputs = approval::outputs(answer, value, &open.data);
        // A general interrupt has no ports.
        let has_ports = !kind.node().spec().ports.is_empty();
        let is_routed = has_ports && self.has_edge_from(ix, port);
        let unrouted = match self.control_of(open) {
            Some(control) if !is_routed => control.unrouted(answer),
            _ => Unrouted::Completes,
        };
        match unrouted {
            Unrouted::Fails(what) => {
                let error = NodeError::new("interrupt_rejected", what);
                let error = error.with_details(json!({ "gate": outputs }));
                self.fail_attempt(ix, error.fatal());
            }
            Unrouted::AsksAgain => {
                // The question's data: the inputs of the attempt have not changed.
                let inputs = self.facts().nodes[ix.index()].inputs.clone();
                self.begin_control(ix, kind, &inputs.unwrap_or_default(), None);
            }
            Unrouted::Completes => {
                self.complete(ix, outputs, has_ports.then(|| port.to_owned()));
            }
        }
    }

    fn has_edge_from(&self, ix: NodeIx, port: &str) -> bool {
        let plan = &self.run.plan;
        let mut edges = plan.node(ix).outgoing.iter();
        edges.any(|edge| plan.edge(*edge).source_output.as_deref() == Some(port))
    }

    pub(super) fn vote(&mut self, open: &OpenInterrupt, answer: &Answer, vote: Vote) {
        let ix = NodeIx(open.node);
        let (interrupt_id, node_id, visit) = (open.id.clone(), self.node_id(ix), self.visit(ix));
        let principal = answer.by.clone().unwrap_or_default();
        let body = match answer.action {
            ApprovalAction::Reject => RunEvent::ApprovalRejected {
                interrupt_id,
                node_id,
                visit,
                principal,
                reason: answer.feedback.clone().or_else(|| answer.comment.clone()),
                vote,
            },
            _ => {
                let before = open
                    .votes
                    .iter()
                    .filter(|vote| vote.action == ApprovalAction::Accept);
                RunEvent::ApprovalGranted {
                    interrupt_id,
                    node_id,
                    visit,
                    principal,
                    granted: u32::try_from(before.count() + 1).unwrap_or(u32::MAX),
                    required: Terms::new(&open.data).required,
                    vote,
                }
            }
        };
        self.emit(body);
    }

    pub(super) fn received(&mut self, open: &OpenInterrupt, answer: &Answer) {
        let ix = NodeIx(open.node);
        let is_timeout = answer.action == ApprovalAction::Timeout;
        self.emit(RunEvent::ApprovalReceived {
            interrupt_id: open.id.clone(),
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            action: answer.action,
            // Anonymous answers count as given by "unknown".
            decided_by: (!is_timeout)
                .then(|| answer.by.clone().unwrap_or_else(|| "unknown".to_owned())),
            comment: answer.comment.clone(),
            feedback: answer.feedback.clone(),
            refine_feedback: answer.refine_feedback.clone(),
            edited_artifact_data: answer.edited.clone(),
        });
    }

    pub(super) fn resolved(&mut self, open: &OpenInterrupt, value: Value, by: Option<String>) {
        let node_id = self.node_id(NodeIx(open.node));
        self.emit(RunEvent::InterruptResolved {
            interrupt_id: open.id.clone(),
            node_id,
            kind: open.kind,
            resume_value: value,
            resolved_by: by,
        });
    }

    pub(super) fn resumed(&mut self, open: &OpenInterrupt) {
        let ix = NodeIx(open.node);
        self.emit(RunEvent::NodeResumed {
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            interrupt_id: open.id.clone(),
        });
    }

    pub(super) fn visit(&self, ix: NodeIx) -> u32 {
        self.facts().nodes[ix.index()].visit
    }
}
