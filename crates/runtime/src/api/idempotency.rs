//! Idempotency keys: the same key and the same request have one effect and one answer.
//!
//! The creation or fork of a run claims its key in the transaction that makes it, so that there is no
//! moment at which one is there without the other. Other requests have their effects in several
//! streams, or in none, and their answers are known only afterwards: their key is put on record
//! as [begun](Api::begin) before the effect and with the answer [after it](Api::finish). A process
//! that dies in between leaves a key that says so, and the request is done again when it comes
//! again, with the same [`Effect`]: what makes something names it by that, and finds it there.

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
use crate::holder;
use crate::made::Made;
use crate::seal::{Seal, SealError};

/// Keys of creations, whose answer is a status, and of forks.
const CREATIONS: &str = "idempotency";
/// Keys of other requests, whose answer is a [`Kept`].
const REQUESTS: &str = "requests";
/// Names of effects, whose answer says where the effect is.
const EFFECTS: &str = "effects";
/// How long an answer is given again. The protocol asks for a day at least.
const KEPT: Duration = Duration::from_secs(48 * 3600);
/// How long a request may be under way; longer than any face waits for its own answer.
const LEASE: Duration = Duration::from_secs(120);
/// How long an equal request waits for the first one's answer, before it is refused as in flight.
pub const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// How often the end of a request is put on record when the store fails.
const TRIES: u32 = 3;

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
    pub(super) fn claim(
        &self,
        who: &Principal,
        answer: Option<Made<'_>>,
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

/// What a request with a key does. Its name is drawn before anything is done, and is the same when
/// the request is done again because nobody knows how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    name: String,
    /// Whether the request was begun before: perhaps it was done, and its answer was lost.
    pub is_repeated: bool,
}

impl Effect {
    /// The name, of 64 lower-case hexadecimal digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The claim of an effect that is made under its name, with what is to be found again.
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

/// How a request with a key went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// This is answered again.
    Answered(KeptAnswer),
    /// Nothing was done: the key is free.
    Refused,
    /// Nobody knows: the same request may be done again.
    Unknown,
}

/// A request that is under way. Whoever drops it without [`Api::finish`] leaves it to its lease.
#[derive(Debug)]
pub struct Begun {
    who: Principal,
    row: KeyRow,
    name: String,
    effect: Effect,
}

impl Begun {
    /// What the request does.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }
}

/// What lies under a key.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kept {
    /// The request is under way.
    Begun {
        by: HolderId,
        until: Timestamp,
        /// The name of its effect.
        #[serde(default)]
        effect: String,
    },
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
        let made = serde_json::from_slice(&answer).ok();
        Ok(made.map(|Made { run, said }| Replayed {
            run: StreamId::new(run),
            answer: said.into_owned(),
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
                        return Ok(Keyed::Again(KeptAnswer { status, body }));
                    }
                    Kept::Begun { by, until, .. }
                        if store.now() < until && !holder::is_dead(&by) =>
                    {
                        if Instant::now() >= patience {
                            return Err(ApiError::KeyInFlight);
                        }
                        tokio::time::sleep(LOOK).await;
                        continue;
                    }
                    Kept::Begun { effect, .. } => before = effect,
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
                    return Ok(Keyed::First(Begun {
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

    /// Keeps the answer of a request, frees its key, or leaves it to the same request.
    ///
    /// # Errors
    /// The store's, and the keyring's; the effect stands then, and the same request may be done
    /// again when the lease is over.
    pub async fn finish(&self, begun: Begun, how: Finish) -> Result<(), ApiError> {
        let Begun {
            who,
            row,
            name,
            effect,
        } = begun;
        let now = self.door().store().now();
        let after = match how {
            Finish::Answered(KeptAnswer { status, body }) => {
                let body = self.seal_of(&who).seal(&Value::String(body));
                let body = body.map_err(unsealed)?;
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
                // The lease was over and somebody else has begun.
                Ok(()) | Err(StoreError::Conflict(_)) => return Ok(()),
                Err(_) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Where the effect of a request that was begun before is, if it was had.
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

    /// Puts a row in the place of another. Where the store does not answer, what lies there says
    /// whether it was put.
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
        opened.map_err(unsealed)?;
        let text = body.as_str().map(str::to_owned);
        text.ok_or_else(|| damaged().into())
    }
}

impl Kept {
    /// A request that this process has until then.
    fn begun(until: Timestamp, effect: &Effect) -> Self {
        Self::Begun {
            by: holder::this_process(),
            until,
            effect: effect.name.clone(),
        }
    }
}

/// What is put on record of a request before it is done.
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
    StoreError::Unavailable(format!("the system gives no randomness: {error}"))
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
