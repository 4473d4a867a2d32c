//! Appends: every check, then every write.

use kernel::batch::{Batch, KeyClaim, TimerChange};
use kernel::ids::Seq;
use kernel::time::Timestamp;
use rusqlite::{Connection, params};
use store::codec::{self, Encoded};
use store::{Appended, Conflict, Epoch, Guard, Hold, HoldChange, Position, StoreError};

use crate::sql::{Fault, Sql};
use crate::{blobs, holds};

// The three share one list of parameters, of which each uses what it needs.
const CREATE: &str = "INSERT INTO streams (name, tenant, next_seq, chain, settled, runnable, \
    updated_at, index_row, timer, queue, priority, concurrency_key, parent, created_at, epoch, \
    holder, expires_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
/// Names no column that only rare changes touch: SQLite rewrites the entries of every index
/// that has a column named here, changed or not.
const UPDATE: &str = "UPDATE streams SET next_seq = ?3, chain = ?4, settled = ?5, runnable = ?6, \
    updated_at = ?7, index_row = ?8, timer = ?9 WHERE name = ?1 AND ?17 IS NULL";
const UPDATE_ALL: &str = "UPDATE streams SET next_seq = ?3, chain = ?4, settled = ?5, \
    runnable = ?6, updated_at = ?7, index_row = ?8, timer = ?9, queue = ?10, priority = ?11, \
    concurrency_key = ?12, parent = ?13, created_at = ?14 WHERE name = ?1 AND ?17 IS NULL";

/// A batch made ready where its caller runs, so that the writing thread only executes.
pub(crate) struct Prepared {
    batch: Batch,
    guard: Guard,
    hold: HoldChange,
    rows: Vec<Encoded>,
    header: Option<String>,
    index: String,
}

/// What an append looks at of a stream that exists.
struct Found {
    id: i64,
    next_seq: Seq,
    held: Option<Epoch>,
    timer: Option<i64>,
    /// The columns that only rare changes touch are those of the batch.
    same: bool,
}

impl Prepared {
    pub(crate) fn new(batch: Batch, guard: Guard, hold: HoldChange) -> Self {
        store::assert_appendable(&batch, guard, &hold);
        let rows = batch
            .records()
            .iter()
            .map(|record| codec::encode(&record.content));
        let header = batch.header().map(serde_json::to_string);
        Self {
            rows: rows.collect(),
            header: header.transpose().expect("a header is always JSON"),
            index: serde_json::to_string(batch.index()).expect("an index row is always JSON"),
            batch,
            guard,
            hold,
        }
    }

    /// What the batch keeps in memory while it waits.
    pub(crate) fn bytes(&self) -> usize {
        let records = self
            .batch
            .records()
            .iter()
            .map(|record| record.content.len());
        let blobs = self
            .rows
            .iter()
            .flat_map(|row| &row.blob)
            .map(|blob| blob.stored.len());
        let rows = self.rows.iter().map(|row| row.row.len());
        records.chain(blobs).chain(rows).sum::<usize>() + self.index.len()
    }

    pub(crate) fn run(&self, conn: &Connection, now: Timestamp) -> Result<Appended, Fault> {
        let found = self.find(conn)?;
        self.check(conn, found.as_ref(), now)?;
        let hold = self.taken(now);
        let stream = match &found {
            Some(found) => {
                let timer = self.change_timers(conn, found.id, found.timer)?;
                self.write_row(
                    conn,
                    if found.same { UPDATE } else { UPDATE_ALL },
                    timer,
                    None,
                )?;
                found.id
            }
            None => {
                self.write_row(conn, CREATE, None, hold.as_ref())?;
                let id = conn.last_insert_rowid();
                conn.run(
                    "INSERT INTO headers VALUES (?1, ?2)",
                    params![id, self.header],
                )?;
                if let Some(timer) = self.change_timers(conn, id, None)? {
                    conn.run("UPDATE streams SET timer = ?2 WHERE id = ?1", [id, timer])?;
                }
                id
            }
        };
        let position = self.write_events(conn, stream)?;
        self.write_extras(conn, stream)?;
        if let (HoldChange::Release, Guard::Holder(epoch)) = (&self.hold, self.guard) {
            holds::release(conn, self.batch.stream(), epoch)?;
        }
        Ok(Appended { position, hold })
    }

    fn find(&self, conn: &Connection) -> Result<Option<Found>, Fault> {
        let index = self.batch.index();
        conn.one(
            "SELECT id, next_seq, CASE WHEN holder IS NULL THEN NULL ELSE epoch END, timer,
               queue = ?2 AND priority = ?3 AND concurrency_key IS ?4 AND parent IS ?5
               AND created_at = ?6
             FROM streams WHERE name = ?1",
            params![
                self.batch.stream().as_str(),
                index.queue,
                index.priority,
                index.concurrency_key,
                index.parent.as_ref().map(AsRef::<str>::as_ref),
                index.created_at.0,
            ],
            |row| {
                Ok(Found {
                    id: row.get(0)?,
                    next_seq: row.get(1)?,
                    held: row.get::<_, Option<_>>(2)?.map(Epoch),
                    timer: row.get(3)?,
                    same: row.get(4)?,
                })
            },
        )
    }

    /// The refusals, in the order the trait gives.
    fn check(&self, conn: &Connection, found: Option<&Found>, now: Timestamp) -> Result<(), Fault> {
        let (batch, tenant) = (&self.batch, self.batch.tenant().as_str());
        if let Guard::Holder(epoch) = self.guard
            && found.and_then(|found| found.held) != Some(epoch)
        {
            return Err(StoreError::Fenced.into());
        }
        let purged = "SELECT 1 FROM tombstones WHERE name = ?1";
        if batch.first_seq() != found.map_or(0, |found| found.next_seq)
            || (found.is_none() && conn.any(purged, [batch.stream().as_str()])?)
        {
            return Err(StoreError::Conflict(Conflict::Sequence).into());
        }
        if let (HoldChange::Take { .. }, Some(key)) = (&self.hold, &batch.index().concurrency_key)
            && holds::key_in_use(conn, tenant, key, now)?
        {
            return Err(StoreError::Conflict(Conflict::Held).into());
        }
        for (nth, claim) in batch.keys().iter().enumerate() {
            let clashes = |earlier: &KeyClaim| {
                (&earlier.namespace, &earlier.key) == (&claim.namespace, &claim.key)
                    && earlier.expires_at.is_none_or(|at| now < at)
            };
            if batch.keys()[..nth].iter().any(clashes) || key_taken(conn, tenant, claim, now)? {
                let (namespace, key) = (claim.namespace.clone(), claim.key.clone());
                return Err(StoreError::Conflict(Conflict::Key { namespace, key }).into());
            }
        }
        for digest in batch.blobs() {
            if !blobs::exists(conn, tenant, digest)? {
                return Err(StoreError::Missing.into());
            }
        }
        Ok(())
    }

    fn write_row(
        &self,
        conn: &Connection,
        sql: &str,
        timer: Option<i64>,
        hold: Option<&Hold>,
    ) -> Result<(), Fault> {
        let (batch, index) = (&self.batch, self.batch.index());
        let last = batch
            .records()
            .last()
            .expect("a batch has at least one event");
        conn.run(
            sql,
            params![
                batch.stream().as_str(),
                batch.tenant().as_str(),
                batch.first_seq() + batch.records().len() as Seq,
                last.chain.0,
                index.settled,
                index.runnable,
                index.updated_at.0,
                self.index,
                timer,
                index.queue,
                index.priority,
                index.concurrency_key,
                index.parent.as_ref().map(AsRef::<str>::as_ref),
                index.created_at.0,
                hold.map_or(0, |hold| hold.epoch.0),
                hold.map(|hold| hold.holder.as_str()),
                hold.map(|hold| hold.expires_at.0),
            ],
        )?;
        Ok(())
    }

    fn write_events(&self, conn: &Connection, stream: i64) -> Result<Position, Fault> {
        let mut insert = conn.prepare_cached(
            "INSERT INTO events (stream, seq, chain, content) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let records = self.batch.records().iter().zip(&self.rows);
        for (seq, (record, row)) in (self.batch.first_seq()..).zip(records) {
            insert.execute(params![stream, seq, record.chain.0, row.row])?;
        }
        Ok(Position(conn.last_insert_rowid().unsigned_abs()))
    }

    /// Everything that most batches have none of.
    fn write_extras(&self, conn: &Connection, stream: i64) -> Result<(), Fault> {
        let tenant = self.batch.tenant().as_str();
        for body in self.rows.iter().flat_map(|row| &row.blob) {
            blobs::keep(conn, tenant, body, blobs::NEVER_PUT)?;
            blobs::refer(conn, stream, tenant, &body.digest)?;
        }
        for digest in self.batch.blobs() {
            blobs::refer(conn, stream, tenant, digest)?;
        }
        for claim in self.batch.keys() {
            // In the place of an expired row if there is one.
            conn.run(
                "INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    tenant,
                    claim.namespace,
                    claim.key,
                    stream,
                    claim.digest.map(|digest| digest.0),
                    claim.answer,
                    claim.expires_at.map(|at| at.0),
                ],
            )?;
        }
        for message in self.batch.outbox() {
            let (id, target) = (message.id.as_str(), message.target.as_str());
            conn.run(
                "INSERT INTO outbox (source, message, target, command) VALUES (?1, ?2, ?3, ?4)",
                params![stream, id, target, message.command],
            )?;
        }
        Ok(())
    }

    /// Applies the changes in order and returns the earliest timer that is left.
    fn change_timers(
        &self,
        conn: &Connection,
        stream: i64,
        earliest: Option<i64>,
    ) -> Result<Option<i64>, Fault> {
        if self.batch.timers().is_empty() {
            return Ok(earliest);
        }
        for change in self.batch.timers() {
            match change {
                TimerChange::Set { name, due } => conn.run(
                    "INSERT OR REPLACE INTO timers VALUES (?1, ?2, ?3)",
                    params![stream, name, due.0],
                )?,
                TimerChange::Cancel { name } => conn.run(
                    "DELETE FROM timers WHERE stream = ?1 AND name = ?2",
                    params![stream, name],
                )?,
            };
        }
        let left = "SELECT min(due) FROM timers WHERE stream = ?1";
        Ok(conn.one(left, [stream], |row| Ok(row.get(0)?))?.flatten())
    }

    fn taken(&self, now: Timestamp) -> Option<Hold> {
        match &self.hold {
            HoldChange::Take { holder, ttl } => Some(Hold {
                stream: self.batch.stream().clone(),
                epoch: Epoch(1),
                holder: holder.clone(),
                expires_at: now.plus(*ttl),
            }),
            HoldChange::Keep | HoldChange::Release => None,
        }
    }
}

fn key_taken(
    conn: &Connection,
    tenant: &str,
    claim: &KeyClaim,
    now: Timestamp,
) -> Result<bool, Fault> {
    conn.any(
        "SELECT 1 FROM keys WHERE tenant = ?1 AND namespace = ?2 AND key = ?3
           AND (expires_at IS NULL OR expires_at > ?4)",
        params![tenant, claim.namespace, claim.key, now.0],
    )
}
