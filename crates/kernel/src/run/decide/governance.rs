//! Gates that only people with a role or a scope decide.

use serde_json::{Value, json};

use super::Decision;
use crate::control::approval::{self, Answer};
use crate::control::governance::Ruling;
use crate::definition::{ControlKind, NodeIx};
use crate::run::event::{ApprovalAction, NodeError, RunEvent, Vote};
use crate::run::state::OpenInterrupt;

impl Decision {
    /// Applies a judged answer.
    pub(super) fn govern(
        &mut self,
        open: &OpenInterrupt,
        ruling: &Ruling,
        value: Value,
        by: Option<String>,
    ) {
        let answer = &ruling.answer;
        if ruling.overrides {
            let who = answer.by.clone().unwrap_or_default();
            self.tell_of_override(&who);
        }
        if !ruling.decides {
            let vote = Vote {
                resume_value: Some(value),
                resolved_by: by,
            };
            return self.count(open, ruling, vote);
        }
        self.resolved(open, value.clone(), by);
        self.received(open, answer);
        self.count(open, ruling, Vote::default());
        self.leave_governed(open, answer, value);
    }

    /// Records a person's decision.
    fn count(&mut self, open: &OpenInterrupt, ruling: &Ruling, vote: Vote) {
        let answer = &ruling.answer;
        if !ruling.overrides {
            return self.vote(open, answer, vote);
        }
        let ix = NodeIx(open.node);
        self.emit(RunEvent::ApprovalOverridden {
            interrupt_id: open.id.clone(),
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            principal: answer.by.clone().unwrap_or_default(),
            reason: answer.comment.clone().unwrap_or_default(),
            vote,
        });
    }

    /// The time to decide has passed, which counts as a rejection.
    pub(super) fn expire_governed(&mut self, open: &OpenInterrupt) {
        let value = json!({ "decision": "rejected", "reason": "timeout" });
        let mut answer = Answer {
            action: ApprovalAction::Timeout,
            by: None,
            comment: None,
            feedback: None,
            refine_feedback: None,
            edited: None,
        };
        self.resolved(open, value.clone(), None);
        self.received(open, &answer);
        answer.action = ApprovalAction::Reject;
        self.leave_governed(open, &answer, value);
    }

    fn leave_governed(&mut self, open: &OpenInterrupt, answer: &Answer, value: Value) {
        self.resumed(open);
        let ix = NodeIx(open.node);
        let port = approval::port(answer.action);
        let outputs = approval::outputs(answer, value, &open.data);
        if answer.action != ApprovalAction::Reject || self.has_edge_from(ix, port) {
            return self.complete(ix, outputs, Some(port.to_owned()));
        }
        if answer.by.is_none() {
            let what = "nobody granted the approval in time";
            let error = NodeError::new("interrupt_rejected", what);
            return self.fail_attempt(ix, error.with_details(json!({ "gate": outputs })).fatal());
        }
        // A rejection ends nothing by itself: the gate asks again.
        let inputs = self.facts().nodes[ix.index()].inputs.clone();
        self.begin_control(
            ix,
            ControlKind::GovernanceGate,
            &inputs.unwrap_or_default(),
            None,
        );
    }

    pub(super) fn has_edge_from(&self, ix: NodeIx, port: &str) -> bool {
        let plan = &self.run.plan;
        let mut edges = plan.node(ix).outgoing.iter();
        edges.any(|edge| plan.edge(*edge).source_output.as_deref() == Some(port))
    }
}
