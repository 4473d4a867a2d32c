//! Saving documents, and deciding their gates.

use std::sync::Arc;

use kernel::document::{
    Attribution, Document, DocumentCommand, DocumentRejection, SaveRecord, Sent,
};
use kernel::stream::Owner;
use store::StoreError;

use super::super::Api;
use super::{DocumentError, Held, permit};
use crate::access::{Action, Principal};
use crate::door::new_document_id;

/// Attempts of a save that lost a race with another process.
const TRIES: u32 = 100;

/// A change to a document.
#[derive(Clone, Debug)]
pub struct DocumentSave {
    /// The client's id of the run.
    pub id: String,
    /// The command.
    pub command: DocumentCommand,
    /// The save's text, so that the next one need not be parsed whole.
    pub sent: Option<Sent>,
    /// The id of the request.
    pub request_id: Option<String>,
}

/// The result of a save.
#[derive(Clone)]
pub struct Outcome {
    /// The document afterwards.
    pub held: Held,
    /// Whether the document was already the same.
    pub unchanged: bool,
}

impl Outcome {
    /// The current save of the document.
    pub fn save(&self) -> Option<&SaveRecord> {
        self.held.document.saves().last().map(|save| &**save)
    }
}

impl Api {
    /// The text of a document last sent to this process, if cached. The next text probably has the
    /// same beginning.
    ///
    /// # Errors
    /// A missing scope.
    pub fn document_sent(&self, who: &Principal, id: &str) -> Result<Option<Sent>, DocumentError> {
        let owner = permit(who, Action::SaveDocument)?;
        let held = self.documents.peek(&owner, id);
        Ok(held.and_then(|held| held.sent))
    }

    /// Saves a document, or decides one of its gates. An equal document is left unchanged.
    ///
    /// # Errors
    /// A missing scope, the rejection, or the store's.
    pub async fn save_document(
        &self,
        who: &Principal,
        order: DocumentSave,
    ) -> Result<Outcome, DocumentError> {
        let action = match order.command {
            DocumentCommand::Save(_) => Action::SaveDocument,
            DocumentCommand::Decide { .. } => Action::AnswerRun,
            DocumentCommand::Cancel { .. } => Action::CancelRun,
        };
        let owner = permit(who, action)?;
        self.save_for(who, owner, order).await
    }

    /// Saves a document of an owner. The caller is already authorised.
    pub(super) async fn save_for(
        &self,
        who: &Principal,
        owner: Owner,
        order: DocumentSave,
    ) -> Result<Outcome, DocumentError> {
        let DocumentSave {
            id,
            command,
            sent,
            request_id,
        } = order;
        let told = Attribution {
            by: who.actor(request_id.as_deref()),
            audited: self.document_audit,
        };
        let slot = self.documents.slot(&owner, &id);
        let mut known = slot.lock().await;
        // Decide on the cached document as it is, and on none if none is cached: the store rejects an
        // append that is out of date.
        let mut is_fresh = false;
        let mut tries = 0;
        let outcome = loop {
            let now = self.door().store().now();
            let document = match known.as_ref() {
                Some(held) => held.document.clone(),
                None => Arc::new(Document::unborn(new_document_id(), owner.clone(), now)),
            };
            let decided = match document.decide(command.clone(), &told, now) {
                // Blobs are written before the append is accepted: not for a guess.
                Ok(decided) if known.is_none() && !is_fresh && !decided.blobs.is_empty() => {
                    self.refresh(&owner, &id, &mut known).await?;
                    is_fresh = true;
                    continue;
                }
                Ok(decided) => decided,
                Err(_) if !is_fresh => {
                    self.refresh(&owner, &id, &mut known).await?;
                    is_fresh = true;
                    continue;
                }
                Err(DocumentRejection::Unchanged) => match known.clone() {
                    Some(held) => {
                        break Outcome {
                            held,
                            unchanged: true,
                        };
                    }
                    None => return Err(DocumentRejection::Unborn.into()),
                },
                Err(rejection) => return Err(rejection.into()),
            };
            match self.door().append_document(decided).await {
                Ok(document) => {
                    let before = known.take();
                    let folded = before.as_ref().map_or(0, |held| held.folded);
                    let held = Held {
                        folded: self.door().checkpoint_document(&document, folded).await,
                        document: Arc::new(document),
                        sent: sent.or_else(|| before.and_then(|held| held.sent)),
                    };
                    *known = Some(held.clone());
                    break Outcome {
                        held,
                        unchanged: false,
                    };
                }
                Err(StoreError::Conflict(_)) if tries < TRIES => {
                    tries += 1;
                    *known = None;
                    self.refresh(&owner, &id, &mut known).await?;
                    is_fresh = true;
                }
                Err(error) => {
                    // The append may or may not have been written: forget the cached state.
                    *known = None;
                    return Err(error.into());
                }
            }
        };
        drop(known);
        drop(slot);
        self.documents.weigh(&owner, &id, Some(&outcome.held));
        Ok(outcome)
    }
}
