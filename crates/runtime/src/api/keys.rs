//! Keys over the API. The operator's commands are in [`crate::access::ApiKeys`].

use kernel::ids::KeyId;
use kernel::registry::{Key, Rejection};
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{
    Action, ApiKeys, Denied, Issued, KeyError, NewKey, Principal, Resource, Scope, What, authorise,
};

impl Api {
    /// The keys that the caller may manage, newest first.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn keys(&self, who: &Principal) -> Result<Vec<Key>, ApiError> {
        permit_keys(who)?;
        let mut keys = ApiKeys::new(self.door().clone()).list(&who.tenant).await?;
        keys.retain(|key| who.workspace.is_none() || key.grant.workspace == who.workspace);
        Ok(keys)
    }

    /// Creates a key. It reaches no further than the caller, and has none of its groups or roles.
    ///
    /// # Errors
    /// A scope that the caller lacks, another workspace, or the registry's rejection.
    pub async fn create_key(
        &self,
        who: &Principal,
        new: NewKey,
        request_id: Option<&str>,
    ) -> Result<Issued, ApiError> {
        permit_keys(who)?;
        let lacks = |scope: &Scope| new.scopes.has(*scope) && !who.scopes.has(*scope);
        if !who.scopes.covers(&new.scopes) {
            let needs = Scope::ALL.into_iter().find(lacks);
            let needs = needs.unwrap_or(Scope::KeysManage);
            return Err(ApiError::denied(Denied::Scope { needs }, ResourceKind::Key));
        }
        let workspace = match (&who.workspace, new.workspace) {
            (Some(bound), Some(asked)) if *bound != asked => return Err(ApiError::NotTheirs),
            (bound, asked) => asked.or_else(|| bound.clone()),
        };
        let new = NewKey { workspace, ..new };
        let (keys, by) = (ApiKeys::new(self.door().clone()), who.actor(request_id));
        let issued = keys.create(&who.tenant, new, &by).await;
        let issued = issued.map_err(refused)?;
        self.door().hints().outbox();
        Ok(issued)
    }

    /// Revokes a key. Revoking it again changes nothing.
    ///
    /// # Errors
    /// `NotFound` for a key that the caller may not manage.
    pub async fn revoke_key(
        &self,
        who: &Principal,
        key: &KeyId,
        (reason, request_id): (Option<String>, Option<&str>),
    ) -> Result<(), ApiError> {
        let keys = self.keys(who).await?;
        if !keys.iter().any(|known| known.id == *key) {
            return Err(ApiError::NotFound(ResourceKind::Key));
        }
        let (keys, by) = (ApiKeys::new(self.door().clone()), who.actor(request_id));
        match keys.revoke(&who.tenant, key, reason, &by).await {
            Ok(()) | Err(KeyError::Rejected(Rejection::Unchanged)) => {}
            Err(error) => return Err(refused(error)),
        }
        self.door().hints().outbox();
        Ok(())
    }
}

fn permit_keys(who: &Principal) -> Result<(), ApiError> {
    authorise(who, Action::ManageKeys, &Resource::own(who, What::Keys))
        .map_err(|denied| ApiError::denied(denied, ResourceKind::Key))
}

fn refused(error: KeyError) -> ApiError {
    match error {
        KeyError::Rejected(rejection) => ApiError::Registry(rejection),
        KeyError::Store(error) => error.into(),
        error @ (KeyError::NoEntropy(_) | KeyError::OverlapTooShort) => {
            StoreError::Unavailable(error.to_string()).into()
        }
    }
}
