//! API keys of the registry.

use crate::digest::Digest;
use crate::ids::{KeyId, StreamId, TenantId};
use crate::limits;
use crate::registry::event::Grant;
use crate::registry::{PREFIX, Rejection};
use crate::time::Timestamp;

/// Hex digits of a key id that name the registry; the following ones distinguish its keys.
const REGISTRY_DIGITS: usize = 32;
/// Random bytes of a key id.
pub const KEY_ID_BYTES: usize = 4;

impl KeyId {
    /// The id of a tenant's key. It begins with the name of the tenant's registry stream, so that
    /// the tenant can be found from a bearer token alone.
    pub fn for_tenant(tenant: &TenantId, random: [u8; KEY_ID_BYTES]) -> Self {
        let registry = super::Registry::stream(tenant);
        let digits = registry.as_str().trim_start_matches(PREFIX);
        let own: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::new(format!("{digits}{own}"))
    }

    /// Parses a key id from outside. `None` unless it has the right form.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = text.len() == REGISTRY_DIGITS + 2 * KEY_ID_BYTES && text.bytes().all(is_hex);
        fits.then(|| Self::new(text))
    }

    /// The registry stream of this key. `None` for an invalid key id.
    pub fn registry(&self) -> Option<StreamId> {
        Self::parse(self.as_str())?;
        let digits = self.as_str().get(..REGISTRY_DIGITS)?;
        Some(StreamId::new(format!("{PREFIX}{digits}")))
    }
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Key {
    pub id: KeyId,
    /// SHA-256 of the whole token.
    pub digest: Digest,
    /// Its grant, with the expiry that counts now.
    pub grant: Grant,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    pub revoke_reason: Option<String>,
    pub replaces: Option<KeyId>,
    /// The key that replaces it.
    pub successor: Option<KeyId>,
}

crate::words! {
    /// Whether a key is valid.
    pub enum KeyStatus {
        /// It is valid.
        Live = "live",
        /// It has expired.
        Expired = "expired",
        /// It was revoked.
        Revoked = "revoked",
    }
}

impl Key {
    /// Whether it is valid at a time. A key lives while `now < expires_at`.
    pub fn standing(&self, now: Timestamp) -> KeyStatus {
        match (self.revoked_at, self.grant.expires_at) {
            (Some(_), _) => KeyStatus::Revoked,
            (None, Some(expires_at)) if now >= expires_at => KeyStatus::Expired,
            (None, _) => KeyStatus::Live,
        }
    }
}

/// Checks a grant against its limits.
pub(super) fn check(grant: &Grant, now: Timestamp) -> Result<(), Rejection> {
    let is_text = |text: &str| {
        !text.is_empty()
            && text.len() <= limits::MAX_NAME_BYTES
            && !text.chars().any(char::is_control)
    };
    let texts = [
        Some(&grant.principal),
        grant.workspace.as_ref(),
        grant.name.as_ref(),
    ];
    if !texts.into_iter().flatten().all(|text| is_text(text)) {
        return Err(Rejection::InvalidGrant(
            "principal, workspace and name are 1 to 256 bytes of text without control characters",
        ));
    }
    if grant.scopes.is_empty() || grant.scopes.len() > limits::MAX_SCOPES {
        return Err(Rejection::InvalidGrant("a key has 1 to 64 scopes"));
    }
    if !grant.scopes.iter().all(|scope| is_text(scope)) {
        return Err(Rejection::InvalidGrant("a scope is a short word"));
    }
    for refs in [&grant.groups, &grant.roles] {
        if refs.len() > limits::MAX_MEMBERSHIPS || !refs.iter().all(|word| is_text(word)) {
            return Err(Rejection::InvalidGrant(
                "a key has at most 64 groups and 64 roles, each a short word",
            ));
        }
    }
    if grant.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Rejection::InvalidGrant(
            "the key would have expired already",
        ));
    }
    Ok(())
}
