//! Several commands to one coordinator, each decided on the result of the one before, and made
//! durable by one batch.

use crate::batch::Batch;
use crate::coordinator::Coordinator;
use crate::coordinator::assign::{TaskCommand, assignment_name, memory_of_assignments};
use crate::coordinator::command::{CoordinatorCommand, PastDispatch, Recall, Rejection};
use crate::coordinator::contract::LeaseRule;
use crate::coordinator::draft::{Draft, Remembered, memory_of_request};
use crate::coordinator::event::CoordinatorEvent;
use crate::coordinator::takes::{memory_of_takes, take_name, taken_before};
use crate::coordinator::task::PastAssignment;
use crate::ids::{Seq, WorkerId};
use crate::time::Timestamp;

/// Commands to a coordinator at one moment. Rejected ones change nothing.
#[derive(Debug)]
pub struct Group {
    draft: Draft,
}

impl Group {
    /// An empty group.
    pub fn new(coordinator: Coordinator, now: Timestamp) -> Self {
        let now = now.max(coordinator.at);
        Self {
            draft: Draft::new(coordinator, Recall::default(), LeaseRule::Contract, now),
        }
    }

    /// Decides a command. `recall` contains the facts from unique keys about its ids. Returns the
    /// resulting event, or the earlier one.
    ///
    /// # Errors
    /// The rejection.
    pub fn tell(
        &mut self,
        command: &CoordinatorCommand,
        recall: Recall,
        rule: LeaseRule,
    ) -> Result<CoordinatorEvent, Rejection> {
        self.draft.recall = recall;
        self.draft.rule = rule;
        let event = self.draft.event(command)?;
        if self.draft.is_news(&event) {
            self.draft.emit(event.clone());
        }
        Ok(event)
    }

    /// Decides a command about tasks. `past` is the remembered end of its assignment, `recall` that
    /// of its request. Returns the events, with their sequences.
    ///
    /// # Errors
    /// The rejection. Only a coordinator of the native contract assigns tasks.
    pub fn tell_task(
        &mut self,
        command: &TaskCommand,
        mut recall: Recall,
        past: Option<PastAssignment>,
    ) -> Result<Vec<(Seq, CoordinatorEvent)>, Rejection> {
        if let TaskCommand::Queue { request_id, .. } = command
            && self.has_used(request_id.as_str())
        {
            let past = PastDispatch::Removed;
            recall.requests.insert(request_id.clone(), past);
        }
        if let TaskCommand::Take {
            worker,
            key: Some(key),
            ..
        } = command
        {
            recall.taken = recall.taken.or_else(|| self.taken(worker, key));
        }
        let past = past.or_else(|| self.ended(command.assignment()?));
        self.draft.recall = recall;
        self.draft.rule = LeaseRule::Contract;
        self.draft.tell_task(command, past.as_ref())
    }

    /// Whether an earlier command of the group queued a request: it has no key in the store yet.
    fn has_used(&self, request: &str) -> bool {
        let stream = &self.draft.log.header.stream;
        let used = memory_of_request(stream, Remembered::Used);
        self.draft.claimed(&used, request).is_some()
    }

    /// The assignments of a take by an earlier command of the group: it has no key in the store
    /// yet.
    fn taken(&self, worker: &WorkerId, key: &str) -> Option<Vec<Seq>> {
        let namespace = memory_of_takes(&self.draft.log.header.stream);
        let claim = self.draft.claimed(&namespace, &take_name(worker, key))?;
        taken_before(claim.answer.as_ref()?)
    }

    /// The end of an assignment by an earlier command of the group: it has no key in the store yet.
    fn ended(&self, assignment: Seq) -> Option<PastAssignment> {
        let namespace = memory_of_assignments(&self.draft.log.header.stream);
        let claim = self
            .draft
            .claimed(&namespace, &assignment_name(assignment))?;
        serde_json::from_slice(claim.answer.as_ref()?).ok()
    }

    /// The batch to make durable, if any, and the coordinator after it.
    ///
    /// # Errors
    /// `TooLarge` if one of the events is: then nothing was decided.
    pub fn seal(self) -> Result<(Option<Batch>, Coordinator), Rejection> {
        self.draft.parts()
    }
}
