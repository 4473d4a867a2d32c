//! Several things said to one coordinator, each decided on what the one before came to, and made
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

/// What is said to a coordinator at one moment. What is refused changes nothing.
#[derive(Debug)]
pub struct Group {
    draft: Draft,
}

impl Group {
    /// Nothing is said yet.
    pub fn new(coordinator: Coordinator, now: Timestamp) -> Self {
        let now = now.max(coordinator.at);
        Self {
            draft: Draft::new(coordinator, Recall::default(), LeaseRule::Contract, now),
        }
    }

    /// Decides a command. `recall` is what the unique keys say of the ids it names. Answers what
    /// happened, or had happened already.
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

    /// Decides a command about tasks. `past` is what is remembered of the assignment it names,
    /// `recall` of the request. Answers what happened, with its place.
    ///
    /// # Errors
    /// The rejection. Only a coordinator that keeps the native contract hands out.
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

    /// Whether a request was queued by what was said before: no key says so yet.
    fn has_used(&self, request: &str) -> bool {
        let stream = &self.draft.log.header.stream;
        let used = memory_of_request(stream, Remembered::Used);
        self.draft.claimed(&used, request).is_some()
    }

    /// What was handed out under a key by what was said before: no key says so yet.
    fn taken(&self, worker: &WorkerId, key: &str) -> Option<Vec<Seq>> {
        let namespace = memory_of_takes(&self.draft.log.header.stream);
        let claim = self.draft.claimed(&namespace, &take_name(worker, key))?;
        taken_before(claim.answer.as_ref()?)
    }

    /// How an assignment ended by what was said before: no key says so yet.
    fn ended(&self, assignment: Seq) -> Option<PastAssignment> {
        let namespace = memory_of_assignments(&self.draft.log.header.stream);
        let claim = self
            .draft
            .claimed(&namespace, &assignment_name(assignment))?;
        serde_json::from_slice(claim.answer.as_ref()?).ok()
    }

    /// What to make durable, if anything, and the coordinator after it.
    ///
    /// # Errors
    /// `TooLarge` where one of the events is: then nothing was decided.
    pub fn seal(self) -> Result<(Option<Batch>, Coordinator), Rejection> {
        self.draft.parts()
    }
}
