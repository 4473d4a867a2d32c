//! Questions by their kind: their announcement, and the effect of an answer.

use serde_json::{Map, Value, json};

use super::Decision;
use super::failures::{self, Choice};
use crate::control::approval::{self, Answer, OnTimeout, Terms, Verdict};
use crate::control::decision::Decided;
use crate::control::governance::{self, Ruling};
use crate::control::{answer, clarification, interrupt};
use crate::coordinator::WORKER_NODE;
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::run::capacity::Answerer;
use crate::run::command::Outcome;
use crate::run::event::{ApprovalAction, NodeError, RunEvent, Vote};
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The meaning of a valid answer.
pub(super) enum Reply {
    /// The node passes it on unchanged.
    Value,
    /// A gate is decided.
    Decided(Answer),
    /// A gate has one more vote.
    Voted(Answer),
    /// A person has asked back.
    Asked,
    /// Every question is answered.
    Answers(Map<String, Value>),
    /// A held decision is carried out or, without one, rejected.
    Judged {
        /// The decision.
        decided: Option<Decided>,
        /// The answers, if a clarification asked.
        answers: Option<Map<String, Value>>,
    },
    /// A person with the right to it has granted, rejected or overridden.
    Governed(Ruling),
    /// The choice for a failed work node.
    Choice(Choice),
    /// The end of the work that a node left to an outside party.
    Ended(Outcome),
}

impl Reply {
    /// Whether the question is closed by it.
    pub(super) fn ends_the_question(&self) -> bool {
        match self {
            Self::Voted(_) | Self::Asked => false,
            Self::Governed(ruling) => ruling.decides,
            _ => true,
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
        match self.asked_by(open) {
            NodeKind::Control(ControlKind::ApprovalGate) => {
                Ok(match approval::judge(node, open, value, who)? {
                    Verdict::Decided(answer) => Reply::Decided(answer),
                    Verdict::Voted(answer) => Reply::Voted(answer),
                    Verdict::Asked => Reply::Asked,
                })
            }
            NodeKind::Control(ControlKind::GovernanceGate) => {
                governance::judge(open, value, who).map(Reply::Governed)
            }
            NodeKind::Control(ControlKind::ClarificationGate) => {
                clarification::judge(node, open, value, who).map(Reply::Answers)
            }
            NodeKind::Control(ControlKind::Supervisor | ControlKind::Dispatch) => {
                self.judge_decider(open, value, who)
            }
            NodeKind::Work => {
                answer::check(node, open, value, who)?;
                failures::judge(open, value, node.type_id == WORKER_NODE)
            }
            _ => answer::check(node, open, value, who).map(|()| Reply::Value),
        }
    }

    /// The node kind whose form a question has: a general interrupt of a gate's kind has the form
    /// of that gate.
    pub(super) fn asked_by(&self, open: &OpenInterrupt) -> NodeKind {
        let kind = self.run.plan.node(NodeIx(open.node)).kind;
        let is_general = kind == NodeKind::Control(ControlKind::Interrupt);
        let has_questions = || open.data.get("questions").is_some();
        match open.kind.as_str() {
            interrupt::APPROVAL if is_general => NodeKind::Control(ControlKind::ApprovalGate),
            interrupt::CLARIFICATION if is_general && has_questions() => {
                NodeKind::Control(ControlKind::ClarificationGate)
            }
            _ => kind,
        }
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
        let (interrupt_id, node_id, visit) = (open.id.clone(), self.node_id(ix), self.visit(ix));
        match self.asked_by(open) {
            NodeKind::Control(ControlKind::ApprovalGate) => {
                let terms = Terms::new(&open.data);
                self.emit(RunEvent::ApprovalRequested {
                    interrupt_id,
                    node_id,
                    visit,
                    artifact_id: terms.artifact_id.to_owned(),
                    artifact_type: terms.artifact_type.to_owned(),
                    title: terms.title.to_owned(),
                    actions: terms.actions,
                    approvers_list: terms.approvers.into_iter().map(str::to_owned).collect(),
                    required_approvals: terms.required,
                });
            }
            NodeKind::Control(
                ControlKind::ClarificationGate | ControlKind::Dispatch | ControlKind::Supervisor,
            ) if open.kind == "clarification" => {
                let questions = open.data.get("questions").and_then(Value::as_array);
                self.emit(RunEvent::ClarificationRequested {
                    interrupt_id,
                    node_id,
                    visit,
                    questions: questions.cloned().unwrap_or_default(),
                });
            }
            _ => {}
        }
    }

    /// A gate's time to answer has passed.
    pub(super) fn expire_gate(&mut self, open: &OpenInterrupt) {
        let ix = NodeIx(open.node);
        let on_timeout = OnTimeout::from_config(&self.run.plan.node(ix).config);
        let action = match on_timeout.unwrap_or(OnTimeout::Fail) {
            OnTimeout::Fail => None,
            OnTimeout::Accept => Some(ApprovalAction::Accept),
            OnTimeout::Reject => Some(ApprovalAction::Reject),
        };
        let mut answer = Answer {
            action: ApprovalAction::Timeout,
            by: None,
            comment: None,
            feedback: None,
            refine_feedback: None,
            edited: None,
        };
        let Some(action) = action else {
            self.received(open, &answer);
            return self.fail_unanswered(ix);
        };
        let value = json!({ "action": action, "reason": "timeout" });
        self.resolved(open, value.clone(), None);
        self.received(open, &answer);
        answer.action = action;
        self.leave_gate(open, &answer, value);
    }

    /// Leaves a decided gate by the port of the decision, fails, or asks again.
    fn leave_gate(&mut self, open: &OpenInterrupt, answer: &Answer, value: Value) {
        self.resumed(open);
        let ix = NodeIx(open.node);
        let port = approval::port(answer.action);
        let outputs = approval::outputs(answer, value, &open.data);
        let kind = self.run.plan.node(ix).kind;
        let is_gate = kind == NodeKind::Control(ControlKind::ApprovalGate);
        let is_routed = is_gate && self.has_edge_from(ix, port);
        match answer.action {
            ApprovalAction::Reject if !is_routed => {
                let mut error = NodeError::new("interrupt_rejected", "the approval was refused");
                error.details = Some(json!({ "gate": outputs }));
                self.fail_attempt(ix, error.fatal());
            }
            ApprovalAction::Refine if !is_routed => {
                // The question's data: the inputs of the attempt have not changed.
                let inputs = self.facts().nodes[ix.index()].inputs.clone();
                let kind = if is_gate {
                    ControlKind::ApprovalGate
                } else {
                    ControlKind::Interrupt
                };
                self.begin_control(ix, kind, &inputs.unwrap_or_default(), None);
            }
            _ => self.complete(ix, outputs, is_gate.then(|| port.to_owned())),
        }
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
            kind: open.kind.clone(),
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
