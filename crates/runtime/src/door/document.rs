//! The door to documents.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use kernel::document::{
    Body, Decided, Document, DocumentCommand, DocumentRejection, History, KEY_NAMESPACE, Told,
};
use kernel::ids::StreamId;
use kernel::stream::{Owner, StreamKind};
use store::{Guard, HoldChange, ReadFrom, StoreError};

use super::{Door, TRIES};

/// Why a command to a document had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DocumentRefused {
    /// The rules refuse it; nothing was written.
    #[error(transparent)]
    Rejected(#[from] DocumentRejection),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A new random id for a document's stream.
pub(crate) fn new_document_id() -> StreamId {
    StreamId::new(format!("doc-{}", uuid::Uuid::now_v7().simple()))
}

impl Door {
    /// Reads a document's log.
    ///
    /// # Errors
    /// `Missing` for an unknown stream or one that is no document; `Corrupt` when the log does not
    /// fold.
    pub async fn document_history(&self, stream: &StreamId) -> Result<History, StoreError> {
        let loaded = self
            .store
            .load(stream, ReadFrom::Seq(0), usize::MAX)
            .await?;
        if loaded.header.kind != StreamKind::Document {
            return Err(StoreError::Missing);
        }
        let mut history = History::at_start(loaded.header);
        for record in &loaded.records {
            history
                .fold_content(&record.content)
                .ok_or_else(|| damaged(stream))?;
        }
        Ok(history)
    }

    /// A document as a save left it.
    ///
    /// # Errors
    /// The store's; `Corrupt` where it does not come out as it was saved.
    pub async fn document_body(&self, history: &History, number: u64) -> Result<Body, StoreError> {
        let blobs = self.document_blobs(history, number).await?;
        let stream = &history.document().header().stream;
        history.body(number, &blobs).ok_or_else(|| damaged(stream))
    }

    /// A document as it stands.
    ///
    /// # Errors
    /// As [`Door::document_history`] and [`Door::document_body`].
    pub async fn document(&self, stream: &StreamId) -> Result<Document, StoreError> {
        let history = self.document_history(stream).await?;
        let last = history.document().saves().len() as u64;
        let blobs = self.document_blobs(&history, last).await?;
        history.open(&blobs).ok_or_else(|| damaged(stream))
    }

    /// The stream of the document that a client's id stands for.
    ///
    /// # Errors
    /// The store's.
    pub async fn document_stream(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<StreamId>, StoreError> {
        let key = Document::key(owner, id);
        let row = self.store.key(&owner.tenant, KEY_NAMESPACE, &key).await?;
        Ok(row.and_then(|row| row.stream))
    }

    /// Tells a document something, making it where there is none. A lost race is decided again on
    /// what won.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn document_command(
        &self,
        owner: &Owner,
        id: &str,
        command: &DocumentCommand,
        by: &Told,
    ) -> Result<Document, DocumentRefused> {
        let mut tries = 0;
        loop {
            let now = self.store.now();
            let document = match self.document_stream(owner, id).await? {
                Some(stream) => self.document(&stream).await?,
                None => Document::unborn(new_document_id(), owner.clone(), now),
            };
            let decided = document.decide(command.clone(), by, now)?;
            match self.append_document(decided).await {
                Ok(document) => return Ok(document),
                Err(StoreError::Conflict(_)) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn document_blobs(
        &self,
        history: &History,
        number: u64,
    ) -> Result<BTreeMap<kernel::digest::Digest, Vec<u8>>, StoreError> {
        let tenant = history.document().header().tenant();
        let mut blobs = BTreeMap::new();
        for digest in history.blobs(number) {
            if let Entry::Vacant(entry) = blobs.entry(digest) {
                entry.insert(self.store.blob(tenant, &digest).await?);
            }
        }
        Ok(blobs)
    }

    /// Makes what was decided about a document durable. Answers the state after it.
    ///
    /// # Errors
    /// The store's; `Conflict` when somebody else was faster.
    pub(crate) async fn append_document(&self, decided: Decided) -> Result<Document, StoreError> {
        let Decided {
            blobs,
            batch,
            document,
        } = decided;
        let has_post = !batch.outbox().is_empty();
        for blob in blobs {
            self.store.put_blob(batch.tenant(), blob).await?;
        }
        self.store
            .append(batch, Guard::Outside, HoldChange::Keep)
            .await?;
        let header = document.header();
        self.hints.grown(&header.stream, document.next_seq());
        if has_post {
            self.hints.outbox();
        }
        Ok(document)
    }
}

fn damaged(stream: &StreamId) -> StoreError {
    StoreError::Corrupt(format!("the document {stream} does not fold"))
}
