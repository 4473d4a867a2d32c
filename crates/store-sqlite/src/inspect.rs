//! Checks of the store's own structure.

use kernel::batch::IndexRow;
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use rusqlite::Row;
use store::{Finding, StoreError, codec};

use crate::log::{self, Head};
use crate::rows::{id, json};
use crate::sql::{Db, Fallible, corrupt};

/// Maximum number of findings; a damaged file may have any number.
const MAX_FINDINGS: usize = 1_000;
/// Events read at a time.
const PAGE: usize = 1_024;

/// Pairs of a fault, in a comment, and a query of the affected stream names, or NULL.
const CONTRADICTIONS: &str = include_str!("../schema/contradictions.sql");

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
    for finding in CONTRADICTIONS.split_terminator(";\n") {
        let (what, query) = finding.split_once('\n').unwrap_or_default();
        db.scan(query, [], |row| {
            let stream = row.get::<_, Option<String>>(0)?.map(Into::into);
            Ok(find(stream, what.trim_start_matches("-- ").into()))
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
        let whole = bytes.len() as u64 == size && Digest::compute(&bytes) == digest;
        let damage = || format!("the bytes of blob {digest} differ from those stored");
        Ok(whole || find(None, damage()))
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
