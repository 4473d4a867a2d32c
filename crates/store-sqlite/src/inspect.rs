//! Checks of the store's own structure.

use kernel::digest::Digest;
use kernel::ids::Seq;
use rusqlite::{Connection, Row};
use store::{Finding, StoreError, codec};

use crate::log::{self, Head};
use crate::rows;
use crate::sql::{Fault, Sql, corrupt};

/// Findings listed, at most; a damaged file may have any number.
const MAX_FINDINGS: usize = 1_000;
/// Events read at a time.
const PAGE: usize = 1_024;

/// Queries whose every row is a finding, with the stream's name, and what it means.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "SELECT name FROM streams WHERE next_seq <> (SELECT count(*) FROM events WHERE stream = id)
           OR next_seq - 1 IS NOT (SELECT max(seq) FROM events WHERE stream = id)
           OR 0 IS NOT (SELECT min(seq) FROM events WHERE stream = id)",
        "the log has a gap or another length than its stream says",
    ),
    (
        "SELECT name FROM streams JOIN events ON stream = id
         WHERE (content IS NULL) <> (seq < packed_to) GROUP BY id",
        "events lie neither in a row nor in a pack, or in both",
    ),
    (
        "SELECT name FROM streams WHERE packed_to <> ifnull(
           (SELECT sum(next_seq - first_seq) FROM packs WHERE stream = id), 0)",
        "packs overlap or are missing",
    ),
    (
        "SELECT name FROM streams WHERE timer IS NOT (SELECT min(due) FROM timers WHERE stream = id)",
        "the earliest timer is not the one on record",
    ),
    (
        "SELECT name FROM streams JOIN tombstones USING (name)",
        "the stream is purged and still there",
    ),
    (
        "SELECT NULL FROM events
         WHERE stream IS NOT NULL AND stream NOT IN (SELECT id FROM streams) GROUP BY stream",
        "events are left of a stream that is not there",
    ),
    (
        "SELECT NULL FROM pragma_foreign_key_check",
        "a row belongs to a stream or a blob that is not there",
    ),
    (
        "SELECT NULL FROM blobs WHERE id NOT IN (SELECT blob FROM blob_bytes)
           OR refs <> ifnull((SELECT sum(r.refs) FROM blob_refs AS r WHERE r.blob = blobs.id), 0)",
        "a blob is without bytes, or referred to more or less often than it counts",
    ),
];

pub(crate) fn inspect(conn: &Connection) -> Result<Vec<Finding>, Fault> {
    let mut findings = Vec::new();
    let pages = "PRAGMA integrity_check(1000)";
    let pages = conn.all(pages, [], |row| Ok(row.get::<_, String>(0)?))?;
    for answer in pages.iter().filter(|answer| *answer != "ok") {
        let what = format!("the file is damaged: {answer}");
        findings.push(Finding { stream: None, what });
    }
    for (query, what) in CONTRADICTIONS {
        conn.scan(query, [], |row| {
            let stream = row.get::<_, Option<String>>(0)?.map(Into::into);
            findings.push(Finding {
                stream,
                what: (*what).into(),
            });
            Ok(findings.len() < MAX_FINDINGS)
        })?;
    }
    let sql = format!(
        "SELECT {}, index_row, name FROM streams LEFT JOIN headers ON stream = id",
        Head::COLUMNS
    );
    conn.scan(&sql, [], |row| {
        if let Err(fault) = stream(conn, row) {
            let stream = row.get::<_, String>(7)?.into();
            let what = StoreError::from(fault).to_string();
            findings.push(Finding {
                stream: Some(stream),
                what,
            });
        }
        Ok(findings.len() < MAX_FINDINGS)
    })?;
    conn.scan(
        "SELECT digest, size, stored FROM blobs JOIN blob_bytes ON blob = id",
        [],
        |row| {
            let (digest, size) = (Digest(row.get(0)?), row.get::<_, u64>(1)?);
            let bytes = codec::unpack_blob(row.get_ref(2)?.as_blob()?).unwrap_or_default();
            if bytes.len() as u64 != size || Digest::of(&bytes) != digest {
                let what = format!("the bytes of blob {digest} are not what was put");
                findings.push(Finding { stream: None, what });
            }
            Ok(findings.len() < MAX_FINDINGS)
        },
    )?;
    Ok(findings)
}

/// Reads a stream from end to end.
fn stream(conn: &Connection, row: &Row<'_>) -> Result<(), Fault> {
    let head = Head::read(row)?;
    rows::index(row.get_ref(6)?.as_str()?)?;
    if head.header.stream.as_str() != row.get_ref(7)?.as_str()? {
        return Err(corrupt("the header is that of another stream").into());
    }
    let mut seq: Seq = 0;
    while seq < head.next_seq {
        seq += log::records(conn, &head, seq, PAGE)?.len() as Seq;
    }
    Ok(())
}
