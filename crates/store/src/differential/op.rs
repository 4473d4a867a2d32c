//! Operations and how they are drawn.
//!
//! An operation names streams, holders, keys and blobs by small numbers, and earlier results by
//! their age, so that it still makes sense when operations around it are removed.

use std::time::Duration;

use crate::BLOB_GRACE;
use crate::codec;
use crate::seed::Draws;

pub(super) const STREAMS: u64 = 10;
pub(super) const TENANTS: u64 = 2;
pub(super) const QUEUES: u64 = 2;
pub(super) const BLOBS: u64 = 4;
pub(super) const NAMESPACES: u64 = 2;
pub(super) const KEYS: u64 = 4;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Append(Append),
    Load {
        stream: u64,
        from: Start,
        limit: usize,
    },
    Claim {
        stream: u64,
        holder: u64,
        ttl: Duration,
    },
    Renew {
        leases: Vec<usize>,
        ttl: Duration,
    },
    Release {
        lease: usize,
    },
    Due {
        queue: u64,
        limit: usize,
    },
    Key {
        tenant: u64,
        namespace: u64,
        key: u64,
    },
    /// Puts a key over an existing row or over none.
    PutKey {
        tenant: u64,
        namespace: u64,
        key: u64,
        until: Option<i64>,
        is_stale: bool,
    },
    Checkpoint {
        stream: u64,
        ahead: i64,
    },
    PutBlob {
        tenant: u64,
        blob: u64,
    },
    Blob {
        tenant: u64,
        blob: u64,
    },
    List(List),
    Feed {
        after: usize,
        limit: usize,
    },
    Outbox {
        limit: usize,
    },
    /// Acknowledges messages in the outbox and messages acknowledged before.
    Deliver {
        now: Vec<usize>,
        again: usize,
    },
    Purge {
        stream: u64,
    },
    Tombstone {
        stream: u64,
    },
    Maintain,
    Advance {
        by: Duration,
    },
    Reopen,
}

#[derive(Clone, Debug)]
pub(super) struct Append {
    pub(super) stream: u64,
    pub(super) at: At,
    pub(super) contents: Vec<Content>,
    pub(super) guard: By,
    pub(super) lease: Change,
    pub(super) row: Row,
    /// Name and due time in milliseconds from now; `None` cancels.
    pub(super) timers: Vec<(u64, Option<i64>)>,
    /// Namespace, key, and lifetime in milliseconds.
    pub(super) keys: Vec<(u64, u64, Option<i64>)>,
    pub(super) messages: usize,
    pub(super) blobs: Vec<u64>,
}

/// The place in its log that a batch is made for.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    End,
    Start,
    Behind,
    Ahead,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Small(u64),
    /// This many compressible bytes.
    Even(usize),
    /// This many incompressible bytes.
    Dense(usize),
}

/// By what right.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Outside,
    /// With the lease of the stream that was granted this many leases ago.
    Lease(usize),
    /// With an epoch that was never granted.
    Nonsense,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Keep,
    /// Takes the lease where the batch is the first one.
    Take {
        holder: u64,
        ttl: Duration,
    },
    /// Releases it where the guard is a lease.
    Release,
}

/// The parts of the index row that vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) runnable: bool,
    pub(super) settled: bool,
    pub(super) queue: u64,
    pub(super) priority: i32,
    pub(super) concurrency: Option<u64>,
    pub(super) status: u64,
    pub(super) subject: u64,
    pub(super) workspace: Option<u64>,
    pub(super) parent: Option<u64>,
    pub(super) tags: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    Seq(u64),
    Checkpoint,
}

#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) tenant: Option<u64>,
    pub(super) workspace: Option<u64>,
    pub(super) subject: Option<u64>,
    pub(super) statuses: Vec<u64>,
    pub(super) tag: Option<u64>,
    pub(super) parent: Option<u64>,
    /// Only rows at least as new as this one of the whole list.
    pub(super) since: Option<u64>,
    /// Continue after this row of the whole list, regardless of the filters.
    pub(super) after: Option<u64>,
    pub(super) documents: bool,
    pub(super) limit: usize,
}

impl Op {
    pub(super) fn draw(d: &mut Draws) -> Self {
        let stream = d.below(STREAMS);
        match d.below(100) {
            0..36 => Self::Append(Append::draw(d, stream)),
            36..43 => {
                let seq = d.below(12);
                let from = if flip(d) {
                    Start::Seq(seq)
                } else {
                    Start::Checkpoint
                };
                Self::Load {
                    stream,
                    from,
                    limit: limit(d),
                }
            }
            43..52 => Self::Claim {
                stream,
                holder: d.below(3),
                ttl: ttl(d),
            },
            52..56 => Self::Renew {
                leases: some(d, 4, |d| d.below(6) as usize),
                ttl: ttl(d),
            },
            56..60 => Self::Release {
                lease: d.below(6) as usize,
            },
            60..66 => Self::Due {
                queue: d.below(QUEUES),
                limit: limit(d),
            },
            66 => Self::Key {
                tenant: d.below(TENANTS),
                namespace: d.below(NAMESPACES),
                key: d.below(KEYS),
            },
            67..69 => Self::PutKey {
                tenant: d.below(TENANTS),
                namespace: d.below(NAMESPACES),
                key: d.below(KEYS),
                until: flip(d).then(|| d.below(20_000) as i64 - 2_000),
                is_stale: d.below(4) == 0,
            },
            69..73 => Self::Checkpoint {
                stream,
                ahead: d.below(6) as i64 - 4,
            },
            73..76 => Self::PutBlob {
                tenant: d.below(TENANTS),
                blob: d.below(BLOBS),
            },
            76..78 => Self::Blob {
                tenant: d.below(TENANTS),
                blob: d.below(BLOBS),
            },
            78..82 => Self::List(List::draw(d)),
            82..85 => Self::Feed {
                after: d.below(8) as usize,
                limit: limit(d),
            },
            85..87 => Self::Outbox { limit: limit(d) },
            87..89 => Self::Deliver {
                now: some(d, 3, |d| d.below(4) as usize),
                again: d.below(3) as usize,
            },
            89 => Self::Purge { stream },
            90 => Self::Tombstone { stream },
            91..93 => Self::Maintain,
            93..99 => Self::Advance { by: step(d) },
            _ => Self::Reopen,
        }
    }
}

impl Append {
    fn draw(d: &mut Draws, stream: u64) -> Self {
        let count = 1 + d.below(3);
        let contents = (0..count).map(|_| content(d)).collect();
        Self {
            stream,
            at: *d.pick(&[
                At::End,
                At::End,
                At::End,
                At::End,
                At::End,
                At::End,
                At::Start,
                At::Behind,
                At::Ahead,
            ]),
            contents,
            guard: match d.below(20) {
                0..11 => By::Outside,
                11..17 => By::Lease(0),
                17..19 => By::Lease(1),
                _ => By::Nonsense,
            },
            lease: match d.below(10) {
                0..2 => Change::Keep,
                2..8 => Change::Take {
                    holder: d.below(3),
                    ttl: ttl(d),
                },
                _ => Change::Release,
            },
            row: Row::draw(d),
            timers: some(d, 3, |d| {
                let due = d.below(6_000) as i64 - 1_000;
                (d.below(3), (!d.per_mille(300)).then_some(due))
            }),
            keys: some(d, 2, |d| {
                let until = *d.pick(&[None, Some(0), Some(500), Some(4_000), Some(100_000)]);
                (d.below(NAMESPACES), d.below(KEYS), until)
            }),
            messages: d.below(3) as usize,
            blobs: if d.per_mille(200) {
                some(d, 2, |d| d.below(BLOBS))
            } else {
                vec![]
            },
        }
    }
}

impl Row {
    fn draw(d: &mut Draws) -> Self {
        Self {
            runnable: flip(d),
            settled: d.per_mille(150),
            queue: d.below(QUEUES),
            priority: d.below(3) as i32 - 1,
            concurrency: maybe(d, 2),
            status: d.below(3),
            subject: d.below(2),
            workspace: maybe(d, 2),
            parent: maybe(d, STREAMS),
            tags: d.below(8),
        }
    }
}

impl List {
    fn draw(d: &mut Draws) -> Self {
        Self {
            tenant: maybe(d, TENANTS + 1),
            workspace: rarely(d, 2),
            subject: rarely(d, 2),
            statuses: if d.per_mille(300) {
                some(d, 2, |d| d.below(3))
            } else {
                vec![]
            },
            tag: rarely(d, 3),
            parent: rarely(d, STREAMS),
            since: rarely(d, STREAMS),
            after: maybe(d, STREAMS),
            documents: d.per_mille(100),
            limit: limit(d),
        }
    }
}

fn flip(d: &mut Draws) -> bool {
    d.per_mille(500)
}

fn maybe(d: &mut Draws, end: u64) -> Option<u64> {
    let number = d.below(end);
    flip(d).then_some(number)
}

fn rarely(d: &mut Draws, end: u64) -> Option<u64> {
    let number = d.below(end);
    d.per_mille(200).then_some(number)
}

/// Up to `most` items, often none.
fn some<T>(d: &mut Draws, most: u64, one: impl Fn(&mut Draws) -> T) -> Vec<T> {
    let count = if flip(d) { 0 } else { 1 + d.below(most) };
    (0..count).map(|_| one(d)).collect()
}

fn limit(d: &mut Draws) -> usize {
    *d.pick(&[0, 1, 2, 3, 5, 1_000, usize::MAX])
}

fn ttl(d: &mut Draws) -> Duration {
    Duration::from_millis(*d.pick(&[0, 100, 2_000, 2_000, 60_000]))
}

fn step(d: &mut Draws) -> Duration {
    let ms = Duration::from_millis;
    if d.per_mille(60) {
        return *d.pick(&[BLOB_GRACE / 2, BLOB_GRACE]);
    }
    *d.pick(&[ms(1), ms(100), ms(499), ms(1_000), ms(2_500), ms(60_000)])
}

fn content(d: &mut Draws) -> Content {
    let size = *d.pick(&[
        codec::COMPRESS_BYTES,
        codec::EXTERNAL_BYTES - 1,
        codec::EXTERNAL_BYTES,
        100_000,
    ]);
    match d.below(20) {
        0 => Content::Even(size),
        1 => Content::Dense(size),
        _ => Content::Small(d.below(1_000)),
    }
}
