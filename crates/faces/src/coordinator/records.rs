//! All requests and messages in the form of the published files. Folded from the log.

use std::collections::HashMap;

use kernel::coordinator::{CoordinatorEvent, DispatchStatus, Event};
use kernel::ids::RequestId;
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request with all its nine fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the published file")]
pub struct DispatchRecord {
    pub request_id: String,
    pub target: String,
    pub status: DispatchStatus,
    pub created_at: String,
    pub notified_at: Option<String>,
    pub delivered_at: Option<String>,
    pub failed_at: Option<String>,
    /// The channel of its notification, or the reason of its failure.
    pub reason: Option<String>,
    pub metadata: Option<Value>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the published file")]
pub struct MailRecord {
    pub message_id: String,
    pub from_worker: String,
    pub to_worker: String,
    pub body: String,
    pub created_at: String,
    pub notified_at: Option<String>,
    pub delivered_at: Option<String>,
}

/// All records, in order.
#[derive(Clone, Debug, Default)]
pub struct Records {
    dispatches: Vec<Option<DispatchRecord>>,
    by_request: HashMap<RequestId, usize>,
    mail: Vec<MailRecord>,
    by_message: HashMap<String, usize>,
}

impl Records {
    /// Requests that were not removed.
    pub fn dispatches(&self) -> impl Iterator<Item = &DispatchRecord> {
        self.dispatches.iter().flatten()
    }

    /// Messages.
    pub fn mail(&self) -> &[MailRecord] {
        &self.mail
    }

    /// Folds an event.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        match &event.body {
            CoordinatorEvent::DispatchQueued {
                request_id,
                target,
                metadata,
                ..
            } => {
                self.by_request
                    .insert(request_id.clone(), self.dispatches.len());
                self.dispatches.push(Some(DispatchRecord::queued(
                    request_id,
                    target,
                    metadata.as_deref(),
                    at,
                )));
            }
            CoordinatorEvent::DispatchNotified { request_id, .. }
            | CoordinatorEvent::DispatchDelivered { request_id, .. }
            | CoordinatorEvent::DispatchFailed { request_id, .. } => {
                if let Some(record) = self.dispatch_mut(request_id) {
                    record.advance(&event.body, at);
                }
            }
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => {
                for request in request_ids {
                    if let Some(place) = self.by_request.remove(request) {
                        self.dispatches[place] = None;
                    }
                }
            }
            CoordinatorEvent::DispatchCompacted => {
                for record in &mut self.dispatches {
                    if record.as_ref().is_some_and(DispatchRecord::is_settled) {
                        *record = None;
                    }
                }
            }
            CoordinatorEvent::MailCreated { message_id, .. } => {
                // Facts about an id belong to the first message that has it.
                self.by_message
                    .entry(message_id.clone())
                    .or_insert(self.mail.len());
                self.mail.extend(MailRecord::created(&event.body, at));
            }
            CoordinatorEvent::MailNotified { message_id, .. }
            | CoordinatorEvent::MailDelivered { message_id, .. } => {
                if let Some(record) = self.mail_mut(message_id) {
                    record.advance(&event.body, at);
                }
            }
            _ => {}
        }
    }

    fn dispatch_mut(&mut self, request: &RequestId) -> Option<&mut DispatchRecord> {
        let place = *self.by_request.get(request)?;
        self.dispatches.get_mut(place)?.as_mut()
    }

    fn mail_mut(&mut self, message: &str) -> Option<&mut MailRecord> {
        let place = *self.by_message.get(message)?;
        self.mail.get_mut(place)
    }
}

impl DispatchRecord {
    /// The record of a new request.
    pub fn queued(
        request: &RequestId,
        target: &str,
        metadata: Option<&str>,
        at: Timestamp,
    ) -> Self {
        Self {
            request_id: request.to_string(),
            target: target.to_owned(),
            status: DispatchStatus::Pending,
            created_at: at.to_string(),
            notified_at: None,
            delivered_at: None,
            failed_at: None,
            reason: None,
            metadata: metadata.and_then(|text| serde_json::from_str(text).ok()),
        }
    }

    fn is_settled(&self) -> bool {
        matches!(
            self.status,
            DispatchStatus::Delivered | DispatchStatus::Failed
        )
    }

    /// Updates the record from an event about the request.
    pub fn advance(&mut self, event: &CoordinatorEvent, at: Timestamp) {
        let at = Some(at.to_string());
        match event {
            CoordinatorEvent::DispatchNotified { channel, .. } => {
                self.status = DispatchStatus::Notified;
                self.notified_at = at;
                self.reason = Some(channel.clone());
            }
            CoordinatorEvent::DispatchDelivered { .. } => {
                self.status = DispatchStatus::Delivered;
                self.delivered_at = at;
            }
            CoordinatorEvent::DispatchFailed { reason, .. } => {
                self.status = DispatchStatus::Failed;
                self.failed_at = at;
                self.reason = Some(reason.clone());
            }
            _ => {}
        }
    }
}

impl MailRecord {
    /// The record of a newly created message. `None` for other events.
    pub fn created(event: &CoordinatorEvent, at: Timestamp) -> Option<Self> {
        let CoordinatorEvent::MailCreated {
            message_id,
            from_worker,
            to_worker,
            body,
            said_at,
            ..
        } = event
        else {
            return None;
        };
        Some(Self {
            message_id: message_id.clone(),
            from_worker: from_worker.clone(),
            to_worker: to_worker.clone(),
            body: body.clone().unwrap_or_default(),
            created_at: said_or(said_at.as_deref(), at),
            notified_at: None,
            delivered_at: None,
        })
    }

    /// Updates the record from an event about the message.
    pub fn advance(&mut self, event: &CoordinatorEvent, at: Timestamp) {
        match event {
            CoordinatorEvent::MailNotified { said_at, .. } => {
                self.notified_at = Some(said_or(said_at.as_deref(), at));
            }
            CoordinatorEvent::MailDelivered { said_at, .. } => {
                self.delivered_at = Some(said_or(said_at.as_deref(), at));
            }
            _ => {}
        }
    }
}

/// The time from another program's files, or else that of the event.
fn said_or(said_at: Option<&str>, at: Timestamp) -> String {
    said_at.map_or_else(|| at.to_string(), ToOwned::to_owned)
}
