//! Legal predecessors of each event of a gate.

use super::Log;
use super::nodes::{Place, Question, WaitsFor};
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::run::event::ApprovalAction;
use crate::run::{InterruptKind, RunEvent};

impl Log<'_> {
    /// Whether a node announces its question in the form of its kind.
    pub(super) fn is_gate(&self, ix: NodeIx) -> bool {
        self.is_announced_approval(ix) || self.is_clarification(ix)
    }

    pub(super) fn is_approval(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::ApprovalGate)
            || self.is_governed(ix)
    }

    fn is_announced_approval(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::ApprovalGate)
            || self.is_general(ix, InterruptKind::Approval)
    }

    /// Whether a node with a general question asks like a gate of this kind. Such questions are
    /// announced and answered like the gate's.
    pub(super) fn is_general(&self, ix: NodeIx, kind: InterruptKind) -> bool {
        let is_general = self.plan.node(ix).kind == NodeKind::Control(ControlKind::Interrupt);
        let asks = |question: &Question| {
            let has_questions = question.data.get("questions").is_some();
            question.kind == kind && (kind != InterruptKind::Clarification || has_questions)
        };
        match self.place(ix) {
            Place::Attempt {
                waits_for: WaitsFor::Answer(question),
                ..
            } => is_general && asks(question),
            _ => false,
        }
    }

    fn is_governed(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::GovernanceGate)
    }

    fn is_clarification(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::ClarificationGate)
            || self.is_general(ix, InterruptKind::Clarification)
    }

    pub(super) fn question(&self, ix: NodeIx, of: &str) -> Option<&Question> {
        match self.place(ix) {
            Place::Attempt {
                waits_for: WaitsFor::Answer(question),
                ..
            } if question.interrupt == of => Some(question),
            _ => None,
        }
    }

    pub(super) fn question_mut(&mut self, ix: NodeIx, of: &str) -> Option<&mut Question> {
        match &mut self.nodes[ix.index()].place {
            Place::Attempt {
                waits_for: WaitsFor::Answer(question),
                ..
            } if question.interrupt == of => Some(question),
            _ => None,
        }
    }

    pub(super) fn gate_event(&mut self, ix: NodeIx, body: &RunEvent) {
        let id = self.id(ix).clone();
        match body {
            RunEvent::ApprovalRequested { interrupt_id, .. }
            | RunEvent::ClarificationRequested { interrupt_id, .. } => {
                let of_its_kind = match body {
                    RunEvent::ApprovalRequested { .. } => self.is_announced_approval(ix),
                    _ => {
                        self.is_clarification(ix) || self.is_dispatch(ix) || self.is_supervisor(ix)
                    }
                };
                self.require(of_its_kind, || format!("{id} is not a gate of this kind"));
                match self.question_mut(ix, interrupt_id.as_str()) {
                    Some(question) if !question.answered && !question.announced => {
                        question.announced = true;
                    }
                    _ => self.violation(format!("{id} has a question but no interrupt")),
                }
            }
            RunEvent::ClarificationResolved {
                interrupt_id,
                answers,
                ..
            } => {
                let answered = self
                    .question(ix, interrupt_id.as_str())
                    .is_some_and(|question| question.answered);
                self.require(answered, || format!("{id} has answers without an answer"));
                let asked = match self.question(ix, interrupt_id.as_str()) {
                    Some(question) if self.is_general(ix, InterruptKind::Clarification) => {
                        question.data.get("questions")
                    }
                    _ => self.plan.node(ix).config.get("questions"),
                };
                let asked = asked
                    .and_then(serde_json::Value::as_array)
                    .into_iter()
                    .flatten();
                let missing = asked
                    .filter_map(|question| question.get("id")?.as_str())
                    .find(|question| !answers.contains_key(*question));
                self.require(missing.is_none(), || {
                    format!("{id} continues with an unanswered question")
                });
            }
            RunEvent::ApprovalReceived {
                interrupt_id,
                action,
                ..
            } => self.decides(ix, interrupt_id.as_str(), *action),
            RunEvent::ApprovalGranted {
                interrupt_id,
                principal,
                granted,
                ..
            } => {
                self.votes(ix, interrupt_id.as_str(), principal, ApprovalAction::Accept);
                let counted = self.count(ix, interrupt_id.as_str(), ApprovalAction::Accept);
                self.require(counted == *granted, || {
                    format!("{id} counts {granted} approvals, there were {counted}")
                });
            }
            RunEvent::ApprovalRejected {
                interrupt_id,
                principal,
                ..
            } => self.votes(ix, interrupt_id.as_str(), principal, ApprovalAction::Reject),
            RunEvent::ApprovalOverridden {
                interrupt_id,
                principal,
                reason,
                ..
            } => {
                let of_its_kind = self.is_governed(ix) && !reason.is_empty();
                self.require(of_its_kind, || format!("{id} cannot be overridden"));
                let question = self.question(ix, interrupt_id.as_str());
                if question.is_some_and(|question| !question.answered) {
                    self.votes(ix, interrupt_id.as_str(), principal, ApprovalAction::Accept);
                }
            }
            RunEvent::ApprovalAsked { interrupt_id, .. } => {
                let open = self
                    .question(ix, interrupt_id.as_str())
                    .is_some_and(|question| !question.answered);
                self.require(open, || format!("{id} is asked back but is not open"));
            }
            _ => {}
        }
    }

    /// A decision follows the answer; only a gate that fails without an answer has none.
    fn decides(&mut self, ix: NodeIx, of: &str, action: ApprovalAction) {
        let id = self.id(ix).clone();
        let config = &self.plan.node(ix).config;
        let bypasses = config.get("overrideBypassesQuorum") == Some(&serde_json::json!(true));
        let required = if self.is_governed(ix) && bypasses {
            1
        } else {
            self.required(ix)
        };
        let accepted = self.count(ix, of, ApprovalAction::Accept);
        let Some(question) = self.question_mut(ix, of) else {
            return self.violation(format!("{id} is decided but has not asked"));
        };
        let fits = question.answered || action == ApprovalAction::Timeout;
        question.decided = Some(action);
        self.require(fits, || format!("{id} is decided without an answer"));
        let is_accepted = matches!(action, ApprovalAction::Accept | ApprovalAction::EditAccept);
        self.require(!is_accepted || accepted + 1 >= required, || {
            format!("{id} is accepted by {} of {required}", accepted + 1)
        });
    }

    fn votes(&mut self, ix: NodeIx, of: &str, who: &str, action: ApprovalAction) {
        let id = self.id(ix).clone();
        let several = self.required(ix) > 1 || self.is_governed(ix);
        self.require(several, || format!("{id} counts votes but needs only one"));
        let Some(question) = self.question_mut(ix, of) else {
            return self.violation(format!("{id} counts a vote but has not asked"));
        };
        let is_first = question.votes.insert(who.to_owned(), action).is_none();
        let is_open = !question.answered || question.decided.is_some();
        self.require(is_first, || format!("{id} counts a vote twice"));
        self.require(is_open, || {
            format!("{id} counts a vote before its decision")
        });
    }

    fn count(&self, ix: NodeIx, of: &str, action: ApprovalAction) -> u32 {
        let votes = self
            .question(ix, of)
            .map(|question| question.votes.values());
        let of_action = votes.into_iter().flatten().filter(|vote| **vote == action);
        u32::try_from(of_action.count()).unwrap_or(u32::MAX)
    }

    /// The number of required accepts in the definition.
    fn required(&self, ix: NodeIx) -> u32 {
        let key = if self.is_governed(ix) {
            "quorum"
        } else {
            "requiredApprovals"
        };
        let required = match self.place(ix) {
            Place::Attempt {
                waits_for: WaitsFor::Answer(question),
                ..
            } if self.is_general(ix, InterruptKind::Approval) => question.data.get(key),
            _ => self.plan.node(ix).config.get(key),
        };
        let required = required.and_then(serde_json::Value::as_u64);
        required.and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }

    /// A gate is left by the port of its decision.
    pub(super) fn left_as_decided(&mut self, ix: NodeIx, port: Option<&str>) {
        let has_ports = self.is_approval(ix);
        if !has_ports && !self.is_general(ix, InterruptKind::Approval) {
            return;
        }
        let decided = match self.place(ix) {
            Place::Attempt {
                waits_for: WaitsFor::Answer(question),
                ..
            } => question.decided,
            _ => None,
        };
        let fits =
            match decided {
                // A node without ports is only left when it is accepted.
                Some(
                    ApprovalAction::Accept | ApprovalAction::EditAccept | ApprovalAction::Timeout,
                ) if !has_ports => port.is_none(),
                _ if !has_ports => false,
                Some(ApprovalAction::Accept | ApprovalAction::EditAccept) => port == Some("accept"),
                Some(ApprovalAction::Reject) => port == Some("reject"),
                Some(ApprovalAction::Refine) => port == Some("refine"),
                Some(ApprovalAction::Timeout) => matches!(port, Some("accept" | "reject")),
                Some(ApprovalAction::Ask) | None => false,
            };
        let id = self.id(ix).clone();
        self.require(fits, || {
            format!("{id} is left otherwise than it was decided")
        });
    }
}
