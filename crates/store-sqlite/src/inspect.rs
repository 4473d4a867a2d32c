//! Checks of the store's own structure.

use kernel::batch::IndexRow;
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use rusqlite::Row;
use store::{Finding, StoreError, codec};

use crate::log::{self, Head};
use crate::rows::{id, json};
use crate::sql::{Db, Fallible, corrupt};

/// Findings listed, at most; a damaged file may have any number.
const MAX_FINDINGS: usize = 1_000;
/// Events read at a time.
const PAGE: usize = 1_024;

/// Queries whose every row is a finding, with the stream's name, and what it means.
#[rustfmt::skip]
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("SELECT name FROM streams WHERE next_seq <> (SELECT count(*) FROM events WHERE stream = id)
        OR next_seq - 1 IS NOT (SELECT max(seq) FROM events WHERE stream = id)
        OR 0 IS NOT (SELECT min(seq) FROM events WHERE stream = id)",
     "the log has a gap or another length than its stream says"),
    ("SELECT name FROM streams JOIN events ON stream = id
      WHERE (content IS NULL) <> (seq < packed_to) GROUP BY id",
     "events lie neither in a row nor in a pack, or in both"),
    ("SELECT name FROM streams WHERE packed_to <>
        ifnull((SELECT sum(next_seq - first_seq) FROM packs WHERE stream = id), 0)",
     "packs overlap or are missing"),
    ("SELECT name FROM streams
      WHERE timer IS NOT (SELECT min(due) FROM timers WHERE stream = id)",
     "the earliest timer is not the one on record"),
    ("SELECT name FROM streams JOIN tombstones USING (name)", "it is purged and still there"),
    ("SELECT NULL FROM events
      WHERE stream IS NOT NULL AND stream NOT IN (SELECT id FROM streams) GROUP BY stream",
     "events are left of a stream that is not there"),
    ("SELECT NULL FROM pragma_foreign_key_check", "a row belongs to one that is not there"),
    ("SELECT NULL FROM blobs WHERE id NOT IN (SELECT blob FROM blob_bytes)
        OR refs <> (SELECT count(*) FROM blob_refs WHERE blob = blobs.id)",
     "a blob is without bytes, or referred to more or less often than it counts"),
];

pub(crate) fn inspect(db: &Db) -> Fallible<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut find = |stream: Option<StreamId>, what: String| {
        findings.push(Finding { stream, what });
        findings.len() < MAX_FINDINGS
    };
    db.scan("PRAGMA integrity_check(1000)", [], |row| {
        let answer: String = row.get(0)?;
        Ok(answer == "ok" || find(None, format!("the file is damaged: {answer}")))
    })?;
    for (query, what) in CONTRADICTIONS {
        db.scan(query, [], |row| {
            let stream = row.get::<_, Option<String>>(0)?.map(Into::into);
            Ok(find(stream, (*what).into()))
        })?;
    }
    db.scan(&Head::select("index_row, name"), [], |row| {
        match stream(db, row).map_err(StoreError::from) {
            Err(error) => Ok(find(Some(id(row, 7)?), error.to_string())),
            Ok(()) => Ok(true),
        }
    })?;
    let blobs = "SELECT digest, size, stored FROM blobs JOIN blob_bytes ON blob = id";
    db.scan(blobs, [], |row| {
        let (digest, size) = (Digest(row.get(0)?), row.get::<_, u64>(1)?);
        let bytes = codec::unpack_blob(row.get_ref(2)?.as_blob()?).unwrap_or_default();
        let whole = bytes.len() as u64 == size && Digest::of(&bytes) == digest;
        Ok(whole
            || find(
                None,
                format!("the bytes of blob {digest} are not what was put"),
            ))
    })?;
    Ok(findings)
}

/// Reads a stream from end to end.
fn stream(db: &Db, row: &Row<'_>) -> Fallible<()> {
    let head = Head::read(row)?;
    json::<IndexRow>(row, 6)?;
    if head.header.stream != id(row, 7)? {
        return Err(corrupt("the header is that of another stream").into());
    }
    let mut seq: Seq = 0;
    while seq < head.next_seq {
        seq += log::records(db, &head, seq, PAGE)?.len() as Seq;
    }
    Ok(())
}
