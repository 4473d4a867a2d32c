//! Decide: from a coordinator, a command and recalled facts to an answer, or to a rejection that
//! writes nothing.

use std::collections::BTreeSet;

use crate::batch::Batch;
use crate::coordinator::command::{CoordinatorCommand, PastDispatch, PastMail, Recall, Rejection};
use crate::coordinator::contract::{Contract, LeaseRule};
use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::draft::{Draft, Remembered};
use crate::coordinator::event::{CoordinatorEvent, Lease};
use crate::coordinator::group::Group;
use crate::coordinator::task::{TaskEnd, TaskError};
use crate::coordinator::{Coordinator, Cursor, event_number};
use crate::ids::{RequestId, Seq};
use crate::limits;
use crate::time::Timestamp;

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The answer: the resulting event, or the earlier one.
    pub event: CoordinatorEvent,
    /// The batch to make durable first. `None` if the command changes nothing.
    pub batch: Option<Batch>,
    /// The coordinator after it.
    pub after: Coordinator,
}

/// How often an unchanged heartbeat is logged, in milliseconds.
const PULSE_MS: u64 = 60_000;

impl PastDispatch {
    /// Parses the answer of a [`Remembered::Ended`] key.
    pub fn from_answer(answer: &[u8]) -> Option<Self> {
        let (status, seq): (DispatchStatus, Seq) = serde_json::from_slice(answer).ok()?;
        Some(Self::Settled { status, seq })
    }
}

impl Coordinator {
    /// Decides a command.
    ///
    /// # Errors
    /// The rejection.
    pub fn decide(
        self,
        command: &CoordinatorCommand,
        recall: &Recall,
        rule: LeaseRule,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let mut group = Group::new(self, now);
        let event = group.tell(command, recall.clone(), rule)?;
        let (batch, after) = group.seal()?;
        Ok(Decision {
            event,
            batch,
            after,
        })
    }
}

/// The failure of a request that a command settled.
fn failed_by_command(code: &str, why: &str) -> TaskEnd {
    TaskEnd::Error(TaskError {
        code: code.to_owned(),
        message: format!("the request was settled by a command: {why}"),
        retryable: None,
    })
}

/// Whether the store can keep an id as a key.
fn is_key(id: &str) -> bool {
    !id.contains('\0') && id.len() <= limits::MAX_REQUEST_ID_BYTES
}

impl Draft {
    pub(super) fn event(
        &mut self,
        command: &CoordinatorCommand,
    ) -> Result<CoordinatorEvent, Rejection> {
        use CoordinatorCommand as C;
        use CoordinatorEvent as E;
        Ok(match command.clone() {
            C::AcquireAuthority(lease) => E::AuthorityAcquired(self.acquired(lease)?),
            C::RenewAuthority(lease) => {
                self.owns(&lease.owner)?;
                E::AuthorityRenewed(self.checked(lease)?)
            }
            C::ReleaseAuthority { owner } => {
                self.owns(&owner)?;
                E::AuthorityReleased { owner }
            }
            C::QueueDispatch {
                request_id,
                target,
                metadata,
            } => {
                self.may_queue(&request_id)?;
                self.says("target", &target)?;
                self.remember_request(&request_id, Remembered::Used, None);
                E::DispatchQueued {
                    request_id,
                    target,
                    metadata,
                    task: None,
                }
            }
            C::MarkNotified {
                request_id,
                channel,
            } => {
                self.moves(&request_id, DispatchStatus::Notified)?;
                if self.is_native() {
                    self.has_authority()?;
                }
                E::DispatchNotified {
                    request_id,
                    channel,
                }
            }
            C::MarkDelivered { request_id } => {
                self.ends(&request_id, DispatchStatus::Delivered)?;
                self.end_by_command(&request_id, &TaskEnd::Outputs("{}".to_owned()));
                E::DispatchDelivered {
                    request_id,
                    report: None,
                }
            }
            C::MarkFailed { request_id, reason } => {
                self.ends(&request_id, DispatchStatus::Failed)?;
                self.end_by_command(&request_id, &failed_by_command("dispatch_failed", &reason));
                E::DispatchFailed {
                    request_id,
                    reason,
                    report: None,
                }
            }
            C::RemoveDispatchRecords { request_ids } => self.removed(&request_ids)?,
            C::CompactDispatches => E::DispatchCompacted,
            C::CreateMail {
                message_id,
                from_worker,
                to_worker,
                body,
            } => {
                let shadowed = self.may_create(&message_id)?;
                E::MailCreated {
                    message_id,
                    from_worker,
                    to_worker,
                    body: Some(body),
                    shadowed,
                    said_at: None,
                }
            }
            C::MarkMailNotified { message_id } => {
                self.unread(&message_id)?;
                E::MailNotified {
                    message_id,
                    said_at: None,
                }
            }
            C::MarkMailDelivered { message_id } => {
                self.unread(&message_id)?;
                self.remember_mail(&message_id, Remembered::Ended);
                E::MailDelivered {
                    message_id,
                    said_at: None,
                }
            }
            C::RequestReplay { cursor } => E::ReplayRequested { cursor },
            C::MarkReplayed { event_id } => {
                self.may_mark(&event_id)?;
                E::ReplayMarked { event_id }
            }
            C::DeferLeaderNotification => E::LeaderDeferred,
            C::ClearDeferredLeaderNotification => E::LeaderCleared,
            C::CaptureSnapshot => E::SnapshotCaptured,
            C::Heartbeat { owner, phase } => {
                self.speaks(&owner)?;
                E::Heartbeat { owner, phase }
            }
            C::BlockOnUser { owner, reason } => {
                self.speaks(&owner)?;
                E::BlockedOnUser { owner, reason }
            }
            C::BlockOnSystem { owner, reason } => {
                self.speaks(&owner)?;
                E::BlockedOnSystem { owner, reason }
            }
            C::AssignWorker { worker, task_id } => {
                self.says("worker", worker.as_str())?;
                self.says("task_id", &task_id)?;
                if self.is_native() {
                    self.has_authority()?;
                }
                E::WorkerAssigned {
                    worker,
                    task_id,
                    handed: None,
                }
            }
            C::StallWorker { worker, reason } => {
                self.knows(&worker)?;
                E::WorkerStalled {
                    worker,
                    reason,
                    task_id: None,
                }
            }
            C::RecoverWorker { worker, recovery } => {
                self.knows(&worker)?;
                E::WorkerRecovered { worker, recovery }
            }
        })
    }

    /// Whether the event adds something to the log.
    pub(super) fn is_news(&self, event: &CoordinatorEvent) -> bool {
        let state = &self.log.state;
        match event {
            CoordinatorEvent::Heartbeat { owner, phase } => {
                state.pulse.as_ref().is_none_or(|pulse| {
                    (&pulse.owner, &pulse.phase) != (owner, phase)
                        || self.now.ms_since(pulse.at) >= PULSE_MS
                })
            }
            CoordinatorEvent::ReplayMarked { event_id } => {
                let marked = event_number(event_id);
                !matches!(state.replay.applied, Cursor::Event(n) if marked.is_some_and(|m| m <= n))
            }
            CoordinatorEvent::LeaderDeferred => !state.leader_deferred,
            CoordinatorEvent::LeaderCleared => state.leader_deferred,
            CoordinatorEvent::DispatchCompacted => {
                state.backlog.delivered + state.backlog.failed > 0
            }
            _ => true,
        }
    }

    fn is_native(&self) -> bool {
        self.rules == Contract::Native
    }

    fn expires(&self) -> bool {
        self.rules.expires(self.rule)
    }

    /// The native contract requires a text in a field.
    fn says(&self, field: &'static str, text: &str) -> Result<(), Rejection> {
        if self.is_native() && text.is_empty() {
            return Err(Rejection::InvalidField(field));
        }
        Ok(())
    }

    fn checked(&self, lease: Lease) -> Result<Lease, Rejection> {
        self.says("owner", &lease.owner)?;
        self.says("lease_id", &lease.lease_id)?;
        if self.is_native() && lease.ends().is_none() {
            return Err(Rejection::InvalidField("leased_until"));
        }
        Ok(lease)
    }

    fn is_expired(&self, lease: &Lease) -> bool {
        self.expires() && lease.is_expired(self.rules, self.now)
    }

    fn acquired(&self, lease: Lease) -> Result<Lease, Rejection> {
        if let Some(held) = &self.log.state.lease
            && held.owner != lease.owner
            && !self.is_expired(held)
        {
            let owner = held.owner.clone();
            return Err(Rejection::LeaseHeld { owner });
        }
        self.checked(lease)
    }

    fn owns(&self, owner: &str) -> Result<&Lease, Rejection> {
        let held = (self.log.state.lease.as_ref()).ok_or(Rejection::NoLease)?;
        if held.owner != owner {
            return Err(Rejection::OwnerMismatch {
                owner: held.owner.clone(),
            });
        }
        Ok(held)
    }

    /// Only the holder of a live lease speaks for the coordinator. If leases do not expire, anyone
    /// may while the authority has no holder.
    pub(super) fn speaks(&self, owner: &str) -> Result<(), Rejection> {
        if !self.expires() && self.log.state.lease.is_none() {
            return Ok(());
        }
        let held = self.owns(owner)?;
        if self.is_expired(held) {
            Err(Rejection::LeaseExpired)
        } else {
            Ok(())
        }
    }

    pub(super) fn has_authority(&self) -> Result<(), Rejection> {
        match &self.log.state.lease {
            None => Err(Rejection::NoLease),
            Some(lease) if self.is_expired(lease) => Err(Rejection::LeaseExpired),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn may_queue(&self, request: &RequestId) -> Result<(), Rejection> {
        if request.as_str().is_empty() || !is_key(request.as_str()) {
            return Err(Rejection::InvalidRequest(request.clone()));
        }
        if self.log.is_open(request) || self.recall.requests.contains_key(request) {
            return Err(Rejection::DuplicateRequest(request.clone()));
        }
        if self.log.state.open.len() >= limits::MAX_OPEN_REQUESTS {
            Err(Rejection::Full("open requests"))
        } else {
            Ok(())
        }
    }

    /// The status of a request that is still listed.
    fn status(&self, request: &RequestId) -> Result<DispatchStatus, Rejection> {
        if let Some(status) = self.log.state.open.get(request) {
            return Ok(*status);
        }
        match self.recall.requests.get(request) {
            Some(PastDispatch::Settled { status, seq }) if *seq >= self.log.compacted() => {
                Ok(*status)
            }
            _ => Err(Rejection::UnknownRequest(request.clone())),
        }
    }

    fn moves(&self, request: &RequestId, to: DispatchStatus) -> Result<(), Rejection> {
        use DispatchStatus::{Delivered, Failed, Notified, Pending};
        let from = self.status(request)?;
        let is_allowed = match (from, to) {
            (Pending, Notified) | (Notified, Delivered | Failed) => true,
            (Pending, Failed) => !self.is_native(),
            _ => false,
        };
        if is_allowed {
            Ok(())
        } else {
            Err(Rejection::InvalidTransition {
                request: request.clone(),
                from,
                to,
            })
        }
    }

    fn ends(&mut self, request: &RequestId, status: DispatchStatus) -> Result<(), Rejection> {
        self.moves(request, status)?;
        self.remember_end(request, status);
        Ok(())
    }

    /// Remembers the end of a request with the next event.
    pub(super) fn remember_end(&mut self, request: &RequestId, status: DispatchStatus) {
        let answer = serde_json::to_vec(&(status, self.log.next_seq))
            .expect("a status and a number are always JSON");
        self.remember_request(request, Remembered::Ended, Some(answer));
    }

    fn removed(&mut self, requests: &[RequestId]) -> Result<CoordinatorEvent, Rejection> {
        if requests.is_empty() {
            return Err(Rejection::InvalidRequest(RequestId::new("")));
        }
        let (mut delivered, mut failed) = (0, 0);
        let mut sorted = BTreeSet::new();
        for request in requests {
            if request.as_str().is_empty() {
                return Err(Rejection::InvalidRequest(request.clone()));
            }
            if !sorted.insert(request) {
                return Err(Rejection::DuplicateRequest(request.clone()));
            }
        }
        for request in &sorted {
            match self.status(request)? {
                DispatchStatus::Delivered => delivered += 1,
                DispatchStatus::Failed => failed += 1,
                DispatchStatus::Pending | DispatchStatus::Notified => {}
            }
        }
        let request_ids: Vec<RequestId> = sorted.into_iter().cloned().collect();
        let taken_out = failed_by_command("dispatch_removed", "its record was taken out");
        for request in &request_ids {
            self.remember_request(request, Remembered::Removed, None);
            self.end_by_command(request, &taken_out);
        }
        Ok(CoordinatorEvent::DispatchRemoved {
            request_ids,
            delivered,
            failed,
        })
    }

    /// Whether the new message follows an older one of the same id.
    fn may_create(&mut self, message: &str) -> Result<bool, Rejection> {
        self.says("message_id", message)?;
        if !is_key(message) {
            return Err(Rejection::InvalidField("message_id"));
        }
        if self.recall.mail.is_some() {
            return if self.is_native() {
                Err(Rejection::DuplicateMail(message.to_owned()))
            } else {
                Ok(true)
            };
        }
        if self.log.state.mail.len() >= limits::MAX_OPEN_MAIL {
            return Err(Rejection::Full("unread messages"));
        }
        self.remember_mail(message, Remembered::Used);
        Ok(false)
    }

    fn unread(&self, message: &str) -> Result<(), Rejection> {
        if self.log.state.mail.contains_key(message) {
            return Ok(());
        }
        Err(match self.recall.mail {
            Some(PastMail::Delivered) => Rejection::MailDelivered(message.to_owned()),
            Some(PastMail::Created) | None => Rejection::UnknownMail(message.to_owned()),
        })
    }

    fn may_mark(&self, event_id: &str) -> Result<(), Rejection> {
        let state = &self.log.state;
        if !matches!(state.replay.applied, Cursor::Event(_)) {
            return Err(Rejection::NoReplay);
        }
        match state.resolve(Some(event_id)) {
            Cursor::Event(_) => Ok(()),
            Cursor::None | Cursor::Unknown => Err(Rejection::UnknownEvent),
        }
    }

    fn knows(&self, worker: &crate::ids::WorkerId) -> Result<(), Rejection> {
        if self.log.state.workers.contains_key(worker) {
            Ok(())
        } else {
            Err(Rejection::UnknownWorker(worker.clone()))
        }
    }
}
