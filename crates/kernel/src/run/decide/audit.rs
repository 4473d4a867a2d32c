//! Entries that a decision sends to the tenant's audit trail: actions on the run.

use super::Decision;
use crate::audit::{self, Actor, AuditAction, Entry, Outcome, Subject};
use crate::ids::InterruptId;

impl Decision {
    /// Records the creation of the run. Child runs and forks are recorded elsewhere. A run without
    /// a principal was started by the operator, who can write to the store itself.
    pub(super) fn tell_of_creation(&mut self, request_id: Option<String>) {
        let header = &self.run.header;
        let owner = &header.owner;
        let Some(principal) = owner.principal.clone() else {
            return;
        };
        if header.parent.is_some() || header.origin.is_some() {
            return;
        }
        let by = Actor {
            principal,
            issuer: owner.issuer.clone(),
            request_id,
        };
        let on = Subject::new("run", header.stream.as_str());
        self.tell(AuditAction::RunCreated, by, on);
    }

    /// Records an answer to a question of the run.
    pub(super) fn tell_of_answer(&mut self, interrupt: &InterruptId, by: Option<&str>) {
        let on = format!("{}/{interrupt}", self.run.header.stream);
        let by = Actor::new(by.unwrap_or("unknown"));
        self.tell(
            AuditAction::InterruptAnswered,
            by,
            Subject::new("interrupt", &on),
        );
    }

    /// Records a cancellation of the run.
    pub(super) fn tell_of_cancellation(&mut self, by: Option<Actor>) {
        let on = Subject::new("run", self.run.header.stream.as_str());
        let by = by.unwrap_or_else(|| Actor::new("unknown"));
        self.tell(AuditAction::RunCancelled, by, on);
    }

    /// Records an override: a grant without the gate's approvers.
    pub(super) fn tell_of_override(&mut self, by: &str) {
        let on = Subject::new("run", self.run.header.stream.as_str());
        self.tell(AuditAction::ApprovalOverridden, Actor::new(by), on);
    }

    fn tell(&mut self, action: AuditAction, by: Actor, mut on: Subject) {
        let message = self.next_message();
        let header = &self.run.header;
        on.workspace.clone_from(&header.owner.workspace);
        let entry = Entry {
            message,
            decided_at: self.now,
            action,
            by,
            on,
            outcome: Outcome::Done,
        };
        self.outbox.push(audit::message(header.tenant(), entry));
    }
}
