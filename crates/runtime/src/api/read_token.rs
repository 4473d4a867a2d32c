//! Tokens that read one run for a while: for a web page, which must not hold a key.
//!
//! A token is `rwr_` and a signed claim. It allows `runs:read` on that run alone. It ends with its
//! short life, or with the signing key of this instance.

use std::collections::BTreeSet;
use std::time::Duration;

use kernel::ids::{StreamId, TenantId};
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use store::StoreError;

use super::interrupt_token::{Refused, sign_for, verify_for};
use super::{Api, ApiError};
use crate::access::{Action, AuthError, Principal, Scope, Scopes};
use crate::keyring::Purpose;

/// The prefix of every such token.
const PREFIX: &str = "rwr_";
/// The default and longest life of a token.
const LIFE: Duration = Duration::from_secs(5 * 60);
const LONGEST_LIFE: Duration = Duration::from_secs(15 * 60);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    run_id: StreamId,
    principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    expires_at: Timestamp,
}

/// A token and its expiry. Its text is neither logged nor stored.
pub struct ReadToken {
    /// The text, for the run's reader.
    pub text: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl Api {
    /// Whether a bearer token has the form of a read token.
    pub fn is_read_token(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Makes a token that reads a run, for a caller who may read it.
    ///
    /// # Errors
    /// As [`Api::version`]; the keyring's.
    pub async fn read_token(
        &self,
        who: &Principal,
        run: &StreamId,
        life: Option<Duration>,
    ) -> Result<ReadToken, ApiError> {
        self.head(who, Action::ReadRun, run).await?;
        let life = life.unwrap_or(LIFE).min(LONGEST_LIFE);
        let expires_at = self.door().store().now().plus(life);
        let claim = Claim {
            tenant: who.tenant.clone(),
            workspace: who.workspace.clone(),
            run_id: run.clone(),
            principal: who.id.clone(),
            issuer: who.issuer.clone(),
            expires_at,
        };
        let keyring = &*self.engine.inner.ports.keyring;
        let signed = sign_for(keyring, Purpose::ReadTokens, claim);
        let signed = signed.map_err(StoreError::unavailable)?;
        Ok(ReadToken {
            text: format!("{PREFIX}{signed}"),
            expires_at,
        })
    }

    /// The principal of a read token.
    ///
    /// # Errors
    /// Why the token was rejected.
    pub fn reader(&self, text: &str) -> Result<Principal, AuthError> {
        let signed = text.strip_prefix(PREFIX).ok_or(AuthError::Malformed)?;
        let keyring = &*self.engine.inner.ports.keyring;
        let claim = verify_for(keyring, Purpose::ReadTokens, signed);
        let claim: Claim = claim.map_err(|refused| match refused {
            Refused::Unknown | Refused::Expired => AuthError::Unknown,
            Refused::Unavailable(what) => {
                tracing::warn!(%what, "a read token could not be checked");
                AuthError::Unavailable
            }
        })?;
        if claim.expires_at <= self.door().store().now() {
            return Err(AuthError::Expired);
        }
        Ok(Principal {
            tenant: claim.tenant,
            workspace: claim.workspace,
            run: Some(claim.run_id),
            id: claim.principal,
            issuer: claim.issuer,
            scopes: Scopes::Only(BTreeSet::from([Scope::RunsRead])),
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
        })
    }
}
