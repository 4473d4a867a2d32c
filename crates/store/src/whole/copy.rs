//! A copy of a whole store into an empty one.

use kernel::digest::Digest;
use serde::{Deserialize, Serialize};

use super::{Mark, Part, Row, WholeStore};
use crate::{Finding, StoreError};

/// Why a copy ended. The destination stays unfinished.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A server may write to the source.
    #[error("the source is in use by {0}; stop it, or wait until its leases have expired")]
    SourceIsLive(String),
    /// The destination was not opened to import.
    #[error("the destination was not opened as one")]
    NotADestination,
    /// The destination has rows of another source, or of an earlier state of this one.
    #[error(
        "the source is not as it was when the copy began; delete the destination and copy again"
    )]
    SourceChanged,
    /// The copy is not equal to the source.
    #[error(
        "the {0} of the copy differ from those of the source; delete the destination and copy again"
    )]
    Differs(&'static str),
    /// The copy has a log that does not match its hash chain, or rows that contradict each other.
    #[error("the copy is not sound: {}", .0.what)]
    Unsound(Finding),
    /// A store failed; a repeated copy continues.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The rows of each part, which both stores have.
    pub rows: Vec<(Part, u64)>,
}

/// The mark of a destination: which source, and after which row.
#[derive(Serialize, Deserialize)]
struct Progress {
    source: Digest,
    /// The number of finished parts.
    parts: usize,
    /// The key of the last row copied of the next part.
    after: Option<Row>,
}

/// Copies a store that no server uses into an empty one, and compares the two. `report` is called
/// with the part and the number of its rows that were copied just now.
///
/// A copy that was interrupted continues where it was when it is repeated. At the end both stores
/// are read as a whole: every row must be equal, and every log of the copy must match its hash chain.
///
/// # Errors
/// [`CopyError`] says which are worth a repetition.
pub async fn copy(
    source: &dyn WholeStore,
    destination: &dyn WholeStore,
    report: &mut (dyn FnMut(Part, usize) + Send),
) -> Result<Copied, CopyError> {
    let servers = source.status().await?.servers;
    if let Some(server) = servers.first() {
        return Err(CopyError::SourceIsLive(server.to_string()));
    }
    let fingerprint = fingerprint(source).await?;
    let mut mark = destination
        .mark()
        .await?
        .ok_or(CopyError::NotADestination)?;
    let mut progress = match mark.text.as_str() {
        "" => Progress {
            source: fingerprint,
            parts: 0,
            after: None,
        },
        text => serde_json::from_str(text).map_err(|_| CopyError::SourceChanged)?,
    };
    if progress.source != fingerprint {
        return Err(CopyError::SourceChanged);
    }
    while let Some(&part) = Part::ALL.get(progress.parts) {
        let after = progress.after.take().unwrap_or_else(|| part.start());
        let rows = source.export(part, &after, part.page()).await?;
        match rows.last() {
            Some(last) => progress.after = Some(part.key(last).to_vec()),
            None => progress.parts += 1,
        }
        mark = Mark {
            step: mark.step + 1,
            text: serde_json::to_string(&progress).map_err(StoreError::unavailable)?,
        };
        let copied = rows.len();
        destination.import(part, rows, mark.clone()).await?;
        report(part, copied);
    }
    let mut rows = Vec::new();
    for part in Part::ALL {
        rows.push((part, compare(part, source, destination).await?));
    }
    if let Some(finding) = destination.inspect().await?.into_iter().next() {
        return Err(CopyError::Unsound(finding));
    }
    destination.finish_import().await?;
    Ok(Copied { rows })
}

/// A digest that tells a source from another one and from its own past: of its counters and of the
/// heads of its first streams.
async fn fingerprint(source: &dyn WholeStore) -> Result<Digest, StoreError> {
    let mut digest = Digest::compute(b"");
    for part in [Part::Counters, Part::Streams] {
        let rows = source.export(part, &part.start(), part.page()).await?;
        digest = digest.chain(format!("{rows:?}").as_bytes());
    }
    Ok(digest)
}

/// Compares a part of two stores row by row, and counts its rows.
async fn compare(
    part: Part,
    source: &dyn WholeStore,
    destination: &dyn WholeStore,
) -> Result<u64, CopyError> {
    let (mut after, mut count) = (part.start(), 0);
    loop {
        let page = source.export(part, &after, part.page()).await?;
        if page != destination.export(part, &after, part.page()).await? {
            return Err(CopyError::Differs(part.name()));
        }
        let Some(last) = page.last() else {
            return Ok(count);
        };
        after = part.key(last).to_vec();
        count += page.len() as u64;
    }
}
