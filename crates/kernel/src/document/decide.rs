//! Decide: from a document and a command to a batch, or to a rejection that writes nothing.
//!
//! A save is compared with the last one. If its trace continues the last one, only the new events
//! are written, with the residual that they do not contain. Before that it is checked that both
//! together give the document again; if not, the document is kept whole. If its trace does not
//! continue the last one, the save still counts, whole, and the one before it becomes a branch.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::body::text;
use super::event::{Extension, External, Form, Saved, Via};
use super::gates::{GateDecision, decision_event};
use super::{Body, Canonical, Derived, Document, Head, Text};
use crate::audit::Actor;
use crate::batch::Batch;
use crate::digest::Digest;
use crate::json;
use crate::limits;
use crate::log::Draft;
use crate::time::Timestamp;

/// The state of the document that a save expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// None: any earlier save is replaced.
    Anything,
    /// The last save: a save that does not continue it is rejected.
    Continuation,
    /// The last save has this digest.
    Digest(Digest),
    /// No earlier save.
    Nothing,
}

/// A document to be saved.
#[derive(Clone, Debug)]
pub struct Save {
    /// The document.
    pub body: Arc<Body>,
    /// Its text, with members in the received order. Without it they are sorted.
    pub text: Option<Text>,
    /// How it was sent.
    pub via: Via,
    /// The expected state.
    pub expected: Expected,
}

/// A command to a document.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum DocumentCommand {
    /// Save this document.
    Save(Box<Save>),
    /// Decide a gate.
    Decide {
        step: String,
        /// `PAUSE_BEFORE`, `PAUSE_AFTER` or `CHECKPOINT`.
        gate: String,
        decision: GateDecision,
        /// A remark; for a checkpoint its name.
        note: Option<String>,
    },
    /// Cancel its run.
    Cancel { reason: Option<String> },
}

/// Why a document rejects a command. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentRejection {
    /// The document has this content already.
    #[error("the document already has this content")]
    Unchanged,
    /// Another client has saved it since.
    #[error("another client has saved the run since; load it again and apply your changes")]
    Stale,
    /// There is nothing to decide or cancel.
    #[error("the run has no save yet")]
    Unborn,
    /// The workflow has no such step.
    #[error("the workflow has no such step")]
    UnknownStep,
    /// The gate does not wait for a decision.
    #[error("this gate does not wait for a decision")]
    NotPending,
    /// The run has ended.
    #[error("the run is no longer running")]
    NotRunning,
    /// A step is running; its client has to stop it first.
    #[error("a step is running, so the run cannot be cancelled here")]
    StepRunning,
    /// The maximum number of saves is reached.
    #[error(
        "the run was saved {} times; delete it, or continue with another id",
        limits::MAX_SAVES
    )]
    TooManySaves,
    /// Events made here would make it too large.
    #[error(
        "the document would be larger than {} bytes",
        limits::MAX_DOCUMENT_BYTES
    )]
    TooLarge,
}

impl DocumentRejection {
    /// Stable, for programs; the workbench's API writes it in capitals.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Stale => "stale_revision",
            Self::Unborn => "run_not_found",
            Self::UnknownStep => "unknown_step",
            Self::NotPending => "gate_not_pending",
            Self::NotRunning => "run_not_active",
            Self::StepRunning => "step_running",
            Self::TooManySaves => "too_many_saves",
            Self::TooLarge => "run_too_large",
        }
    }
}

/// The sender of a command.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// The actor.
    pub by: Actor,
    /// The commands that are recorded in the tenant's audit trail.
    pub audited: Audited,
}

/// The commands on a document that are recorded in an audit trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audited {
    /// Decisions made here: gates, cancellations, forks.
    #[default]
    Decisions,
    /// Every save as well.
    Saves,
}

/// The result of a command.
#[derive(Debug)]
pub struct Decided {
    /// Bytes to be put into the store before the batch.
    pub blobs: Vec<Vec<u8>>,
    /// It must be durable before it is acted on.
    pub batch: Batch,
    /// The state after it.
    pub document: Document,
}

impl Document {
    /// Decides a command.
    ///
    /// # Errors
    /// The rejection.
    pub fn decide(
        &self,
        command: DocumentCommand,
        by: &Attribution,
        now: Timestamp,
    ) -> Result<Decided, DocumentRejection> {
        let now = now.max(self.at);
        match command {
            DocumentCommand::Save(save) => self.save(*save, by, now),
            DocumentCommand::Decide {
                step,
                gate,
                decision,
                note,
            } => {
                let head = self.head().ok_or(DocumentRejection::Unborn)?;
                if text(&head.derived.run, "status") != "running" {
                    return Err(DocumentRejection::NotRunning);
                }
                if head.derived.gates.get(&step).is_none() {
                    return Err(DocumentRejection::UnknownStep);
                }
                if !head.is_pending(&step, &gate, note.as_deref()) {
                    return Err(DocumentRejection::NotPending);
                }
                let id = self.made_id();
                let note = note.as_deref();
                let event = decision_event(id, head, now, &step, &gate, decision, note);
                self.make(head, event, Via::Gate, by, now)
            }
            DocumentCommand::Cancel { reason } => {
                let head = self.head().ok_or(DocumentRejection::Unborn)?;
                head.may_cancel()?;
                let mut event = json!({
                    "id": self.made_id(), "type": "run_status_changed", "runId": head.id(),
                    "ts": now.to_string(), "status": "cancelled",
                });
                if let Some(reason) = reason {
                    event["reason"] = json!(reason);
                }
                self.make(head, event, Via::Cancel, by, now)
            }
        }
    }

    fn with_head(&self, head: Head) -> Self {
        let mut document = self.clone();
        document.state.head = Some(head);
        document
    }

    /// The id of an event made here: derived, so that it differs from all others.
    fn made_id(&self) -> String {
        let text = format!("document\0{}\0{}", self.header.stream, self.next_seq);
        format!(
            "evt_{}",
            &Digest::compute(text.as_bytes()).to_string()[..32]
        )
    }

    /// The document with one more event, made here.
    fn make(
        &self,
        head: &Body,
        event: Value,
        via: Via,
        by: &Attribution,
        now: Timestamp,
    ) -> Result<Decided, DocumentRejection> {
        let made = text(event.as_object().unwrap_or(&Map::new()), "id").to_owned();
        let mut body = head.clone();
        body.derived.fold(&event);
        body.trace.push(Arc::new(event));
        body.revision += 1;
        self.write((Arc::new(body), None), via, (vec![made], 0), by, now)
    }

    fn save(
        &self,
        save: Save,
        by: &Attribution,
        now: Timestamp,
    ) -> Result<Decided, DocumentRejection> {
        let Save {
            body,
            text,
            via,
            expected,
        } = save;
        let last = self.state.saves.last();
        let knows = match expected {
            Expected::Anything | Expected::Continuation => true,
            Expected::Digest(digest) => last.is_some_and(|last| last.digest == digest),
            Expected::Nothing => last.is_none(),
        };
        if !knows {
            return Err(DocumentRejection::Stale);
        }
        let (body, put_back) = match self.head() {
            Some(head) => put_back(head, body, &self.state.made),
            None => (body, 0),
        };
        if let (Some(head), Expected::Continuation) = (self.head(), expected)
            && head.common_prefix(&body) < head.trace.len()
        {
            return Err(DocumentRejection::Stale);
        }
        // Events that were put back are missing in the received text.
        let text = text.filter(|_| put_back == 0);
        self.write((body, text), via, (Vec::new(), put_back), by, now)
    }

    fn write(
        &self,
        (body, sent): (Arc<Body>, Option<Text>),
        via: Via,
        (made, put_back): (Vec<String>, u64),
        by: &Attribution,
        now: Timestamp,
    ) -> Result<Decided, DocumentRejection> {
        let known = self.state.head.as_ref();
        if sent.is_some() && known.is_some_and(|head| head.body.is_same(&body)) {
            return Err(DocumentRejection::Unchanged);
        }
        let is_sent = sent.is_some();
        let canonical = match sent {
            Some(text) => Canonical::as_it_came(text),
            None => body.canonical_after(known.map(|head| (&*head.body, &head.canonical))),
        };
        let text = canonical.as_ref();
        let digest = Digest::compute(text);
        if self
            .state
            .saves
            .last()
            .is_some_and(|last| last.digest == digest)
        {
            return Err(DocumentRejection::Unchanged);
        }
        if self.state.saves.len() >= limits::MAX_SAVES {
            return Err(DocumentRejection::TooManySaves);
        }
        // A client's document may be a little larger in canonical form; as received it was within
        // the limit.
        if via != Via::Client && text.len() > limits::MAX_DOCUMENT_BYTES {
            return Err(DocumentRejection::TooLarge);
        }
        let common = self.head().map_or(0, |head| head.common_prefix(&body));
        let goes_on = self.head().is_none_or(|head| head.trace.len() == common);
        // In the form of an event a value is at most twice as long as in the document.
        let is_small = text.len() < limits::MAX_EVENT_BYTES / 4;
        let short = if is_sent {
            self.text_form(&canonical).map(|form| (form, Vec::new()))
        } else {
            goes_on.then(|| self.short_form(&body, common)).flatten()
        };
        let short = short
            .filter(|(form, _)| is_small || json::canonical(form).len() <= limits::MAX_EVENT_BYTES);
        let (form, blobs) = short.unwrap_or_else(|| {
            let whole = Form::Whole { body: digest };
            (whole, vec![text.to_vec()])
        });
        let saved = Saved {
            revision: body.revision,
            events: body.trace.len() as u64,
            digest,
            via,
            by: Some(by.by.principal.clone()),
            replaced: (!goes_on).then_some(self.state.saves.len() as u64),
            made,
            put_back,
            form,
        };
        let counted = self.state.head.as_ref().filter(|_| goes_on);
        let mut tally = counted.map_or_else(Default::default, |head| head.tally.clone());
        tally.count(&body.trace);
        let head = Head {
            body: body.clone(),
            canonical,
            tally,
        };
        let mut draft = Draft::new(self.with_head(head), now);
        draft.write(saved, &body, common, by);
        Ok(draft.finish(blobs))
    }

    /// The changes of the text. `None` if it is better kept whole.
    fn text_form(&self, text: &Canonical) -> Option<Form> {
        let Some(head) = &self.state.head else {
            let is_short = text.as_ref().len() <= limits::MAX_INLINE_TEXT_BYTES;
            let whole = is_short.then(|| String::from_utf8(text.as_ref().to_vec()));
            let text = whole?.ok()?;
            return Some(Form::Text { text });
        };
        let edits = head.canonical.edits(text)?;
        let new: usize = edits.iter().map(|edit| edit.insert.len()).sum();
        (new <= limits::MAX_INLINE_TEXT_BYTES).then_some(Form::Edited { edits })
    }

    /// The changes of the document, with the required blobs. `None` if they do not give the
    /// document again.
    fn short_form(&self, body: &Body, common: usize) -> Option<(Form, Vec<Vec<u8>>)> {
        let mut run = body.derived.run.clone();
        let mut derived = match self.head() {
            Some(head) => head.derived.clone(),
            None => {
                run.remove("status");
                run.remove("endedAt");
                Derived::opened(run.clone())
            }
        };
        let mut appended: Vec<Value> = body.trace[common..]
            .iter()
            .map(|it| (**it).clone())
            .collect();
        for event in &appended {
            derived.fold(event);
        }
        let residual = derived.residual(&body.derived);
        derived.apply(residual.clone());
        if derived != body.derived {
            return None;
        }
        let (external, blobs) = take_out(&mut appended);
        let extension = Extension {
            appended,
            residual,
            external,
        };
        let form = match self.state.head {
            Some(_) => Form::Extended(extension),
            None => Form::Opened { run, extension },
        };
        Some((form, blobs))
    }
}

impl Body {
    /// Whether its run can be cancelled by others than its browser.
    ///
    /// # Errors
    /// It is not running, or a step of it is.
    pub fn may_cancel(&self) -> Result<(), DocumentRejection> {
        if text(&self.derived.run, "status") != "running" {
            return Err(DocumentRejection::NotRunning);
        }
        let mut steps = self.derived.steps.iter();
        if steps.any(|(_, status)| status == "running") {
            Err(DocumentRejection::StepRunning)
        } else {
            Ok(())
        }
    }
}

/// Moves large data of artifacts out of events.
fn take_out(events: &mut [Value]) -> (Vec<External>, Vec<Vec<u8>>) {
    let (mut external, mut blobs) = (Vec::new(), Vec::new());
    for (place, event) in events.iter_mut().enumerate() {
        if event["type"] != "artifact_written" {
            continue;
        }
        let data = event.get_mut("artifact").and_then(|it| it.get_mut("data"));
        let Some(data) = data else { continue };
        let bytes = json::canonical(data);
        if bytes.len() >= limits::MAX_INLINE_ARTIFACT_BYTES {
            *data = Value::Null;
            external.push(External {
                event: place as u64,
                blob: Digest::compute(&bytes),
            });
            blobs.push(bytes);
        }
    }
    (external, blobs)
}

/// Puts events made here that a client did not know when it saved back onto its document, each at
/// its place. Their results apply as far as the client has none newer.
fn put_back(head: &Body, body: Arc<Body>, made: &BTreeSet<String>) -> (Arc<Body>, u64) {
    let id = |event: &Value| event["id"].as_str().map(str::to_owned);
    let is_made = |event: &Value| {
        let id = event["id"].as_str();
        id.is_some_and(|id| made.contains(id))
    };
    if made.is_empty() {
        return (body, 0);
    }
    let known: BTreeSet<String> = body
        .trace
        .iter()
        .filter(|it| is_made(it))
        .filter_map(|event| id(event))
        .collect();
    let is_lacking =
        |event: &Value| is_made(event) && id(event).is_some_and(|id| !known.contains(&id));
    let lacking: Vec<&Arc<Value>> = head
        .trace
        .iter()
        .filter(|event| is_lacking(event))
        .collect();
    if lacking.is_empty() {
        return (body, 0);
    }
    let Body {
        revision,
        trace: given,
        mut derived,
    } = Arc::unwrap_or_clone(body);
    let mut trace = Vec::with_capacity(given.len() + lacking.len());
    let mut given = given.into_iter().peekable();
    let mut back = 0;
    for event in &head.trace {
        if is_lacking(event) {
            trace.push(event.clone());
            back += 1;
        } else if given.peek() == Some(event) {
            trace.extend(given.next());
        } else {
            break;
        }
    }
    let newer: Vec<Arc<Value>> = given.collect();
    for event in &lacking {
        if !is_overtaken(event, &newer, &derived) {
            derived.fold(event);
        }
    }
    trace.extend(newer);
    trace.extend(lacking[back..].iter().map(|event| Arc::clone(event)));
    let count = lacking.len() as u64;
    let body = Body {
        revision: revision.saturating_add(count),
        trace,
        derived,
    };
    (Arc::new(body), count)
}

/// Whether the client has continued past the place of an event made here.
fn is_overtaken(event: &Value, newer: &[Arc<Value>], derived: &Derived) -> bool {
    match event["type"].as_str() {
        Some("human_gate_resolved") => {
            event["decision"] == "rejected"
                || newer.iter().any(|new| {
                    let kind = new["type"].as_str().unwrap_or_default();
                    kind.starts_with("human_gate_")
                        && new["stepId"] == event["stepId"]
                        && new["gate"] == event["gate"]
                })
        }
        _ => text(&derived.run, "status") != "running",
    }
}
