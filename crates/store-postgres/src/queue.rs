//! The queue: leases of streams, and streams that wait for a worker.

use std::time::Duration;

use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;
use store::{Conflict, Due, DueAnswer, DueQuery, Epoch, Lease, StoreError};

use crate::clock::Clock;
use crate::db::{Db, clamp, column, count, millis, number, params};

pub(crate) async fn claim(
    db: &Db,
    clock: &Clock,
    stream: &StreamId,
    holder: &HolderId,
    ttl: Duration,
) -> Result<Lease, StoreError> {
    let (at, name, to, ttl_ms) = (clock.at(), stream.as_str(), holder.as_str(), millis(ttl));
    let sql = "SELECT verdict, t, new_epoch FROM runwright.claim($1, $2, $3, $4)";
    let params = params![at => INT8, name => TEXT, to => TEXT, ttl_ms => INT8];
    let row = db.row(sql, &params).await?;
    match column::<&str>(&row, "verdict")? {
        "missing" => return Err(StoreError::Missing),
        "held" => return Err(StoreError::Conflict(Conflict::Held)),
        _ => {}
    }
    let now = Timestamp(column(&row, "t")?);
    clock.saw(now);
    Ok(Lease {
        stream: stream.clone(),
        epoch: Epoch(number(&row, "new_epoch")?),
        holder: holder.clone(),
        expires_at: now.plus(ttl),
    })
}

pub(crate) async fn renew(
    db: &Db,
    clock: &Clock,
    leases: &[Lease],
    ttl: Duration,
) -> Result<Vec<Result<Lease, StoreError>>, StoreError> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = leases.iter().map(|lease| lease.stream.as_str()).collect();
    let epochs: Vec<_> = leases.iter().map(|lease| clamp(lease.epoch.0)).collect();
    let (at, ttl_ms) = (clock.at(), millis(ttl));
    let sql = "SELECT t, verdicts FROM runwright.renew($1, $2, $3, $4)";
    let params = params![at => INT8, names => TEXT_ARRAY, epochs => INT8_ARRAY, ttl_ms => INT8];
    let row = db.row(sql, &params).await?;
    let now = Timestamp(column(&row, "t")?);
    clock.saw(now);
    let verdicts: Vec<&str> = column(&row, "verdicts")?;
    let each = |(lease, verdict): (&Lease, &str)| match verdict {
        "done" => Ok(Lease {
            expires_at: now.plus(ttl),
            ..lease.clone()
        }),
        "fenced" => Err(StoreError::Fenced),
        _ => Err(StoreError::Missing),
    };
    Ok(leases.iter().zip(verdicts).map(each).collect())
}

/// Releases a lease. The epoch stays, so that the next one is greater.
pub(crate) async fn release(db: &Db, lease: &Lease) -> Result<(), StoreError> {
    let (name, epoch) = (lease.stream.as_str(), clamp(lease.epoch.0));
    let sql = "UPDATE runwright.streams SET holder = NULL, expires_at = NULL
        WHERE name = $1 AND epoch = $2 AND holder IS NOT NULL";
    let params = params![name => TEXT, epoch => INT8];
    db.rows(sql, &params).await?;
    Ok(())
}

pub(crate) async fn due(db: &Db, clock: &Clock, query: &DueQuery) -> Result<DueAnswer, StoreError> {
    let (at, queue, limit) = (clock.at(), query.queue.as_str(), count(query.limit));
    let sql = "SELECT name, tenant, t, next_at FROM runwright.due($1, $2, $3)";
    let params = params![at => INT8, queue => TEXT, limit => INT8];
    let rows = db.look_up(sql, &params).await?;
    let mut answer = DueAnswer::default();
    for row in &rows {
        let name: Option<String> = column(row, "name")?;
        let tenant: Option<String> = column(row, "tenant")?;
        match name.zip(tenant) {
            Some((stream, tenant)) => answer.ready.push(Due {
                stream: stream.into(),
                tenant: tenant.into(),
            }),
            None => {
                clock.saw(Timestamp(column(row, "t")?));
                answer.next_at = column::<Option<i64>>(row, "next_at")?.map(Timestamp);
            }
        }
    }
    Ok(answer)
}
