//! Checks of the store's own structure.

use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use store::{Finding, ReadFrom, StoreError, codec};

use crate::db::{Db, column, digest, number, params};
use crate::log;

/// Maximum number of findings; a damaged database may have any number.
const MAX_FINDINGS: usize = 1_000;
/// Events read at a time.
const PAGE: usize = 256;

/// Pairs of a fault, in a comment, and a query of the affected stream names, or NULL.
const CONTRADICTIONS: &str = include_str!("../schema/contradictions.sql");

pub(crate) async fn inspect(db: &Db) -> Result<Vec<Finding>, StoreError> {
    let mut findings = contradictions(db).await?;
    streams(db, &mut findings).await?;
    blobs(db, &mut findings).await?;
    findings.truncate(MAX_FINDINGS);
    Ok(findings)
}

async fn contradictions(db: &Db) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Vec::new();
    for finding in CONTRADICTIONS.split_terminator(";\n") {
        let (what, query) = finding.split_once('\n').unwrap_or_default();
        for row in db.look_up(query, &[]).await? {
            let stream: Option<String> = row.try_get(0).unwrap_or_default();
            findings.push(Finding {
                stream: stream.map(Into::into),
                what: what.trim_start_matches("-- ").into(),
            });
        }
    }
    Ok(findings)
}

/// Reads every stream from end to end.
async fn streams(db: &Db, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let sql = "SELECT name FROM runwright.streams WHERE name > $1 ORDER BY name LIMIT 256";
    let mut after = String::new();
    while findings.len() < MAX_FINDINGS {
        let rows = db.look_up(sql, &params![after => TEXT]).await?;
        for row in &rows {
            let stream = StreamId::new(column::<String>(row, "name")?);
            match read_through(db, &stream).await {
                // It was purged meanwhile.
                Ok(()) | Err(StoreError::Missing) => {}
                Err(StoreError::Corrupt(what)) => findings.push(Finding {
                    stream: Some(stream),
                    what: format!("the store is damaged: {what}"),
                }),
                Err(error) => return Err(error),
            }
        }
        match rows.last() {
            Some(row) => after = column(row, "name")?,
            None => break,
        }
    }
    Ok(())
}

async fn read_through(db: &Db, stream: &StreamId) -> Result<(), StoreError> {
    let mut seq: Seq = 0;
    loop {
        // The first event of a page is checked only against its successor: pages overlap by one.
        let first = seq.saturating_sub(1);
        let page = log::load(db, stream, ReadFrom::Seq(first), PAGE).await?;
        if page.header.stream != *stream {
            return Err(StoreError::Corrupt(
                "the header is that of another stream".into(),
            ));
        }
        let end = first + page.records.len() as Seq;
        if end >= page.next_seq || end <= seq {
            return Ok(());
        }
        seq = end;
    }
}

async fn blobs(db: &Db, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let sql = "SELECT id, digest, size, stored FROM runwright.blobs WHERE id > $1
        ORDER BY id LIMIT 16";
    let mut after = 0_i64;
    while findings.len() < MAX_FINDINGS {
        let rows = db.look_up(sql, &params![after => INT8]).await?;
        for row in &rows {
            let (digest, size) = (digest(row, "digest")?, number(row, "size")?);
            let bytes = codec::unpack_blob(column(row, "stored")?).unwrap_or_default();
            if bytes.len() as u64 != size || Digest::compute(&bytes) != digest {
                findings.push(Finding {
                    stream: None,
                    what: format!("the bytes of blob {digest} are not what was put"),
                });
            }
        }
        match rows.last() {
            Some(row) => after = column(row, "id")?,
            None => break,
        }
    }
    Ok(())
}
