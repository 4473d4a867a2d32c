//! Gates that only people with a role or a scope decide.

use serde_json::Value;

use super::Decision;
use crate::control::governance::Ruling;
use crate::definition::NodeIx;
use crate::run::event::{RunEvent, Vote};
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
        self.leave_gate(open, answer, value);
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
}
