//! Following a document's trace as it is saved.

use std::sync::Arc;
use std::time::Duration;

use kernel::document::Body;
use serde_json::Value;

use super::super::{Api, ApiError, Thing};
use crate::access::Principal;
use crate::hints::Watch;

/// How often the log is looked at without a hint: other processes' hints do not reach us.
const LOOK: Duration = Duration::from_secs(1);

/// Events that were added to a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// Where they stand in the trace.
    pub first: usize,
    /// The events.
    pub events: Vec<Arc<Value>>,
    /// Whether events that were told of before do not stand in the trace any more.
    pub rebased: bool,
    /// The document's own count.
    pub revision: u64,
}

/// Reads a trace onwards from a place.
pub struct DocumentTail {
    api: Api,
    who: Principal,
    id: String,
    known: Option<Arc<Body>>,
    next: usize,
    hint: Watch,
}

impl Api {
    /// Follows a run's trace from a place on.
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

impl DocumentTail {
    /// What is new; `None` when the run was deleted.
    ///
    /// # Errors
    /// The store's.
    pub async fn news(&mut self) -> Result<Option<News>, ApiError> {
        self.hint.look();
        let held = match self.api.document(&self.who, &self.id).await {
            Ok(held) => held,
            Err(ApiError::NotFound(Thing::Run)) => return Ok(None),
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
        let news = News {
            first,
            events: head.trace[first..].to_vec(),
            rebased,
            revision: head.revision,
        };
        self.next = head.trace.len();
        self.known = Some(head.clone());
        Ok(Some(news))
    }

    /// Waits until there may be more. Returns early rather than late.
    pub async fn changed(&mut self) {
        let changed = tokio::time::timeout(LOOK, self.hint.changed());
        if let Ok(false) = changed.await {
            // Nobody hints any more: the slow look is all there is.
            tokio::time::sleep(LOOK).await;
        }
    }
}
