//! Idempotency keys: the same key and the same request have one effect and one response.
//!
//! The creation or fork of a run claims its key in the transaction that makes it: neither exists
//! without the other. Other requests have effects in several streams, or in none, and their
//! response is known only afterwards: their key is recorded as [begun](Api::begin) before the
//! effect and with the response [after it](Api::finish). A crash in between leaves a begun key.
//! When the request comes again it is executed again with the same [`Effect`], whose name
//! identifies the created object and finds it.

use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{KeyRow, StoreError};
use tokio::time::Instant;

use super::{Api, ApiError};
use crate::access::{Entropy, OsEntropy, Principal};
use crate::created_record::CreatedRecord;
use crate::holder;
use crate::seal::Seal;

/// Keys of creations, whose response is a status, and of forks.
const CREATIONS: &str = "idempotency";
/// Keys of other requests, whose response is a [`Kept`].
const REQUESTS: &str = "requests";
/// Names of effects, whose value locates the effect.
const EFFECTS: &str = "effects";
/// How long a response is repeated. The protocol requires at least a day.
const KEPT: Duration = Duration::from_secs(48 * 3600);
/// How long a request may be in progress; longer than any face waits for its own response.
const LEASE: Duration = Duration::from_secs(120);
/// How long an equal request waits for the first one's response before it is rejected as in flight.
pub const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of its polls.
const LOOK: Duration = Duration::from_millis(50);
/// Attempts to record the end of a request while the store fails.
const TRIES: u32 = 3;

/// The identity of a request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedBy {
    /// The client's key, 1 to 255 characters.
    pub key: String,
    /// The operation and its target, such as `POST /v1/runs`.
    pub operation: String,
    /// The digest of the request's canonical body.
    pub request: Digest,
}

impl KeyedBy {
    /// The stored key: a digest, so that a list of keys does not disclose the clients' keys. A
    /// caller bound to a workspace has keys of its own, as responses describe the workspace's data.
    fn name(&self, who: &Principal) -> String {
        let Self { key, operation, .. } = self;
        let (tenant, workspace) = (&who.tenant, who.workspace.as_deref().unwrap_or_default());
        Digest::compute(format!("{tenant}\0{workspace}\0{operation}\0{key}").as_bytes()).to_string()
    }

    /// The claim of a creation whose response is known, or made with it.
    pub(super) fn claim(
        &self,
        who: &Principal,
        answer: Option<CreatedRecord<'_>>,
        now: Timestamp,
    ) -> KeyClaim {
        KeyClaim {
            namespace: CREATIONS.into(),
            key: self.name(who),
            digest: Some(self.request),
            answer: answer.map(|made| made.to_bytes()),
            expires_at: Some(now.plus(KEPT)),
        }
    }
}

/// The response to the first of equal creations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The run.
    pub run: StreamId,
    /// The recorded response: for a creation the status.
    pub answer: String,
}

/// A response to repeat, in the format of the face that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The face's result code: for HTTP the status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// The state of a request with a key.
#[derive(Debug)]
pub enum IdempotencyState {
    /// The first one: execute it, then call [`Api::finish`].
    First(InProgress),
    /// Already executed.
    Again(KeptAnswer),
}

/// The effect of a request with a key. Its name is drawn before the effect and is reused if the
/// request is executed again because its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    name: String,
    /// Whether an earlier attempt began: its effect may exist although its response was lost.
    pub is_repeated: bool,
}

impl Effect {
    /// The name: 64 lower-case hexadecimal digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The claim of an effect under its name, with the value that locates it.
    pub(super) fn claim(&self, found: &str, now: Timestamp) -> KeyClaim {
        KeyClaim {
            namespace: EFFECTS.into(),
            key: self.name.clone(),
            digest: None,
            answer: Some(found.as_bytes().to_vec()),
            expires_at: Some(now.plus(KEPT)),
        }
    }
}

/// The outcome of a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Repeat this response.
    Answered(KeptAnswer),
    /// Nothing was done: the key is freed.
    Refused,
    /// Unknown: the same request may be executed again.
    Unknown,
}

/// A request in progress. Dropped without [`Api::finish`], it ends with its lease.
#[derive(Debug)]
pub struct InProgress {
    who: Principal,
    row: KeyRow,
    name: String,
    effect: Effect,
}

impl InProgress {
    /// The effect of the request.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }
}

/// The value stored under a key.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kept {
    /// The request is in progress.
    #[serde(rename = "begun")]
    InProgress {
        by: HolderId,
        until: Timestamp,
        /// The name of its effect.
        #[serde(default)]
        effect: String,
    },
    /// Completed. The body is sealed: it may hold a secret that is shown once.
    Answered { status: u16, body: Value },
}

impl Api {
    /// The response to repeat, if the creation was made before.
    pub(super) async fn replayed(
        &self,
        who: &Principal,
        keyed: &KeyedBy,
    ) -> Result<Option<Replayed>, ApiError> {
        let store = self.door().store();
        let row = store.key(&who.tenant, CREATIONS, &keyed.name(who)).await?;
        let Some(row) = row else { return Ok(None) };
        if row.digest != Some(keyed.request) {
            return Err(ApiError::KeyMismatch);
        }
        let answer = row.answer.unwrap_or_default();
        let made = serde_json::from_slice(&answer).ok();
        Ok(made.map(|CreatedRecord { run, said }| Replayed {
            run: StreamId::new(run),
            answer: said.into_owned(),
        }))
    }

    /// Records that a request is in progress, unless one with the same key has completed. Waits up
    /// to [`ACK_TIMEOUT`] for an equal one in progress.
    ///
    /// # Errors
    /// `KeyMismatch` if the key was used with another request, `KeyInFlight` if the first one is
    /// still in progress, and the store's.
    pub async fn begin(
        &self,
        who: &Principal,
        keyed: &KeyedBy,
    ) -> Result<IdempotencyState, ApiError> {
        let (store, name) = (self.door().store(), keyed.name(who));
        let patience = Instant::now() + ACK_TIMEOUT;
        loop {
            let seen = store.key(&who.tenant, REQUESTS, &name).await?;
            let mut before = String::new();
            if let Some(row) = &seen {
                if row.digest != Some(keyed.request) {
                    return Err(ApiError::KeyMismatch);
                }
                match read(row)? {
                    Kept::Answered { status, body } => {
                        let body = self.open(who, body)?;
                        return Ok(IdempotencyState::Again(KeptAnswer { status, body }));
                    }
                    Kept::InProgress { by, until, .. }
                        if store.now() < until && !holder::is_dead(&by) =>
                    {
                        if Instant::now() >= patience {
                            return Err(ApiError::KeyInFlight);
                        }
                        tokio::time::sleep(LOOK).await;
                        continue;
                    }
                    Kept::InProgress { effect, .. } => before = effect,
                }
            }
            let effect = Effect {
                is_repeated: !before.is_empty(),
                name: if before.is_empty() {
                    draw_effect().map_err(no_entropy)?
                } else {
                    before
                },
            };
            let row = row(keyed, store.now(), &effect, LEASE);
            match self.put(who, &name, &row, seen).await {
                Ok(()) => {
                    let who = who.clone();
                    return Ok(IdempotencyState::First(InProgress {
                        who,
                        row,
                        name,
                        effect,
                    }));
                }
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Stores the response of a request, frees its key, or leaves it to a repeated request.
    ///
    /// # Errors
    /// The store's, and the keyring's; the effect remains, and the same request may be executed
    /// again after the lease.
    pub async fn finish(&self, begun: InProgress, how: Finish) -> Result<(), ApiError> {
        let InProgress {
            who,
            row,
            name,
            effect,
        } = begun;
        let now = self.door().store().now();
        let after = match how {
            Finish::Answered(KeptAnswer { status, body }) => {
                let body = self.seal_of(&who).seal(&Value::String(body));
                let body = body.map_err(StoreError::unavailable)?;
                KeyRow {
                    answer: Some(bytes(&Kept::Answered { status, body })),
                    expires_at: Some(now.plus(KEPT)),
                    ..row.clone()
                }
            }
            Finish::Refused => KeyRow {
                expires_at: Some(now),
                ..row.clone()
            },
            Finish::Unknown => KeyRow {
                answer: Some(bytes(&Kept::begun(now, &effect))),
                ..row.clone()
            },
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.put(&who, &name, &after, Some(row.clone())).await {
                // The lease expired and another request has begun.
                Ok(()) | Err(StoreError::Conflict(_)) => return Ok(()),
                Err(_) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The location of the effect of a request that was begun before, if it exists.
    pub(super) async fn found(
        &self,
        who: &Principal,
        effect: Option<&Effect>,
    ) -> Result<Option<String>, StoreError> {
        let Some(effect) = effect.filter(|effect| effect.is_repeated) else {
            return Ok(None);
        };
        let store = self.door().store();
        let row = store.key(&who.tenant, EFFECTS, &effect.name).await?;
        let found = row.and_then(|row| row.answer);
        Ok(found.and_then(|found| String::from_utf8(found).ok()))
    }

    /// Replaces a row. If the store does not respond, the stored row shows whether the write
    /// happened.
    async fn put(
        &self,
        who: &Principal,
        name: &str,
        row: &KeyRow,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError> {
        let store = self.door().store();
        let put = store.put_key(&who.tenant, claim(name, row), seen).await;
        let Err(error @ StoreError::Unavailable(_)) = put else {
            return put;
        };
        match store.key(&who.tenant, REQUESTS, name).await? {
            Some(lies) if lies == *row => Ok(()),
            _ => Err(error),
        }
    }

    fn seal_of(&self, who: &Principal) -> Seal {
        Seal::new(self.engine().keyring(), who.tenant.clone())
    }

    fn open(&self, who: &Principal, mut body: Value) -> Result<String, ApiError> {
        let opened = self.seal_of(who).open_all(&mut body, &mut |_| {});
        opened.map_err(StoreError::unavailable)?;
        let text = body.as_str().map(str::to_owned);
        text.ok_or_else(|| damaged().into())
    }
}

impl Kept {
    /// A request in progress in this process until `until`.
    fn begun(until: Timestamp, effect: &Effect) -> Self {
        Self::InProgress {
            by: holder::this_process(),
            until,
            effect: effect.name.clone(),
        }
    }
}

/// The row of a request before its effect.
fn row(keyed: &KeyedBy, now: Timestamp, effect: &Effect, lease: Duration) -> KeyRow {
    KeyRow {
        stream: None,
        digest: Some(keyed.request),
        answer: Some(bytes(&Kept::begun(now.plus(lease), effect))),
        expires_at: Some(now.plus(KEPT)),
    }
}

fn draw_effect() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    OsEntropy.fill(&mut bytes)?;
    Ok(Digest(bytes).to_string())
}

fn no_entropy(error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the system provides no random bytes: {error}"))
}

fn claim(name: &str, row: &KeyRow) -> KeyClaim {
    KeyClaim {
        namespace: REQUESTS.into(),
        key: name.to_owned(),
        digest: row.digest,
        answer: row.answer.clone(),
        expires_at: row.expires_at,
    }
}

fn bytes(kept: &Kept) -> Vec<u8> {
    serde_json::to_vec(kept).unwrap_or_default()
}

fn read(row: &KeyRow) -> Result<Kept, StoreError> {
    let answer = row.answer.as_deref().unwrap_or_default();
    serde_json::from_slice(answer).map_err(|_| damaged())
}

fn damaged() -> StoreError {
    StoreError::Corrupt("the answer under an idempotency key cannot be read".into())
}
