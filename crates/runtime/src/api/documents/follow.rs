//! Following a document's trace as it is saved.

use std::sync::Arc;
use std::time::Duration;

use kernel::document::{Body, Document};
use kernel::ids::StreamId;
use serde_json::Value;

use super::super::{Api, ApiError, ResourceKind};
use crate::access::Principal;
use crate::hints::Watch;

/// How often the log is polled: hints do not cross processes.
const LOOK: Duration = Duration::from_secs(1);

/// Events that were added to a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceUpdate {
    /// Their index in the trace.
    pub first: usize,
    /// The events.
    pub events: Vec<Arc<Value>>,
    /// Whether the trace has lost events reported earlier.
    pub rebased: bool,
    /// The document's own revision number.
    pub revision: u64,
}

/// Reads a trace from a position onwards.
pub struct DocumentTail {
    api: Api,
    who: Principal,
    id: String,
    known: Option<Arc<Body>>,
    next: usize,
    hint: Watch,
}

impl Api {
    /// Follows a run's trace from a position.
    ///
    /// # Errors
    /// As [`Api::document`].
    pub async fn follow_document(
        &self,
        who: &Principal,
        id: &str,
        next: usize,
    ) -> Result<DocumentTail, ApiError> {
        let held = self.document(who, id).await?;
        let hint = self.door().hints().watch(&held.document.header().stream);
        Ok(DocumentTail {
            api: self.clone(),
            who: who.clone(),
            id: id.to_owned(),
            known: None,
            next,
            hint,
        })
    }
}

/// Follows the run of a document.
pub struct DocumentViewTail {
    api: Api,
    who: Principal,
    run: StreamId,
    hint: Watch,
}

impl Api {
    /// Follows the run of a document, by the id of its stream or its client's id.
    ///
    /// # Errors
    /// As [`Api::document_view`].
    pub async fn follow_document_view(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<DocumentViewTail, ApiError> {
        let document = self.document_view(who, run).await?;
        let stream = document.header().stream.clone();
        Ok(DocumentViewTail {
            hint: self.door().hints().watch(&stream),
            api: self.clone(),
            who: who.clone(),
            run: stream,
        })
    }
}

impl DocumentViewTail {
    /// The current document.
    ///
    /// # Errors
    /// As [`Api::document_view`].
    pub async fn look(&mut self) -> Result<Arc<Document>, ApiError> {
        self.hint.look();
        self.api.document_view(&self.who, &self.run).await
    }

    /// Waits until there may be more. May return early.
    pub async fn changed(&mut self) {
        changed(&mut self.hint).await;
    }
}

async fn changed(hint: &mut Watch) {
    let changed = tokio::time::timeout(LOOK, hint.changed());
    if let Ok(false) = changed.await {
        // The sender of hints is gone: only polling remains.
        tokio::time::sleep(LOOK).await;
    }
}

impl DocumentTail {
    /// The events added since; `None` if the run was deleted.
    ///
    /// # Errors
    /// The store's.
    pub async fn news(&mut self) -> Result<Option<TraceUpdate>, ApiError> {
        self.hint.look();
        let held = match self.api.document(&self.who, &self.id).await {
            Ok(held) => held,
            Err(ApiError::NotFound(ResourceKind::Run)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(head) = held.document.head() else {
            return Ok(None);
        };
        let common = self.known.as_ref().map(|known| known.common_prefix(head));
        let rebased = common.is_some_and(|common| common < self.next);
        if rebased {
            self.next = common.unwrap_or_default();
        }
        let first = self.next.min(head.trace.len());
        let news = TraceUpdate {
            first,
            events: head.trace[first..].to_vec(),
            rebased,
            revision: head.revision,
        };
        self.next = head.trace.len();
        self.known = Some(head.clone());
        Ok(Some(news))
    }

    /// Waits until there may be more. May return early.
    pub async fn changed(&mut self) {
        changed(&mut self.hint).await;
    }
}
