//! Coordinators that receive commands, in a world that keeps their batches.

mod authority;
mod dispatches;
mod imports;
mod replays;

use super::*;
use crate::batch::Batch;

const MINUTE: i64 = 60_000;

/// A coordinator, its log, and the unique keys that its batches claimed.
struct World {
    coordinator: Coordinator,
    batches: Vec<Batch>,
    rule: LeaseRule,
}

impl World {
    fn new(contract: Contract) -> Self {
        Self {
            coordinator: Coordinator::unborn(&"t".into(), "c", contract, Timestamp(0)),
            batches: Vec::new(),
            rule: LeaseRule::Contract,
        }
    }

    fn native() -> Self {
        Self::new(Contract::Native)
    }

    fn published() -> Self {
        Self::new(Contract::Published)
    }

    /// The facts from the store's keys, as callers provide them.
    fn recall(&self, command: &CoordinatorCommand) -> Recall {
        let stream = &self.coordinator.header().stream;
        let key = |namespace: &str, key: &str| {
            (self.batches.iter().flat_map(|batch| batch.keys()))
                .find(|claim| claim.namespace == namespace && claim.key == key)
        };
        let mut recall = Recall::default();
        for request in command.requests() {
            let known = |what| key(&memory_of_request(stream, what), request.as_str());
            if self.coordinator.is_open(request) || known(Remembered::Used).is_none() {
                continue;
            }
            let past = match known(Remembered::Removed) {
                Some(_) => PastDispatch::Removed,
                None => {
                    let ended = known(Remembered::Ended).expect("neither open nor ended");
                    PastDispatch::from_answer(ended.answer.as_ref().unwrap()).unwrap()
                }
            };
            recall.requests.insert(request.clone(), past);
        }
        if let Some(message) = command.mail() {
            let known = |what| key(&memory_of_mail(stream, what), message).is_some();
            recall.mail = match (known(Remembered::Ended), known(Remembered::Used)) {
                (true, _) => Some(PastMail::Delivered),
                (false, true) => Some(PastMail::Created),
                (false, false) => None,
            };
        }
        recall
    }

    fn tell(&mut self, at: i64, command: CoordinatorCommand) -> Result<Decision, Rejection> {
        let recall = self.recall(&command);
        let decision =
            (self.coordinator.clone()).decide(&command, &recall, self.rule, Timestamp(at))?;
        if let Some(batch) = &decision.batch {
            self.append(batch.clone());
        }
        Ok(decision)
    }

    /// Folds a batch and checks the laws of every batch: the index row equals that of the fold, and
    /// a checkpoint is equivalent to the log before it.
    fn append(&mut self, batch: Batch) {
        if let Some(header) = batch.header() {
            self.coordinator = Coordinator::at_start(header.clone());
        }
        for record in batch.records() {
            let fresh = self.coordinator.fold_content(&record.content);
            assert!(fresh.is_some(), "a coordinator's event");
            assert_eq!(self.coordinator.chain(), record.chain);
        }
        assert_eq!(self.coordinator.index(), *batch.index());
        let saved = Coordinator::from_checkpoint(
            self.coordinator.header().clone(),
            self.coordinator.next_seq(),
            self.coordinator.chain(),
            &self.coordinator.checkpoint(),
        )
        .expect("a checkpoint of this build");
        assert_eq!(saved.state, self.coordinator.state);
        self.batches.push(batch);
    }

    fn ok(&mut self, command: CoordinatorCommand) -> CoordinatorEvent {
        self.tell(0, command).expect("accepted").event
    }

    fn code(&mut self, command: CoordinatorCommand) -> &'static str {
        self.tell(0, command).expect_err("refused").code()
    }

    fn standing(&self, at: i64) -> CoordinatorStatus {
        self.coordinator.standing(Timestamp(at), self.rule)
    }

    fn blockers(&self, at: i64) -> Vec<String> {
        let blockers = self.standing(at).blockers;
        blockers.iter().map(ToString::to_string).collect()
    }
}

fn lease(owner: &str, id: &str, minutes: i64) -> Lease {
    Lease {
        owner: owner.into(),
        lease_id: id.into(),
        leased_until: Timestamp(minutes * MINUTE).to_string(),
    }
}

fn acquire(owner: &str, minutes: i64) -> CoordinatorCommand {
    CoordinatorCommand::AcquireAuthority(lease(owner, "l", minutes))
}

fn renew(owner: &str, minutes: i64) -> CoordinatorCommand {
    CoordinatorCommand::RenewAuthority(lease(owner, "l2", minutes))
}

fn queue(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::QueueDispatch {
        request_id: id.into(),
        target: "w".into(),
        metadata: None,
    }
}

fn notify(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkNotified {
        request_id: id.into(),
        channel: "pane".into(),
    }
}

fn deliver(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkDelivered {
        request_id: id.into(),
    }
}

fn fail(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkFailed {
        request_id: id.into(),
        reason: "late".into(),
    }
}

fn remove(ids: &[&str]) -> CoordinatorCommand {
    CoordinatorCommand::RemoveDispatchRecords {
        request_ids: ids.iter().map(RequestId::new).collect(),
    }
}

fn mail(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::CreateMail {
        message_id: id.into(),
        from_worker: "a".into(),
        to_worker: "b".into(),
        body: "hello".into(),
    }
}

fn read(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkMailDelivered {
        message_id: id.into(),
    }
}

fn replay(cursor: Option<&str>) -> CoordinatorCommand {
    CoordinatorCommand::RequestReplay {
        cursor: cursor.map(Into::into),
    }
}

fn mark(event: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkReplayed {
        event_id: event.into(),
    }
}

fn heartbeat(owner: &str, phase: &str) -> CoordinatorCommand {
    CoordinatorCommand::Heartbeat {
        owner: owner.into(),
        phase: phase.into(),
    }
}
