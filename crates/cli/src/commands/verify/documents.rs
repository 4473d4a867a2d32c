//! Documents: their blobs, their rows and their checkpoints.

use std::collections::BTreeMap;

use kernel::digest::Digest;
use kernel::document::{Document, History, Unusable};
use store::{Loaded, ReadFrom, StoreError};

use super::Check;

/// The message about a damaged checkpoint.
const DAMAGED: &str = "the checkpoint is damaged; the log is read from its start until a later \
                       checkpoint replaces it";

impl Check<'_> {
    /// Checks that the contents of a document's saves exist, and that they match the document, the
    /// row and the checkpoint.
    pub(super) async fn document(
        &mut self,
        history: History,
        loaded: &Loaded,
    ) -> Result<(), StoreError> {
        let header = history.document().header().clone();
        let (stream, tenant) = (&header.stream, header.tenant());
        let last = history.document().saves().len() as u64;
        let mut blobs = BTreeMap::new();
        for digest in (1..=last).flat_map(|number| history.parts_of(number)) {
            match self.door.store().blob(tenant, &digest).await {
                Ok(bytes) if Digest::compute(&bytes) == digest => drop(blobs.insert(digest, bytes)),
                Ok(_) | Err(StoreError::Missing | StoreError::Corrupt(_)) => {
                    self.find(
                        stream,
                        format!("the blob {digest} of a save is damaged or missing"),
                    );
                }
                Err(error) => return Err(error),
            }
        }
        let Some(document) = history.open(&blobs) else {
            self.find(stream, "the last save does not match its digest");
            return Ok(());
        };
        if document.index() != loaded.index {
            self.find(stream, "the index row differs from the document");
        }
        self.document_checkpoint(&document, &blobs).await
    }

    /// Checks that the checkpoint of a document is unchanged, and leads to the same document.
    async fn document_checkpoint(
        &mut self,
        whole: &Document,
        blobs: &BTreeMap<Digest, Vec<u8>>,
    ) -> Result<(), StoreError> {
        let stream = &whole.header().stream;
        let newest = ReadFrom::Checkpoint;
        let loaded = self.door.store().load(stream, newest, usize::MAX).await;
        let loaded = match loaded {
            // The log itself was just read to its end.
            Err(StoreError::Corrupt(_)) => {
                self.find(stream, DAMAGED);
                return Ok(());
            }
            loaded => loaded?,
        };
        let Some(at) = loaded.checkpoint else {
            return Ok(());
        };
        let header = whole.header().clone();
        let mut history = match History::from_checkpoint(header, at.next_seq, at.chain, &at.state) {
            Ok(history) => history,
            // It is always folded anew.
            Err(Unusable::OtherBuild) => return Ok(()),
            Err(Unusable::Damaged) => {
                self.find(stream, DAMAGED);
                return Ok(());
            }
        };
        // The checkpoint of a document may be ahead of the read log while it is being saved.
        let read = loaded.records.iter();
        let ahead = whole.next_seq().saturating_sub(at.next_seq);
        let read = read.take(usize::try_from(ahead).unwrap_or(usize::MAX));
        let fits = read.map(|record| history.fold_content(&record.content));
        let fits = fits.collect::<Option<()>>().is_some();
        let is_ahead = history.document().next_seq() > whole.next_seq();
        let state = history
            .open(blobs)
            .and_then(|document| document.checkpoint());
        if !is_ahead && (!fits || state != whole.checkpoint()) {
            self.find(
                stream,
                "the document from the checkpoint differs from the document of the log",
            );
        }
        Ok(())
    }
}
