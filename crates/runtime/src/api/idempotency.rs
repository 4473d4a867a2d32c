//! Idempotency keys: the same key and the same request have one effect and one answer.
//!
//! The creation or fork of a run claims its key in the transaction that makes it, so that there is no
//! moment at which one is there without the other. Other requests have their effects in several
//! streams, or in none, and their answers are known only afterwards: their key is put on record
//! as [begun](Api::begin) before the effect and with the answer [after it](Api::finish). A process
//! that dies in between leaves a key that says so, and the request is done again when it comes
//! again.

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
use crate::access::Principal;
use crate::holder;
use crate::seal::{Seal, SealError};

/// Keys of creations, whose answer is a status, and of forks.
const CREATIONS: &str = "idempotency";
/// Keys of other requests, whose answer is a [`Kept`].
const REQUESTS: &str = "requests";
/// How long an answer is given again. The protocol asks for a day at least.
const KEPT: Duration = Duration::from_secs(48 * 3600);
/// How long a request may be under way; longer than any face waits for its own answer.
const LEASE: Duration = Duration::from_secs(120);
/// How long an equal request waits for the first one's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);

/// What a request is recognised by when it comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedBy {
    /// What the client chose, 1 to 255 characters.
    pub key: String,
    /// The operation and what it is done to, as `POST /v1/runs`.
    pub operation: String,
    /// The digest of the request's canonical body.
    pub request: Digest,
}

impl KeyedBy {
    /// The stored key: a digest, so that no list of keys tells what clients chose. Who is kept to
    /// a workspace has keys of their own, as answers tell of what is in it.
    fn name(&self, who: &Principal) -> String {
        let Self { key, operation, .. } = self;
        let (tenant, workspace) = (&who.tenant, who.workspace.as_deref().unwrap_or_default());
        Digest::of(format!("{tenant}\0{workspace}\0{operation}\0{key}").as_bytes()).to_string()
    }

    /// The claim of a creation whose answer is known, or made with it.
    pub(super) fn claim(&self, who: &Principal, answer: Option<&str>, now: Timestamp) -> KeyClaim {
        KeyClaim {
            namespace: CREATIONS.into(),
            key: self.name(who),
            digest: Some(self.request),
            answer: answer.map(|answer| answer.as_bytes().to_vec()),
            expires_at: Some(now.plus(KEPT)),
        }
    }
}

/// The answer that was given to the first of equal creations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The run it was about.
    pub run: StreamId,
    /// What was answered of it: of a creation the status.
    pub answer: String,
}

/// An answer to give again, as the face that gave it writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The face's word for how it went: of HTTP the status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// What is known of a request that came with a key.
#[derive(Debug)]
pub enum Keyed {
    /// It is the first one: do it, then [`Api::finish`].
    First(Begun),
    /// It was done before.
    Again(KeptAnswer),
}

/// A request that is under way. Whoever drops it without [`Api::finish`] leaves it to its lease.
#[derive(Debug)]
pub struct Begun {
    who: Principal,
    row: KeyRow,
    name: String,
}

/// What lies under a key.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kept {
    /// The request is under way.
    Begun { by: HolderId, until: Timestamp },
    /// It was answered. The body is sealed: it may tell what is told once.
    Answered { status: u16, body: Value },
}

impl Api {
    /// The answer to give again, if the creation came before.
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
        Ok(row.stream.map(|run| Replayed {
            run,
            answer: String::from_utf8(answer).unwrap_or_default(),
        }))
    }

    /// Puts on record that a request is under way, unless one with the same key was done before.
    /// Waits a little for an equal one that is under way.
    ///
    /// # Errors
    /// `KeyMismatch` where the key came with another request, `KeyInFlight` where the first one
    /// is still under way, and the store's.
    pub async fn begin(&self, who: &Principal, keyed: &KeyedBy) -> Result<Keyed, ApiError> {
        let (store, name) = (self.door().store(), keyed.name(who));
        let patience = Instant::now() + PATIENCE;
        loop {
            let seen = store.key(&who.tenant, REQUESTS, &name).await?;
            if let Some(row) = &seen {
                if row.digest != Some(keyed.request) {
                    return Err(ApiError::KeyMismatch);
                }
                match read(row)? {
                    Kept::Answered { status, body } => {
                        let body = self.open(who, body)?;
                        return Ok(Keyed::Again(KeptAnswer { status, body }));
                    }
                    Kept::Begun { by, until } if store.now() < until && !holder::is_dead(&by) => {
                        if Instant::now() >= patience {
                            return Err(ApiError::KeyInFlight);
                        }
                        tokio::time::sleep(LOOK).await;
                        continue;
                    }
                    Kept::Begun { .. } => {}
                }
            }
            let now = store.now();
            let begun = Kept::Begun {
                by: holder::this_process(),
                until: now.plus(LEASE),
            };
            let row = KeyRow {
                stream: None,
                digest: Some(keyed.request),
                answer: Some(bytes(&begun)),
                expires_at: Some(now.plus(KEPT)),
            };
            match store.put_key(&who.tenant, claim(&name, &row), seen).await {
                Ok(()) => {
                    let who = who.clone();
                    return Ok(Keyed::First(Begun { who, row, name }));
                }
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keeps the answer of a request, or frees its key: without an answer to give again the
    /// request is done again when it comes again.
    ///
    /// # Errors
    /// The store's, and the keyring's; the effect stands then, and the key is free when the lease
    /// is over.
    pub async fn finish(&self, begun: Begun, answer: Option<KeptAnswer>) -> Result<(), ApiError> {
        let Begun { who, row, name } = begun;
        let now = self.door().store().now();
        let after = match answer {
            Some(KeptAnswer { status, body }) => {
                let body = self.seal_of(&who).seal(&Value::String(body));
                let body = body.map_err(unsealed)?;
                KeyRow {
                    answer: Some(bytes(&Kept::Answered { status, body })),
                    expires_at: Some(now.plus(KEPT)),
                    ..row.clone()
                }
            }
            None => KeyRow {
                expires_at: Some(now),
                ..row.clone()
            },
        };
        let store = self.door().store();
        let put = store.put_key(&who.tenant, claim(&name, &after), Some(row));
        match put.await {
            // The lease was over and somebody else has begun.
            Ok(()) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn seal_of(&self, who: &Principal) -> Seal {
        Seal::new(self.engine().keyring(), who.tenant.clone())
    }

    fn open(&self, who: &Principal, mut body: Value) -> Result<String, ApiError> {
        let opened = self.seal_of(who).open_all(&mut body, &mut |_| {});
        opened.map_err(unsealed)?;
        let text = body.as_str().map(str::to_owned);
        text.ok_or_else(|| damaged().into())
    }
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

fn unsealed(error: SealError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
