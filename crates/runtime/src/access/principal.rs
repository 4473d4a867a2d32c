//! Who asks.

use std::collections::BTreeSet;

use kernel::audit::Actor;
use kernel::ids::{StreamId, TenantId};
use kernel::run::Capacity;
use kernel::stream::Owner;

use super::scopes::Scopes;

/// Somebody who was authenticated, and what they may do. Comes from a credential, never from
/// what a request says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The wall: nothing of another tenant is there for this principal.
    pub tenant: TenantId,
    /// The only workspace it reaches; without one it reaches all of the tenant.
    pub workspace: Option<String>,
    /// The only run it reaches, and nothing else; without one it reaches all of its workspace.
    pub run: Option<StreamId>,
    /// Who it is; opaque, never personal data.
    pub id: String,
    /// Who vouches for it: the issuer of a JWT. `None` for API keys.
    pub issuer: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// Groups it belongs to, for gates that name some.
    pub groups: BTreeSet<String>,
    /// Roles it has, for gates that name some.
    pub roles: BTreeSet<String>,
}

impl Principal {
    /// The owner of what this principal creates.
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            principal: Some(self.id.clone()),
            issuer: self.issuer.clone(),
        }
    }

    /// As what this principal answers questions.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            speaks_for: None,
            groups: self.groups.clone(),
            roles: self.roles.clone(),
            ..Capacity::default()
        }
    }

    /// This principal as an audit trail names it, with the request it acts by.
    pub fn actor(&self, request_id: Option<&str>) -> Actor {
        Actor {
            principal: self.id.clone(),
            issuer: self.issuer.clone(),
            request_id: request_id.map(str::to_owned),
        }
    }
}
