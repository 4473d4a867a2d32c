//! Appends: every check, then every write.

use kernel::batch::TimerChange;
use kernel::ids::Seq;
use kernel::time::Timestamp;
use rusqlite::params;
use store::{Appended, Conflict, Epoch, Guard, LeaseChange, Position, Prepared, StoreError};

use crate::sql::{Db, Fallible};
use crate::{blobs, queue, rows};

// The three share one list of parameters; each uses a part of it.
const CREATE: &str = include_str!("../schema/create.sql");
const UPDATE: &str = include_str!("../schema/update.sql");
/// Separate, because SQLite rewrites every index of a column named here, even if unchanged.
const UPDATE_RARE: &str = include_str!("../schema/update_rare.sql");

/// The columns of an existing stream that an append needs.
struct Found {
    id: i64,
    next_seq: Seq,
    held: Option<Epoch>,
    /// The rarely changing columns equal those of the batch.
    same: bool,
}

pub(crate) fn append(db: &Db, append: &Prepared, now: Timestamp) -> Fallible<Appended> {
    let found = find(db, append)?;
    check(db, append, found.as_ref(), now)?;
    let stream = match &found {
        Some(found) => {
            write_row(db, append, UPDATE, now)?;
            if !found.same {
                write_row(db, append, UPDATE_RARE, now)?;
            }
            found.id
        }
        None => {
            write_row(db, append, CREATE, now)?;
            let (id, sql) = (
                db.0.last_insert_rowid(),
                "INSERT INTO headers VALUES (?1, ?2)",
            );
            db.run(sql, params![id, append.header])?;
            id
        }
    };
    let position = write_events(db, append, stream)?;
    write_extras(db, append, stream)?;
    if let (LeaseChange::Release, Guard::Holder(epoch)) = (&append.lease, append.guard) {
        queue::release(db, append.batch.stream(), epoch)?;
    }
    let lease = append.taken(now);
    Ok(Appended { position, lease })
}

fn find(db: &Db, append: &Prepared) -> Fallible<Option<Found>> {
    let (name, index) = (append.batch.stream().as_str(), append.batch.index());
    let parent = index.parent.as_ref().map(|parent| parent.as_str());
    let (queue, key, at) = (&index.queue, &index.concurrency_key, index.created_at.0);
    db.one(
        include_str!("../schema/find.sql"),
        params![name, queue, index.priority, key, parent, at],
        |row| {
            Ok(Found {
                id: row.get(0)?,
                next_seq: row.get(1)?,
                held: row.get::<_, Option<_>>(2)?.map(Epoch),
                same: row.get(3)?,
            })
        },
    )
}

/// The refusals, in the order that the trait documents.
fn check(db: &Db, append: &Prepared, found: Option<&Found>, now: Timestamp) -> Fallible<()> {
    let (batch, tenant) = (&append.batch, append.batch.tenant().as_str());
    if let Guard::Holder(epoch) = append.guard
        && found.and_then(|found| found.held) != Some(epoch)
    {
        return Err(StoreError::Fenced.into());
    }
    let purged = "SELECT 1 FROM tombstones WHERE name = ?1";
    if batch.first_seq() != found.map_or(0, |found| found.next_seq)
        || (found.is_none() && db.any(purged, [batch.stream().as_str()])?)
    {
        return Err(StoreError::Conflict(Conflict::Sequence).into());
    }
    if let (LeaseChange::Take { .. }, Some(key)) = (&append.lease, &batch.index().concurrency_key)
        && queue::key_in_use(db, tenant, key, now)?
    {
        return Err(StoreError::Conflict(Conflict::Held).into());
    }
    append.check_keys(now, |claim| {
        let key = params![tenant, claim.namespace, claim.key, now.0];
        db.any(include_str!("../schema/key.sql"), key)
    })?;
    for digest in batch.blobs() {
        if !db.any(
            "SELECT 1 FROM blobs WHERE tenant = ?1 AND digest = ?2",
            params![tenant, digest.0],
        )? {
            return Err(StoreError::Missing.into());
        }
    }
    Ok(())
}

fn write_row(db: &Db, append: &Prepared, sql: &str, now: Timestamp) -> Fallible<()> {
    let (batch, index, lease) = (&append.batch, append.batch.index(), append.taken(now));
    let (name, tenant) = (batch.stream().as_str(), batch.tenant().as_str());
    let parent = index.parent.as_ref().map(|parent| parent.as_str());
    let epoch = lease.as_ref().map_or(0, |lease| lease.epoch.0);
    let holder = lease.as_ref().map(|lease| lease.holder.as_str());
    let expires_at = lease.as_ref().map(|lease| lease.expires_at.0);
    #[rustfmt::skip]
    let row = params![
        name, tenant, append.next_seq(), append.chain().0, index.settled, index.runnable,
        index.updated_at.0, append.index, index.queue, index.priority, index.concurrency_key,
        parent, index.created_at.0, epoch, holder, expires_at,
    ];
    db.run(sql, row).map(drop)
}

fn write_events(db: &Db, append: &Prepared, stream: i64) -> Fallible<Position> {
    let sql = "INSERT INTO events (stream, seq, chain, content) VALUES (?1, ?2, ?3, ?4)";
    let records = append.batch.records().iter().zip(&append.rows);
    for (seq, (record, row)) in (append.batch.first_seq()..).zip(records) {
        db.run(sql, params![stream, seq, record.chain.0, row.row])?;
    }
    Ok(Position(db.0.last_insert_rowid().unsigned_abs()))
}

/// Everything that is absent from most batches.
fn write_extras(db: &Db, append: &Prepared, stream: i64) -> Fallible<()> {
    let (batch, tenant) = (&append.batch, append.batch.tenant().as_str());
    for change in batch.timers() {
        match change {
            TimerChange::Set { name, due } => {
                let sql = "INSERT OR REPLACE INTO timers VALUES (?1, ?2, ?3)";
                db.run(sql, params![stream, name, due.0])?
            }
            TimerChange::Cancel { name } => {
                let sql = "DELETE FROM timers WHERE stream = ?1 AND name = ?2";
                db.run(sql, params![stream, name])?
            }
        };
    }
    for body in append.rows.iter().flat_map(|row| &row.blob) {
        blobs::keep(db, tenant, body, blobs::NEVER_PUT)?;
        blobs::refer(db, stream, tenant, &body.digest)?;
    }
    for digest in batch.blobs() {
        blobs::refer(db, stream, tenant, digest)?;
    }
    for claim in batch.keys() {
        rows::write_key(db, tenant, claim, Some(stream))?;
    }
    for message in batch.outbox() {
        let (id, target) = (message.id.as_str(), message.target.as_str());
        let sql = "INSERT INTO outbox (source, message, target, command) VALUES (?1, ?2, ?3, ?4)";
        db.run(sql, params![stream, id, target, message.command])?;
    }
    Ok(())
}
