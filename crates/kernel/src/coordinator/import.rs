//! Coordinators that continue another program's files, and coordinators with only a contract.

use std::collections::BTreeSet;

use crate::batch::Batch;
use crate::coordinator::command::{CoordinatorCommand, PastDispatch, PastMail, Recall, Rejection};
use crate::coordinator::contract::{Contract, LeaseRule};
use crate::coordinator::draft::{Draft, Remembered};
use crate::coordinator::event::CoordinatorEvent;
use crate::coordinator::{Coordinator, DispatchStatus};
use crate::ids::RequestId;
use crate::time::Timestamp;

/// The content of another program's files.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The events in order, without the mailboxes.
    pub entries: Vec<ImportedEntry>,
    /// The mailboxes.
    pub mail: Vec<ImportedMail>,
    /// Every id ever used for a request.
    pub used: BTreeSet<RequestId>,
}

/// An entry of another program's log.
#[derive(Clone, Debug)]
pub struct ImportedEntry {
    /// Its command. `None` for an unknown entry.
    pub command: Option<CoordinatorCommand>,
    /// The written text, kept if it has no effect here.
    pub text: String,
}

/// A message and its progress.
#[derive(Clone, Debug)]
pub struct ImportedMail {
    /// Its id.
    pub message_id: String,
    /// Its sender.
    pub from_worker: String,
    /// The owner of the mailbox.
    pub to_worker: String,
    /// The text.
    pub body: String,
    /// When it was created, if known.
    pub created: Option<String>,
    /// Whether the mailbox's owner was notified, and when.
    pub notified: Reached,
    /// Whether it was read, and when.
    pub delivered: Reached,
}

/// Whether another program's message reached a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reached {
    /// It did not.
    #[default]
    No,
    /// It did, at an unknown time.
    Sometime,
    /// It did, at this time by the files.
    At(String),
}

impl Coordinator {
    /// Imports another program's files as the first batch of a new log: all of it or nothing. The
    /// events are decided by the published rules, independently of the log's own contract. Every
    /// entry is kept, those without an effect as written.
    ///
    /// # Errors
    /// The rejection of the first event of a request or a message that even the published rules do
    /// not allow at its place.
    ///
    /// # Panics
    /// When the log has begun already.
    pub fn import(self, import: Import, now: Timestamp) -> Result<Batch, Rejection> {
        let mut draft = self.first_draft(now);
        draft.rules = Contract::Published;
        let mail: Vec<(CoordinatorCommand, Option<String>)> = (import.mail.iter())
            .flat_map(ImportedMail::commands)
            .collect();
        let mut reserved = import.used;
        for entry in &import.entries {
            if let Some(CoordinatorCommand::QueueDispatch { request_id, .. }) = &entry.command {
                reserved.remove(request_id);
            }
        }
        for request in reserved {
            // A used id without a record, like an id whose record was removed.
            draft.remember_request(&request, Remembered::Used, None);
            draft.remember_request(&request, Remembered::Removed, None);
            draft.recall.requests.insert(request, PastDispatch::Removed);
        }
        draft.emit(CoordinatorEvent::Imported {
            events: (import.entries.len() + mail.len()) as u64,
        });
        let mut messages = BTreeSet::new();
        for ImportedEntry { command, text } in import.entries {
            let Some(command) = command else {
                draft.emit(CoordinatorEvent::Foreign { text });
                continue;
            };
            let said = draft.take_over(&command, None, &mut messages);
            match said {
                // The published program ignores authority entries that its own rules reject.
                Err(_) if command.requests().is_empty() => {
                    draft.emit(CoordinatorEvent::Foreign { text });
                }
                said => said?,
            }
        }
        for (command, said_at) in mail {
            draft.take_over(&command, said_at, &mut messages)?;
        }
        Ok(draft.seal())
    }

    /// Begins a log with only its header, which contains the contract.
    ///
    /// # Panics
    /// When the log has begun already.
    pub fn open(self, now: Timestamp) -> Batch {
        let mut draft = self.first_draft(now);
        draft.emit(CoordinatorEvent::Opened);
        draft.seal()
    }

    fn first_draft(self, now: Timestamp) -> Draft {
        assert_eq!(self.next_seq, 0, "the log already exists");
        Draft::new(self, Recall::default(), LeaseRule::Contract, now)
    }
}

impl Draft {
    /// Emits the events of a command, and recalls the facts that its keys will contain once they
    /// are in the store.
    fn take_over(
        &mut self,
        command: &CoordinatorCommand,
        said_at: Option<String>,
        messages: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        self.recall.mail = command.mail().and_then(|message| {
            let is_open = self.log.state.mail.contains_key(message);
            let standing = if is_open {
                PastMail::Created
            } else {
                PastMail::Delivered
            };
            messages.contains(message).then_some(standing)
        });
        let seq = self.log.next_seq;
        let event = self.event(command)?;
        self.emit(event.dated(said_at));
        messages.extend(command.mail().map(ToOwned::to_owned));
        let status = match command {
            CoordinatorCommand::MarkDelivered { .. } => DispatchStatus::Delivered,
            CoordinatorCommand::MarkFailed { .. } => DispatchStatus::Failed,
            _ => return Ok(()),
        };
        for request in command.requests() {
            let settled = PastDispatch::Settled { status, seq };
            self.recall.requests.insert(request.clone(), settled);
        }
        Ok(())
    }
}

impl Reached {
    /// Reached at this time, if there is one.
    pub fn at(time: Option<String>) -> Self {
        time.map_or(Self::No, Self::At)
    }

    fn said(&self) -> Option<Option<String>> {
        match self {
            Self::No => None,
            Self::Sometime => Some(None),
            Self::At(time) => Some(Some(time.clone())),
        }
    }
}

impl ImportedMail {
    /// Its commands with their times.
    fn commands(&self) -> Vec<(CoordinatorCommand, Option<String>)> {
        let message_id = || self.message_id.clone();
        let create = CoordinatorCommand::CreateMail {
            message_id: message_id(),
            from_worker: self.from_worker.clone(),
            to_worker: self.to_worker.clone(),
            body: self.body.clone(),
        };
        let mut commands = vec![(create, self.created.clone())];
        if let Some(at) = self.notified.said() {
            let message_id = message_id();
            commands.push((CoordinatorCommand::MarkMailNotified { message_id }, at));
        }
        if let Some(at) = self.delivered.said() {
            let message_id = message_id();
            commands.push((CoordinatorCommand::MarkMailDelivered { message_id }, at));
        }
        commands
    }
}
