//! Appends that share a transaction, as the arrays that the database's procedure takes.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use kernel::batch::TimerChange;
use store::{Guard, LeaseChange, Prepared};
use tokio_postgres::types::Type;

use crate::db::{Param, clamp, millis};

/// Declares the arrays in the order of the procedure's parameters.
macro_rules! arrays {
    ($($name:ident: $element:ty => $type:ident,)*) => {
        /// The parameters of one call.
        #[derive(Default)]
        pub(crate) struct Arrays<'a> {
            at: Option<i64>,
            origin: i64,
            waits: bool,
            $($name: Vec<$element>,)*
            nothing: (Option<i64>, Option<Vec<String>>, Option<Vec<i64>>),
        }

        impl Arrays<'_> {
            pub(crate) fn params(&self) -> Vec<Param<'_>> {
                vec![
                    (&self.at, Type::INT8),
                    (&self.origin, Type::INT8),
                    (&self.waits, Type::BOOL),
                    $((&self.$name, Type::$type),)*
                    (&self.nothing.0, Type::INT8),
                    (&self.nothing.1, Type::TEXT_ARRAY),
                    (&self.nothing.2, Type::INT8_ARRAY),
                ]
            }
        }

        const ARRAYS: usize = [$(stringify!($name)),*].len();
    };
}

arrays! {
    name: &'a str => TEXT_ARRAY,
    tenant: &'a str => TEXT_ARRAY,
    first_seq: i64 => INT8_ARRAY,
    next_seq: i64 => INT8_ARRAY,
    chain: Vec<u8> => BYTEA_ARRAY,
    header: Option<&'a str> => TEXT_ARRAY,
    guard: Option<i64> => INT8_ARRAY,
    holder: Option<&'a str> => TEXT_ARRAY,
    ttl: Option<i64> => INT8_ARRAY,
    release: bool => BOOL_ARRAY,
    settled: bool => BOOL_ARRAY,
    runnable: bool => BOOL_ARRAY,
    queue: &'a str => TEXT_ARRAY,
    priority: i32 => INT4_ARRAY,
    concurrency: Option<&'a str> => TEXT_ARRAY,
    parent: Option<&'a str> => TEXT_ARRAY,
    created_at: i64 => INT8_ARRAY,
    updated_at: i64 => INT8_ARRAY,
    kind: &'a str => TEXT_ARRAY,
    workspace: Option<String> => TEXT_ARRAY,
    subject: String => TEXT_ARRAY,
    status: String => TEXT_ARRAY,
    tags: String => TEXT_ARRAY,
    index_row: &'a str => TEXT_ARRAY,
    event_nr: i64 => INT8_ARRAY,
    event_seq: i64 => INT8_ARRAY,
    event_chain: &'a [u8] => BYTEA_ARRAY,
    event_content: &'a [u8] => BYTEA_ARRAY,
    event_digest: Option<&'a [u8]> => BYTEA_ARRAY,
    timer_nr: i64 => INT8_ARRAY,
    timer_name: &'a str => TEXT_ARRAY,
    timer_due: Option<i64> => INT8_ARRAY,
    key_nr: i64 => INT8_ARRAY,
    key_tenant: &'a str => TEXT_ARRAY,
    key_namespace: &'a str => TEXT_ARRAY,
    key: &'a str => TEXT_ARRAY,
    key_digest: Option<&'a [u8]> => BYTEA_ARRAY,
    key_answer: Option<&'a [u8]> => BYTEA_ARRAY,
    key_expires_at: Option<i64> => INT8_ARRAY,
    key_doubled_until: Option<i64> => INT8_ARRAY,
    message_nr: i64 => INT8_ARRAY,
    message_id: &'a str => TEXT_ARRAY,
    message_target: &'a str => TEXT_ARRAY,
    message_command: &'a [u8] => BYTEA_ARRAY,
    ref_nr: i64 => INT8_ARRAY,
    ref_tenant: &'a str => TEXT_ARRAY,
    ref_digest: &'a [u8] => BYTEA_ARRAY,
    ref_is_new: bool => BOOL_ARRAY,
    blob_nr: i64 => INT8_ARRAY,
    blob_tenant: &'a str => TEXT_ARRAY,
    blob_digest: &'a [u8] => BYTEA_ARRAY,
    blob_size: i64 => INT8_ARRAY,
    blob_stored: &'a [u8] => BYTEA_ARRAY,
}

/// The statement that appends a group.
pub(crate) static CALL: LazyLock<String> = LazyLock::new(|| {
    let places: Vec<_> = (1..=ARRAYS + 6).map(|nth| format!("${nth}")).collect();
    format!("CALL runwright.append({})", places.join(", "))
});

/// A text for a column that is only compared. PostgreSQL's texts cannot contain NUL; the index row
/// keeps the text as it is.
pub(crate) fn comparable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl<'a> Arrays<'a> {
    pub(crate) fn new(at: Option<i64>, origin: i64, locks: Locks, group: &[&'a Prepared]) -> Self {
        let mut arrays = Self {
            at,
            origin,
            waits: locks == Locks::Wait,
            ..Self::default()
        };
        for (nr, append) in (1..).zip(group) {
            arrays.push_stream(append);
            arrays.push_events(nr, append);
            arrays.push_extras(nr, append);
        }
        arrays
    }

    fn push_stream(&mut self, append: &'a Prepared) {
        let (batch, index) = (&append.batch, append.batch.index());
        self.name.push(batch.stream().as_str());
        self.tenant.push(batch.tenant().as_str());
        self.first_seq.push(clamp(batch.first_seq()));
        self.next_seq.push(clamp(append.next_seq()));
        self.chain.push(append.chain().0.to_vec());
        self.header.push(append.header.as_deref());
        self.guard.push(match append.guard {
            Guard::Holder(epoch) => Some(clamp(epoch.0)),
            Guard::Outside => None,
        });
        let (holder, ttl) = match &append.lease {
            LeaseChange::Take { holder, ttl } => (Some(holder.as_str()), Some(millis(*ttl))),
            LeaseChange::Keep | LeaseChange::Release => (None, None),
        };
        self.holder.push(holder);
        self.ttl.push(ttl);
        self.release.push(append.lease == LeaseChange::Release);
        self.settled.push(index.settled);
        self.runnable.push(index.runnable);
        self.queue.push(&index.queue);
        self.priority.push(index.priority);
        self.concurrency.push(index.concurrency_key.as_deref());
        self.parent
            .push(index.parent.as_ref().map(|parent| parent.as_str()));
        self.created_at.push(index.created_at.0);
        self.updated_at.push(index.updated_at.0);
        self.kind.push(index.kind.as_str());
        self.workspace
            .push(index.workspace.as_deref().map(comparable));
        self.subject.push(comparable(&index.subject));
        self.status.push(comparable(&index.status));
        let tags: Vec<_> = index.tags.iter().map(|tag| comparable(tag)).collect();
        self.tags.push(serde_json::json!(tags).to_string());
        self.index_row.push(&append.index);
    }

    fn push_events(&mut self, nr: i64, append: &'a Prepared) {
        let (batch, tenant) = (&append.batch, append.batch.tenant().as_str());
        let records = batch.records().iter().zip(&append.rows);
        for (seq, (record, row)) in (batch.first_seq()..).zip(records) {
            self.event_nr.push(nr);
            self.event_seq.push(clamp(seq));
            self.event_chain.push(&record.chain.0);
            self.event_content.push(&row.row);
            self.event_digest
                .push(row.blob.as_ref().map(|body| &body.digest.0[..]));
            if let Some(body) = &row.blob {
                self.blob_nr.push(nr);
                self.blob_tenant.push(tenant);
                self.blob_digest.push(&body.digest.0);
                self.blob_size.push(clamp(body.size));
                self.blob_stored.push(&body.stored);
                self.push_reference(nr, tenant, &body.digest.0, Origin::Content);
            }
        }
        for digest in batch.blobs() {
            self.push_reference(nr, tenant, &digest.0, Origin::Put);
        }
    }

    fn push_reference(&mut self, nr: i64, tenant: &'a str, digest: &'a [u8], origin: Origin) {
        self.ref_nr.push(nr);
        self.ref_tenant.push(tenant);
        self.ref_digest.push(digest);
        self.ref_is_new.push(origin == Origin::Content);
    }

    fn push_extras(&mut self, nr: i64, append: &'a Prepared) {
        let (batch, tenant) = (&append.batch, append.batch.tenant().as_str());
        let mut named = HashSet::new();
        // The last change of each timer counts.
        for change in batch.timers().iter().rev() {
            let (name, due) = match change {
                TimerChange::Set { name, due } => (name, Some(due.0)),
                TimerChange::Cancel { name } => (name, None),
            };
            if named.insert(name) {
                self.timer_nr.push(nr);
                self.timer_name.push(name);
                self.timer_due.push(due);
            }
        }
        let mut claimed: HashMap<_, i64> = HashMap::new();
        for claim in batch.keys() {
            let expires_at = claim.expires_at.map(|at| at.0);
            let until = expires_at.unwrap_or(i64::MAX);
            let place = (claim.namespace.as_str(), claim.key.as_str());
            let earlier = claimed.get(&place).copied();
            claimed.insert(place, earlier.map_or(until, |earlier| earlier.max(until)));
            self.key_nr.push(nr);
            self.key_tenant.push(tenant);
            self.key_namespace.push(&claim.namespace);
            self.key.push(&claim.key);
            self.key_digest
                .push(claim.digest.as_ref().map(|digest| &digest.0[..]));
            self.key_answer.push(claim.answer.as_deref());
            self.key_expires_at.push(expires_at);
            self.key_doubled_until.push(earlier);
        }
        for message in batch.outbox() {
            self.message_nr.push(nr);
            self.message_id.push(message.id.as_str());
            self.message_target.push(message.target.as_str());
            self.message_command.push(&message.command);
        }
    }

    /// The name of the claim with a number that the procedure returned.
    pub(crate) fn claim(&self, number: usize) -> Option<(&'a str, &'a str)> {
        let nth = number.checked_sub(1)?;
        Some((*self.key_namespace.get(nth)?, *self.key.get(nth)?))
    }
}

/// What an append does where another transaction keeps its rows or keys locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    /// It is left out of its group.
    Skip,
    /// It waits, for a bounded time.
    Wait,
}

/// Where a referenced blob comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// An event of the same batch.
    Content,
    /// An earlier [`store::Store::put_blob`].
    Put,
}

/// The names that only one append of a group may have.
#[derive(Default)]
pub(crate) struct Separate(HashSet<(u8, String)>);

impl Separate {
    /// Adds an append to the group, or returns `false` where it has to wait for the next.
    pub(crate) fn add(&mut self, append: &Prepared) -> bool {
        let (batch, tenant) = (&append.batch, append.batch.tenant().as_str());
        let mut own = vec![(0, batch.stream().as_str().to_owned())];
        if let (LeaseChange::Take { .. }, Some(key)) =
            (&append.lease, &batch.index().concurrency_key)
        {
            own.push((1, format!("{tenant}\0{key}")));
        }
        let keys = batch.keys().iter();
        own.extend(keys.map(|claim| (2, format!("{tenant}\0{}\0{}", claim.namespace, claim.key))));
        let is_free = own.iter().all(|name| !self.0.contains(name));
        if is_free {
            self.0.extend(own);
        }
        is_free
    }
}

/// The bytes that the arrays of a group take, approximately.
pub(crate) fn weight(append: &Prepared) -> usize {
    let stored = append.rows.iter();
    let stored =
        stored.map(|row| row.row.len() + row.blob.as_ref().map_or(0, |body| body.stored.len()));
    stored.sum::<usize>() + append.index.len()
}
