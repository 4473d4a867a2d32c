//! The door to documents.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use futures_util::future::try_join_all;
use kernel::batch::{Batch, Record};
use kernel::digest::Digest;
use kernel::document::{
    Attribution, Body, Canonical, Decided, Document, DocumentCommand, DocumentRejection, History,
    KEY_NAMESPACE,
};
use kernel::ids::{Seq, StreamId};
use kernel::stream::{Owner, StreamKind};
use store::{Checkpoint, Loaded, ReadFrom, StoreError};

use super::Door;
use crate::logs;

/// The fewest events between checkpoints. A checkpoint holds the folded state, which grows with the
/// log: so the interval is also at least an eighth of the events in the last one.
const CHECKPOINT_EVERY: Seq = 256;

/// The current state of a document.
#[derive(Clone, Debug)]
pub struct LoadedDocument {
    /// The document.
    pub document: Document,
    /// How many of its events the checkpoint covers.
    pub folded: Seq,
}

/// Why a command to a document had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DocumentRefused {
    /// A rejection by the rules; nothing was written.
    #[error(transparent)]
    Rejected(#[from] DocumentRejection),
    /// A store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A new random id for a document's stream.
pub(crate) fn new_document_id() -> StreamId {
    StreamId::new(format!("doc-{}", uuid::Uuid::now_v7().simple()))
}

impl Door {
    /// Reads a document's log from its beginning.
    ///
    /// # Errors
    /// `Missing` for an unknown stream or one that is not a document; `Corrupt` if the log does not
    /// fold.
    pub async fn document_history(&self, stream: &StreamId) -> Result<History, StoreError> {
        let whole = ReadFrom::Seq(0);
        let loaded = self.store.load(stream, whole, usize::MAX).await?;
        if loaded.header.kind != StreamKind::Document {
            return Err(StoreError::Missing);
        }
        let mut history = History::at_start(loaded.header);
        fold(&mut history, &loaded.records).ok_or_else(|| damaged(stream))?;
        Ok(history)
    }

    /// A document at one of its saves.
    ///
    /// # Errors
    /// The store's; `Corrupt` if it differs from the saved document.
    pub async fn document_body(&self, history: &History, number: u64) -> Result<Body, StoreError> {
        let blobs = self.document_blobs(history, number).await?;
        let stream = &history.document().header().stream;
        history.body(number, &blobs).ok_or_else(|| damaged(stream))
    }

    /// The text of a document at one of its saves.
    ///
    /// # Errors
    /// As [`Door::document_body`].
    pub async fn document_text(
        &self,
        history: &History,
        number: u64,
    ) -> Result<Canonical, StoreError> {
        let blobs = self.document_blobs(history, number).await?;
        let stream = &history.document().header().stream;
        history.text(number, &blobs).ok_or_else(|| damaged(stream))
    }

    /// The current document: its checkpoint and the saves since.
    ///
    /// # Errors
    /// As [`Door::document_history`] and [`Door::document_body`].
    pub async fn document(&self, stream: &StreamId) -> Result<LoadedDocument, StoreError> {
        let loaded = logs::newest(&*self.store, stream).await?;
        if loaded.header.kind != StreamKind::Document {
            return Err(StoreError::Missing);
        }
        let folded = loaded.first_seq;
        if let Some(history) = resumed(loaded)
            && let Ok(document) = self.open_document(history).await
        {
            return Ok(LoadedDocument { document, folded });
        }
        // The checkpoint is missing, damaged or from another build: fold the whole log.
        let history = self.document_history(stream).await?;
        let document = self.open_document(history).await?;
        let folded = 0;
        Ok(LoadedDocument { document, folded })
    }

    async fn open_document(&self, history: History) -> Result<Document, StoreError> {
        let last = history.document().saves().len() as u64;
        let blobs = self.document_blobs(&history, last).await?;
        let stream = history.document().header().stream.clone();
        history.open(&blobs).ok_or_else(|| damaged(&stream))
    }

    /// Writes a checkpoint if enough events follow the last one. Returns how many events the
    /// current checkpoint covers. A failure is harmless: the log is complete.
    pub(crate) async fn checkpoint_document(&self, document: &Document, folded: Seq) -> Seq {
        let next_seq = document.next_seq();
        if next_seq - folded < CHECKPOINT_EVERY.max(folded / 8) {
            return folded;
        }
        let Some(state) = document.checkpoint() else {
            return folded;
        };
        let checkpoint = Checkpoint {
            next_seq,
            chain: document.chain(),
            state,
        };
        let stream = &document.header().stream;
        if let Err(error) = self.store.put_checkpoint(stream, checkpoint).await {
            tracing::debug!(%stream, %error, "a checkpoint was not saved");
        }
        next_seq
    }

    /// The stream of a client's id.
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

    /// Sends a command to a document, and creates it if it does not exist. After a lost race it is
    /// decided again on the new state.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn document_command(
        &self,
        owner: &Owner,
        id: &str,
        command: &DocumentCommand,
        by: &Attribution,
    ) -> Result<Document, DocumentRefused> {
        let (_, (document, folded)) = self
            .transact_stream(|| async {
                let now = self.store.now();
                let standing = match self.document_stream(owner, id).await? {
                    Some(stream) => self.document(&stream).await?,
                    None => LoadedDocument {
                        document: Document::unborn(new_document_id(), owner.clone(), now),
                        folded: 0,
                    },
                };
                let decided = standing.document.decide(command.clone(), by, now)?;
                self.put_blobs(&decided.batch, decided.blobs).await?;
                let after = (decided.document, standing.folded);
                Ok::<_, DocumentRefused>((Some(decided.batch), after))
            })
            .await?;
        self.checkpoint_document(&document, folded).await;
        Ok(document)
    }

    /// Stores the blobs of a batch at the same time, so that they share a commit.
    async fn put_blobs(&self, batch: &Batch, blobs: Vec<Vec<u8>>) -> Result<(), StoreError> {
        let puts = blobs.into_iter();
        let puts = puts.map(|blob| self.store.put_blob(batch.tenant(), blob));
        try_join_all(puts).await.map(drop)
    }

    async fn document_blobs(
        &self,
        history: &History,
        number: u64,
    ) -> Result<BTreeMap<Digest, Vec<u8>>, StoreError> {
        let header = history.document().header();
        let mut blobs = BTreeMap::new();
        for digest in history.blobs(number) {
            if let Entry::Vacant(entry) = blobs.entry(digest) {
                let blob = self.store.blob(header.tenant(), &digest).await;
                entry.insert(match blob {
                    Err(StoreError::Missing) => {
                        // The document was deleted since its log was read, or the blob is lost.
                        let end = ReadFrom::Seq(Seq::MAX);
                        self.store.load(&header.stream, end, 0).await?;
                        return Err(damaged(&header.stream));
                    }
                    blob => blob?,
                });
            }
        }
        Ok(blobs)
    }

    /// Makes a decision about a document durable. Returns the state afterwards.
    ///
    /// # Errors
    /// The store's; `Conflict` if another append won.
    pub(crate) async fn append_document(&self, decided: Decided) -> Result<Document, StoreError> {
        let Decided {
            blobs,
            batch,
            document,
        } = decided;
        self.put_blobs(&batch, blobs).await?;
        self.append_batch(batch).await?;
        Ok(document)
    }
}

/// The history from the checkpoint, or from the start without one. `None` if the checkpoint cannot
/// be resumed or does not fit the log.
fn resumed(loaded: Loaded) -> Option<History> {
    let mut history = match loaded.checkpoint {
        None => History::at_start(loaded.header),
        Some(kept) => {
            let Checkpoint {
                next_seq,
                chain,
                state,
            } = kept;
            History::from_checkpoint(loaded.header, next_seq, chain, &state).ok()?
        }
    };
    fold(&mut history, &loaded.records)?;
    Some(history)
}

/// Folds records. `None` if they are damaged.
fn fold(history: &mut History, records: &[Record]) -> Option<()> {
    for record in records {
        history.fold_content(&record.content)?;
        (history.document().chain() == record.chain).then_some(())?;
    }
    Some(())
}

fn damaged(stream: &StreamId) -> StoreError {
    StoreError::Corrupt(format!("the document {stream} does not fold"))
}
