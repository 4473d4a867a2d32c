//! Creating and revoking API keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kernel::audit::Actor;
use kernel::ids::{KeyId, TenantId};
use kernel::registry::{Grant, Key, RegistryCommand, Rejection};
use kernel::time::Timestamp;
use store::StoreError;

use super::scopes::Scopes;
use super::token::{Entropy, OsEntropy, Token};
use crate::door::{Door, RegistryError};

/// How many ids are drawn before creation fails because each is in use.
const DRAWS: u32 = 8;

/// A key to make.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The principal's id; the key's own id if `None`.
    pub principal: Option<String>,
    /// The only workspace it reaches.
    pub workspace: Option<String>,
    /// The scopes it grants.
    pub scopes: Scopes,
    /// Groups of its bearer, for gates.
    pub groups: BTreeSet<String>,
    /// Roles of its bearer, for gates.
    pub roles: BTreeSet<String>,
    /// A display name.
    pub name: Option<String>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// A key that was made.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The token: shown once, never stored.
    pub token: Token,
    /// The stored grant.
    pub grant: Grant,
}

/// Why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The registry rejected the command; nothing was written.
    #[error(transparent)]
    Rejected(Rejection),
    /// The system has no randomness.
    #[error("no key can be created: the system provides no random bytes: {0}")]
    NoEntropy(std::io::Error),
    /// A rotation with too short an overlap.
    #[error("a rotated key stays valid for at least {} hours, so that its users can switch", LEAST_OVERLAP.as_secs() / 3_600)]
    OverlapTooShort,
    /// A store error.
    #[error(transparent)]
    Store(StoreError),
}

/// The shortest overlap of a rotated key and its successor: what `auth-profiles.md` recommends for
/// hosts in production, and what discovery advertises. A leaked key is revoked instead.
pub const LEAST_OVERLAP: Duration = Duration::from_secs(86_400);

impl From<RegistryError> for KeyError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Rejected(rejection) => Self::Rejected(rejection),
            RegistryError::Store(error) => Self::Store(error),
        }
    }
}

impl KeyError {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected(rejection) => rejection.code(),
            Self::NoEntropy(_) => "no_entropy",
            Self::OverlapTooShort => "overlap_too_short",
            Self::Store(_) => "store_unavailable",
        }
    }
}

/// The keys of a store's tenants.
#[derive(Clone)]
pub struct ApiKeys {
    door: Door,
    entropy: Arc<dyn Entropy>,
}

impl ApiKeys {
    /// The keys of a door's store.
    pub fn new(door: Door) -> Self {
        Self::with_entropy(door, Arc::new(OsEntropy))
    }

    /// The same with another source of randomness.
    pub fn with_entropy(door: Door, entropy: Arc<dyn Entropy>) -> Self {
        Self { door, entropy }
    }

    /// Creates a key. Only the result contains its token.
    ///
    /// # Errors
    /// The registry's rejection, or the store's error.
    pub async fn create(
        &self,
        tenant: &TenantId,
        new: NewKey,
        by: &Actor,
    ) -> Result<Issued, KeyError> {
        let create = |token: &Token| RegistryCommand::CreateKey {
            key: token.key().clone(),
            digest: token.digest(),
            grant: Grant {
                principal: new
                    .principal
                    .clone()
                    .unwrap_or_else(|| token.key().to_string()),
                workspace: new.workspace.clone(),
                scopes: new.scopes.words(),
                groups: new.groups.clone(),
                roles: new.roles.clone(),
                name: new.name.clone(),
                expires_at: new.expires_at,
            },
        };
        self.issue(tenant, by, create).await
    }

    /// Gives a key a successor with the same grant; both work for the overlap.
    ///
    /// # Errors
    /// As [`ApiKeys::create`]; `OverlapTooShort` below [`LEAST_OVERLAP`].
    pub async fn rotate(
        &self,
        tenant: &TenantId,
        key: &KeyId,
        overlap: Duration,
        by: &Actor,
    ) -> Result<Issued, KeyError> {
        if overlap < LEAST_OVERLAP {
            return Err(KeyError::OverlapTooShort);
        }
        let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        let rotate = |token: &Token| RegistryCommand::RotateKey {
            key: key.clone(),
            successor: token.key().clone(),
            digest: token.digest(),
            overlap_ms,
        };
        self.issue(tenant, by, rotate).await
    }

    /// Revokes a key. Every process on the store rejects it within [`super::FRESH`].
    ///
    /// # Errors
    /// As [`ApiKeys::create`]; `Unchanged` if it is already revoked.
    pub async fn revoke(
        &self,
        tenant: &TenantId,
        key: &KeyId,
        reason: Option<String>,
        by: &Actor,
    ) -> Result<(), KeyError> {
        let key = key.clone();
        let revoke = RegistryCommand::RevokeKey { key, reason };
        self.door.registry_command(tenant, &revoke, by).await?;
        Ok(())
    }

    /// Every key of a tenant, newest first, including revoked and expired ones.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<Key>, StoreError> {
        let registry = self.door.workflows(tenant).await?;
        let mut keys: Vec<Key> = registry.keys().cloned().collect();
        keys.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(keys)
    }

    async fn issue(
        &self,
        tenant: &TenantId,
        by: &Actor,
        command: impl Fn(&Token) -> RegistryCommand,
    ) -> Result<Issued, KeyError> {
        let mut draws = 0;
        let token = loop {
            let token = Token::draw(tenant, &*self.entropy).map_err(KeyError::NoEntropy)?;
            let done = self
                .door
                .registry_command(tenant, &command(&token), by)
                .await;
            match done {
                Ok(_) => break token,
                Err(RegistryError::Rejected(Rejection::KeyExists)) if draws < DRAWS => draws += 1,
                Err(error) => return Err(error.into()),
            }
        };
        let registry = self.door.workflows(tenant).await.map_err(KeyError::Store)?;
        let key = registry.key(token.key());
        let grant = key.map(|key| key.grant.clone());
        let grant = grant.ok_or(KeyError::Store(StoreError::Missing))?;
        Ok(Issued { token, grant })
    }
}
