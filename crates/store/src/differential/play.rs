//! Runs operations against both stores and compares after each.

use std::sync::Arc;

use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;

use super::answer::{self, answer, debug, same};
use super::contents;
use super::op::*;
use super::side::{Side, same_due};
use crate::conformance::Bed;
use crate::conformance::draft::{Draft, Log};
use crate::conformance::world::{START, dense};
use crate::*;

/// The state of the caller of both stores.
struct Caller {
    clock: Arc<ManualClock>,
    logs: Vec<Log>,
    leases: Vec<Lease>,
    messages: usize,
    /// The result of each append: `done` or the refusal.
    outcomes: Vec<String>,
}

pub(super) fn stream(n: u64) -> StreamId {
    StreamId::new(format!("run-{n}"))
}

pub(super) fn tenant(n: u64) -> TenantId {
    TenantId::new(format!("tenant-{n}"))
}

pub(super) fn blob(n: u64) -> Vec<u8> {
    dense(10_usize.pow(n as u32 + 2))
}

fn holder(n: u64) -> HolderId {
    HolderId::new(format!("holder-{n}"))
}

/// Returns the result of each append, or the first difference.
pub(super) async fn play(
    reference: &dyn Bed,
    other: &dyn Bed,
    ops: &[Op],
) -> Result<Vec<String>, String> {
    let clock = Arc::new(ManualClock::new(START));
    let logs = (0..STREAMS).map(|n| {
        let tenant = tenant(n % TENANTS);
        let mut log = Log::for_tenant(tenant.as_str(), stream(n).as_str());
        // Some streams share their creation time.
        log.index.created_at = START.plus_ms(n / 3);
        log.index.kind = if n == 4 {
            StreamKind::Document
        } else {
            StreamKind::Run
        };
        log
    });
    let mut caller = Caller {
        clock: clock.clone(),
        logs: logs.collect(),
        leases: Vec::new(),
        messages: 0,
        outcomes: Vec::new(),
    };
    let mut reference = Side::open(reference, clock.clone()).await;
    let mut other = Side::open(other, clock.clone()).await;
    for (nth, op) in ops.iter().enumerate() {
        caller
            .step(op, &mut reference, &mut other)
            .await
            .map_err(|difference| format!("at step {nth}, {op:?}:\n{difference}"))?;
    }
    contents::same_contents(&reference.store, &other.store)
        .await
        .map_err(|difference| format!("in what is left at the end:\n{difference}"))?;
    Ok(caller.outcomes)
}

impl Caller {
    async fn step(&mut self, op: &Op, a: &mut Side<'_>, b: &mut Side<'_>) -> Result<(), String> {
        /// The same call on both sides, each answer as text.
        macro_rules! both {
            ($call:ident ( $($argument:expr),* ), $show:expr) => {{
                let left = answer(a.store.$call($($argument),*).await, $show);
                same(left, answer(b.store.$call($($argument),*).await, $show))
            }};
        }
        match op {
            Op::Append(append) => self.append(append, a, b).await,
            Op::Load {
                stream: n,
                from,
                limit,
            } => {
                let from = match from {
                    Start::Seq(seq) => ReadFrom::Seq(*seq),
                    Start::Checkpoint => ReadFrom::Checkpoint,
                };
                both!(load(&stream(*n), from, *limit), answer::loaded)
            }
            Op::Claim {
                stream: n,
                holder: by,
                ttl,
            } => {
                let left = a.store.claim(&stream(*n), &holder(*by), *ttl).await;
                let right = b.store.claim(&stream(*n), &holder(*by), *ttl).await;
                self.leases.extend(left.iter().cloned());
                same(answer(left, debug), answer(right, debug))
            }
            Op::Renew { leases, ttl } => {
                let leases: Vec<_> = leases.iter().filter_map(|ago| self.lease(*ago)).collect();
                both!(renew(&leases, *ttl), debug)
            }
            Op::Release { lease } => match self.lease(*lease) {
                None => Ok(()),
                Some(lease) => both!(release(&lease), debug),
            },
            Op::Due { queue, limit } => same_due(&self.clock, *queue, *limit, a, b).await,
            Op::Key {
                tenant: n,
                namespace,
                key,
            } => {
                both!(
                    key(
                        &tenant(*n),
                        &format!("ns-{namespace}"),
                        &format!("key-{key}")
                    ),
                    debug
                )
            }
            Op::Checkpoint { stream: n, ahead } => {
                let log = &self.logs[*n as usize];
                let next_seq = log.next_seq.saturating_add_signed(*ahead);
                let state = format!("state {next_seq}").into_bytes();
                let checkpoint = Checkpoint {
                    next_seq,
                    chain: log.chain,
                    state,
                };
                both!(put_checkpoint(log.id(), checkpoint.clone()), debug)
            }
            Op::PutKey {
                tenant: n,
                namespace,
                key,
                until,
                is_stale,
            } => {
                let (of, now) = (tenant(*n), self.clock.now());
                let claim = kernel::batch::KeyClaim {
                    namespace: format!("ns-{namespace}"),
                    key: format!("key-{key}"),
                    digest: (*key == 0).then(|| Digest::compute(b"request")),
                    answer: Some(b"answer".to_vec()),
                    expires_at: until.map(|ms| Timestamp(now.0 + ms)),
                };
                let found = a.store.key(&of, &claim.namespace, &claim.key).await;
                let seen = found.ok().flatten().filter(|_| !is_stale);
                both!(put_key(&of, claim.clone(), seen.clone()), debug)
            }
            Op::PutBlob {
                tenant: n,
                blob: of,
            } => both!(put_blob(&tenant(*n), blob(*of)), debug),
            Op::Blob {
                tenant: n,
                blob: of,
            } => {
                let digest = Digest::compute(&blob(*of));
                both!(blob(&tenant(*n), &digest), |found| answer::bytes(&found))
            }
            Op::List(list) => {
                let query = self.query(list);
                both!(list(query.clone()), answer::listed)?;
                both!(count(query.clone()), debug)
            }
            Op::Feed { after, limit } => {
                same(a.feed(*after, *limit).await, b.feed(*after, *limit).await)
            }
            Op::Outbox { limit } => both!(outbox(*limit), answer::outbox),
            Op::Deliver { now, again } => {
                same(a.deliver(now, *again).await, b.deliver(now, *again).await)
            }
            Op::Purge { stream: n } => both!(purge(&stream(*n), "a test"), debug),
            Op::Tombstone { stream: n } => both!(tombstone(&stream(*n)), debug),
            Op::Maintain => same(a.maintain().await, b.maintain().await),
            Op::Advance { by } => {
                self.clock.advance(*by);
                Ok(())
            }
            Op::Reopen => self.reopen(a, b).await,
        }
    }

    async fn append(
        &mut self,
        op: &Append,
        a: &mut Side<'_>,
        b: &mut Side<'_>,
    ) -> Result<(), String> {
        let batch = self.draft(op).batch();
        let epochs = self
            .leases
            .iter()
            .rev()
            .filter(|lease| lease.stream == *batch.stream());
        let guard = match op.guard {
            By::Outside => Guard::Outside,
            By::Nonsense => Guard::Holder(Epoch(1_000)),
            By::Lease(ago) => {
                let epoch = epochs.map(|lease| lease.epoch).nth(ago);
                epoch.map_or(Guard::Outside, Guard::Holder)
            }
        };
        let lease = match op.lease {
            Change::Take { holder: by, ttl } if batch.first_seq() == 0 => LeaseChange::Take {
                holder: holder(by),
                ttl,
            },
            Change::Release if guard != Guard::Outside => LeaseChange::Release,
            _ => LeaseChange::Keep,
        };
        let (left, taken) = a.append(batch.clone(), guard, lease.clone()).await;
        let (right, _) = b.append(batch.clone(), guard, lease).await;
        let refusal = left.strip_prefix("refused: ");
        self.outcomes.push(refusal.unwrap_or("done").to_owned());
        if refusal.is_none() {
            let log = self.logs.iter_mut().find(|log| log.id() == batch.stream());
            log.expect("every stream has a log").went(&batch);
        }
        self.leases.extend(taken);
        same(left, right)
    }

    fn draft(&mut self, op: &Append) -> Draft {
        let now = self.clock.now();
        let at = |ms: i64| Timestamp(now.0 + ms);
        let mut log = self.logs[op.stream as usize].clone();
        log.next_seq = match op.at {
            At::End => log.next_seq,
            At::Start => 0,
            At::Behind => log.next_seq.saturating_sub(1),
            At::Ahead => log.next_seq + 2,
        };
        let mut draft = log.next(op.contents.iter().map(|content| match content {
            Content::Small(n) => format!("event {n}").into_bytes(),
            Content::Even(size) => vec![b'a'; *size],
            Content::Dense(size) => dense(*size),
        }));
        let row = op.row;
        draft = draft.index(|index| {
            index.runnable = row.runnable;
            index.settled = row.settled;
            index.queue = format!("queue-{}", row.queue);
            index.priority = row.priority;
            index.concurrency_key = row.concurrency.map(|key| format!("concurrency-{key}"));
            index.status = format!("status-{}", row.status);
            index.subject = format!("subject-{}", row.subject);
            index.workspace = row.workspace.map(|n| format!("workspace-{n}"));
            index.parent = row.parent.map(stream);
            let tags = (0..3).filter(|bit| row.tags & (1 << bit) != 0);
            index.tags = tags.map(|bit| format!("tag-{bit}")).collect();
            index.updated_at = now;
        });
        for (name, due) in &op.timers {
            let name = format!("timer-{name}");
            draft = match due {
                Some(ms) => draft.timer(&name, at(*ms)),
                None => draft.cancel(&name),
            };
        }
        for (namespace, key, until) in &op.keys {
            draft = draft.claim(kernel::batch::KeyClaim {
                namespace: format!("ns-{namespace}"),
                key: format!("key-{key}"),
                digest: (*key == 0).then(|| Digest::compute(b"request")),
                answer: (*key == 1).then(|| b"answer".to_vec()),
                expires_at: until.map(at),
            });
        }
        for _ in 0..op.messages {
            self.messages += 1;
            draft = draft.message(&format!("message-{}", self.messages), "run-target");
        }
        for n in &op.blobs {
            draft = draft.blob(Digest::compute(&blob(*n)));
        }
        draft
    }

    fn lease(&self, ago: usize) -> Option<Lease> {
        self.leases.iter().rev().nth(ago).cloned()
    }

    fn query(&self, list: &List) -> ListQuery {
        ListQuery {
            tenant: list.tenant.map(tenant),
            workspace: list.workspace.map(|n| format!("workspace-{n}")),
            kind: list.documents.then_some(StreamKind::Document),
            subject: list.subject.map(|n| format!("subject-{n}")),
            statuses: list
                .statuses
                .iter()
                .map(|n| format!("status-{n}"))
                .collect(),
            tag: list.tag.map(|n| format!("tag-{n}")),
            parent: list.parent.map(stream),
            since: list.since.map(|n| self.logs[n as usize].index.created_at),
            after: list.after.map(|n| {
                let log = &self.logs[n as usize];
                ListCursor {
                    created_at: log.index.created_at,
                    stream: log.id().clone(),
                }
            }),
            limit: list.limit,
        }
    }

    /// Opens both stores again. That may lose a checkpoint, so it is put again.
    async fn reopen(&self, a: &mut Side<'_>, b: &mut Side<'_>) -> Result<(), String> {
        a.reopen(self.clock.clone()).await;
        b.reopen(self.clock.clone()).await;
        for log in &self.logs {
            let kept = a.store.load(log.id(), ReadFrom::Checkpoint, 0).await;
            if let Some(checkpoint) = kept.ok().and_then(|loaded| loaded.checkpoint) {
                let put = b.store.put_checkpoint(log.id(), checkpoint).await;
                same("()", answer(put, debug))?;
            }
        }
        Ok(())
    }
}
