//! Checks of a store's own structure, for a store of SQL tables.

use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};

use super::{Cell, Column, Kind, Part, SqlStore, WholeStore};
use crate::{Finding, ReadFrom, StoreError, codec};

/// Maximum number of findings; a damaged store may have any number.
const MAX_FINDINGS: usize = 1_000;
/// Events read at a time.
const PAGE: usize = 256;

/// Finds rows that contradict each other, and reads every stream and every blob from end to end.
///
/// # Errors
/// The store's.
pub async fn inspect<S: SqlStore>(store: &S) -> Result<Vec<Finding>, StoreError> {
    const STREAM: &[Column] = &[("stream", Kind::Text)];
    let mut findings = Vec::new();
    for fault in S::FAULTS.split_terminator(";\n") {
        let (what, query) = fault.split_once('\n').unwrap_or_default();
        for row in store.select(query, Vec::new(), STREAM).await? {
            let stream = match row.into_iter().next() {
                Some(Cell::Text(stream)) => Some(stream.into()),
                _ => None,
            };
            let what = what.trim_start_matches("-- ").into();
            findings.push(Finding { stream, what });
        }
    }
    for part in [Part::Streams, Part::Blobs] {
        let mut after = part.start();
        while findings.len() < MAX_FINDINGS {
            let rows = store.export(part, &after, part.page()).await?;
            for row in &rows {
                findings.extend(match part {
                    Part::Streams => stream(store, row).await?,
                    _ => blob(row),
                });
            }
            match rows.last() {
                Some(last) => after = part.key(last).to_vec(),
                None => break,
            }
        }
    }
    findings.truncate(MAX_FINDINGS);
    Ok(findings)
}

async fn stream<S: SqlStore>(store: &S, row: &[Cell]) -> Result<Option<Finding>, StoreError> {
    let Some(Cell::Text(name)) = row.first() else {
        return Ok(None);
    };
    let stream = StreamId::new(name.as_str());
    match read_through(store, &stream).await {
        // It was purged meanwhile.
        Ok(()) | Err(StoreError::Missing) => Ok(None),
        Err(error @ StoreError::Corrupt(_)) => Ok(Some(Finding {
            stream: Some(stream),
            what: error.to_string(),
        })),
        Err(error) => Err(error),
    }
}

async fn read_through<S: SqlStore>(store: &S, stream: &StreamId) -> Result<(), StoreError> {
    let mut seq: Seq = 0;
    loop {
        // The first event of a page is checked only against its successor: pages overlap by one.
        let first = seq.saturating_sub(1);
        let page = store.load(stream, ReadFrom::Seq(first), PAGE).await?;
        if page.header.stream != *stream {
            let what = "the header is that of another stream";
            return Err(StoreError::Corrupt(what.into()));
        }
        let end = first + page.records.len() as Seq;
        if end >= page.next_seq || end <= seq {
            return Ok(());
        }
        seq = end;
    }
}

fn blob(row: &[Cell]) -> Option<Finding> {
    let [
        _,
        Cell::Bytes(digest),
        Cell::Number(size),
        _,
        Cell::Bytes(stored),
    ] = row
    else {
        return None;
    };
    let bytes = codec::unpack_blob(stored).unwrap_or_default();
    let found = Digest::compute(&bytes);
    if bytes.len() as u64 == size.unsigned_abs() && found.0 == digest[..] {
        return None;
    }
    let digest = <[u8; 32]>::try_from(&digest[..])
        .map(Digest)
        .unwrap_or(found);
    Some(Finding {
        stream: None,
        what: format!("the bytes of blob {digest} differ from those stored"),
    })
}
