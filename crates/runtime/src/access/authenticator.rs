//! Authenticates bearer tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kernel::ids::StreamId;
use kernel::registry::{KeyStatus, Registry};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Loaded, ReadFrom, Store, StoreError};

use super::jwt::{JwtVerifier, PublicIssuer};
use super::options::AuthOptions;
use super::principal::Principal;
use super::scopes::Scopes;
use super::token::{self, Token};
use super::uses::Uses;
use crate::logs;

/// How long a folded registry is used without asking the store: the longest time, by the store's
/// clock, until every process rejects a key that another one revoked.
pub const FRESH: Duration = Duration::from_secs(1);
/// Registries cached. One is evicted before another is added.
const MAX_REGISTRIES: usize = 1024;
/// Longer bearer tokens are rejected unread.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Why a bearer token was rejected. Never contains the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The token has neither known form.
    #[error("the bearer token is neither an API key nor a token of a configured issuer")]
    Malformed,
    /// The form is right, but the key is unknown, the signature does not verify, or a required
    /// claim is missing.
    #[error("the bearer token is not valid here")]
    Unknown,
    /// The token is signed with another algorithm than the configured one.
    #[error("the bearer token is signed with {found}; the issuer must sign with {expected}")]
    OtherAlgorithm {
        /// That of the token.
        found: &'static str,
        /// The configured one.
        expected: &'static str,
    },
    /// The token has expired.
    #[error("the bearer token has expired; request a new one")]
    Expired,
    /// The key was revoked.
    #[error("the API key was revoked; request a new one")]
    Revoked,
    /// The token cannot be checked now.
    #[error("the bearer token cannot be checked now; try again")]
    Unavailable,
}

impl AuthError {
    /// Stable, snake_case, for programs: the codes of OpenWOP.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "unauthenticated",
            Self::Unknown | Self::OtherAlgorithm { .. } => "invalid_token",
            Self::Expired => "key_expired",
            Self::Revoked => "key_revoked",
            Self::Unavailable => "service_unavailable",
        }
    }
}

/// Checks bearer tokens: API keys of the store's tenants, and JWTs of a configured issuer.
///
/// A key names its registry, which is cached folded. Once per [`FRESH`] the store is asked for
/// events appended since, usually none. So a check costs one hash, and every process sees a
/// revocation.
pub struct Authenticator {
    store: Arc<dyn Store>,
    jwt: Option<JwtVerifier>,
    public_issuer: Option<PublicIssuer>,
    registries: Mutex<HashMap<StreamId, Arc<Kept>>>,
    uses: Uses,
}

/// Whether an observation made at `at` is still fresh. False if the clock was set back.
pub(super) fn is_within(age: Duration, at: Timestamp, now: Timestamp) -> bool {
    at <= now && now < at.plus(age)
}

/// A cached registry.
#[derive(Default)]
struct Kept {
    /// The registry and when it was read. The lock is never held across an await.
    seen: Mutex<Option<(Arc<Registry>, Timestamp)>>,
    /// Serialises reads of the store: one task reads, the others wait for its result.
    asking: tokio::sync::Mutex<()>,
}

impl Kept {
    fn fresh(&self, now: Timestamp) -> Option<Arc<Registry>> {
        let seen = self.seen.lock();
        let (registry, at) = seen.as_ref()?;
        is_within(FRESH, *at, now).then(|| registry.clone())
    }
}

impl Authenticator {
    /// Checks tokens against a store and the configured options.
    pub fn new(store: Arc<dyn Store>, options: AuthOptions) -> Self {
        let AuthOptions { jwt, outbound } = options;
        Self {
            store,
            public_issuer: jwt.as_ref().and_then(PublicIssuer::from_options),
            jwt: jwt.map(|jwt| JwtVerifier::new(jwt, outbound)),
            registries: Mutex::default(),
            uses: Uses::default(),
        }
    }

    /// The accepted issuer of JWTs, if it may be published: one with public keys and a URL as its
    /// name.
    pub fn public_issuer(&self) -> Option<&PublicIssuer> {
        self.public_issuer.as_ref()
    }

    /// The principal of a bearer token.
    ///
    /// # Errors
    /// Why the token was rejected.
    pub async fn authenticate(&self, bearer: &str) -> Result<Principal, AuthError> {
        if bearer.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::Malformed);
        }
        if bearer.starts_with(token::PREFIX) {
            return self.key(bearer).await;
        }
        match &self.jwt {
            Some(jwt) if bearer.split('.').count() == 3 => {
                jwt.verify(bearer, self.store.now()).await
            }
            _ => Err(AuthError::Malformed),
        }
    }

    async fn key(&self, bearer: &str) -> Result<Principal, AuthError> {
        let token = Token::parse(bearer).ok_or(AuthError::Malformed)?;
        let stream = token.key().registry().ok_or(AuthError::Malformed)?;
        let registry = match self.registry(&stream).await {
            Ok(registry) => registry,
            Err(StoreError::Missing) => return Err(AuthError::Unknown),
            Err(error) => {
                tracing::warn!(%error, "a key could not be checked");
                return Err(AuthError::Unavailable);
            }
        };
        // A key unknown to the cache may be new: the store is asked before it is rejected.
        let registry = match registry.key(token.key()) {
            Some(_) => registry,
            None => self.registry_now(&stream, &registry).await,
        };
        // The key's state is disclosed only to a bearer who knows the secret.
        let key = registry.key(token.key());
        let key = key.filter(|key| token.has_digest(&key.digest));
        let key = key.ok_or(AuthError::Unknown)?;
        match key.standing(self.store.now()) {
            KeyStatus::Revoked => return Err(AuthError::Revoked),
            KeyStatus::Expired => return Err(AuthError::Expired),
            KeyStatus::Live => {}
        }
        let grant = &key.grant;
        let tenant = registry.tenant();
        self.uses
            .used(&self.store, tenant, token.key(), &grant.principal);
        Ok(Principal {
            tenant: registry.tenant().clone(),
            workspace: grant.workspace.clone(),
            run: None,
            id: grant.principal.clone(),
            issuer: None,
            scopes: Scopes::known(grant.scopes.iter().map(String::as_str)),
            groups: grant.groups.clone(),
            roles: grant.roles.clone(),
        })
    }

    /// A registry, at most [`FRESH`] old.
    async fn registry(&self, stream: &StreamId) -> Result<Arc<Registry>, StoreError> {
        let kept = self.registries.lock().get(stream).cloned();
        let Some(kept) = kept else {
            let first = Kept::default();
            let registry = self.ask(stream, &first).await?;
            self.keep(stream, first);
            return Ok(registry);
        };
        if let Some(registry) = kept.fresh(self.store.now()) {
            return Ok(registry);
        }
        let _asking = kept.asking.lock().await;
        match kept.fresh(self.store.now()) {
            // Another task refreshed it while this one waited for the lock.
            Some(registry) => Ok(registry),
            None => self.ask(stream, &kept).await,
        }
    }

    /// The current registry, or the cached one if the store is unavailable.
    async fn registry_now(&self, stream: &StreamId, seen: &Arc<Registry>) -> Arc<Registry> {
        let Some(kept) = self.registries.lock().get(stream).cloned() else {
            return seen.clone();
        };
        let _asking = kept.asking.lock().await;
        let asked = self.ask(stream, &kept).await;
        asked.unwrap_or_else(|_| seen.clone())
    }

    /// Reads the events appended to a registry since the cached state.
    async fn ask(&self, stream: &StreamId, kept: &Kept) -> Result<Arc<Registry>, StoreError> {
        let asked_at = self.store.now();
        let seen = kept.seen.lock().as_ref().map(|(seen, _)| seen.clone());
        let from = seen.as_ref().map_or(0, |seen| seen.next_seq());
        let loaded = self
            .store
            .load(stream, ReadFrom::Seq(from), usize::MAX)
            .await;
        let registry = match (seen, loaded) {
            (Some(seen), Ok(loaded)) if loaded.next_seq == from => seen,
            (Some(seen), Ok(loaded)) if loaded.next_seq > from => {
                Arc::new(logs::fold((*seen).clone(), &loaded.records)?)
            }
            // The log is shorter than the cached state: an earlier copy of the store was restored.
            (Some(_), Ok(_)) => {
                let whole = self.store.load(stream, ReadFrom::Seq(0), usize::MAX);
                Arc::new(born(whole.await?)?)
            }
            (None, Ok(loaded)) => Arc::new(born(loaded)?),
            (_, Err(error)) => {
                *kept.seen.lock() = None;
                return Err(error);
            }
        };
        *kept.seen.lock() = Some((registry.clone(), asked_at));
        Ok(registry)
    }

    fn keep(&self, stream: &StreamId, kept: Kept) {
        let now = self.store.now();
        let mut registries = self.registries.lock();
        if registries.len() >= MAX_REGISTRIES {
            registries.retain(|_, kept| kept.fresh(now).is_some());
        }
        if registries.len() >= MAX_REGISTRIES {
            registries.clear();
        }
        registries.insert(stream.clone(), Arc::new(kept));
    }
}

fn born(loaded: Loaded) -> Result<Registry, StoreError> {
    if loaded.header.kind != StreamKind::Registry {
        return Err(StoreError::Missing);
    }
    logs::fold(Registry::at_start(loaded.header), &loaded.records)
}
