//! A coordinator that goes on where the files of another program end, and one that was told
//! nothing but which rules it keeps.

use std::collections::BTreeSet;

use crate::batch::Batch;
use crate::coordinator::command::{CoordinatorCommand, PastDispatch, PastMail, Recall, Rejection};
use crate::coordinator::contract::{Contract, LeaseRule};
use crate::coordinator::draft::{Draft, Remembered};
use crate::coordinator::event::CoordinatorEvent;
use crate::coordinator::{Coordinator, DispatchStatus};
use crate::ids::RequestId;
use crate::time::Timestamp;

/// What another program's files say.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// What happened but for the mailboxes, in order.
    pub entries: Vec<ImportedEntry>,
    /// The mailboxes.
    pub mail: Vec<ImportedMail>,
    /// Every id that was ever used for a request.
    pub used: BTreeSet<RequestId>,
}

/// An entry of another program's log.
#[derive(Clone, Debug)]
pub struct ImportedEntry {
    /// What it came of. Nothing where this program does not know the entry.
    pub command: Option<CoordinatorCommand>,
    /// As it was written, to be kept where it has no effect here.
    pub text: String,
}

/// A message and how far it came.
#[derive(Clone, Debug)]
pub struct ImportedMail {
    /// Its id.
    pub message_id: String,
    /// Its sender.
    pub from_worker: String,
    /// Whose mailbox.
    pub to_worker: String,
    /// What it says.
    pub body: String,
    /// When it was put there, where that is known.
    pub created: Option<String>,
    /// Whether the mailbox's owner was told, and when.
    pub notified: Reached,
    /// Whether it was read, and when.
    pub delivered: Reached,
}

/// Whether another program's message came so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reached {
    /// It did not.
    #[default]
    No,
    /// It did, nobody knows when.
    Sometime,
    /// It did, at the time that the files say.
    At(String),
}

impl Coordinator {
    /// Takes over what another program's files say, as the first batch of a new log: all of it or
    /// nothing. It happened under the published rules, whichever the log keeps from then on, and
    /// every entry is there: one without an effect as it was written.
    ///
    /// # Errors
    /// The rejection of the first event of a request or a message that even the published rules do
    /// not allow where it stands.
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
            // Used once and of no record, like an id whose record was taken out.
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
                // The published program passes over what its own rules refuse of an authority.
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

    /// Begins a log with nothing but its header, which says which rules it keeps.
    ///
    /// # Panics
    /// When the log has begun already.
    pub fn open(self, now: Timestamp) -> Batch {
        let mut draft = self.first_draft(now);
        draft.emit(CoordinatorEvent::Opened);
        draft.seal()
    }

    fn first_draft(self, now: Timestamp) -> Draft {
        assert_eq!(self.next_seq, 0, "the log has begun already");
        Draft::new(self, Recall::default(), LeaseRule::Contract, now)
    }
}

impl Draft {
    /// Emits what a command comes to, and recalls what its keys will say once they are in the
    /// store.
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
    /// What was done to it, and when.
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
