//! Who makes a request.

use std::collections::BTreeSet;

use kernel::audit::Actor;
use kernel::ids::{StreamId, TenantId};
use kernel::run::Capacity;
use kernel::stream::Owner;

use super::scopes::Scopes;

/// An authenticated caller and its rights. Built from a credential, never from a request's own
/// claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant; no other tenant's data is visible.
    pub tenant: TenantId,
    /// The only workspace it reaches; `None` means the whole tenant.
    pub workspace: Option<String>,
    /// The only run it reaches; `None` means every run of its workspace.
    pub run: Option<StreamId>,
    /// Its id: opaque, never personal data.
    pub id: String,
    /// The issuer of its JWT. `None` for API keys.
    pub issuer: Option<String>,
    /// The scopes it has.
    pub scopes: Scopes,
    /// Its groups, for gates.
    pub groups: BTreeSet<String>,
    /// Its roles, for gates.
    pub roles: BTreeSet<String>,
}

impl Principal {
    /// The owner of resources that this principal creates.
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            principal: Some(self.id.clone()),
            issuer: self.issuer.clone(),
        }
    }

    /// The capacity in which this principal answers questions.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            speaks_for: None,
            groups: self.groups.clone(),
            roles: self.roles.clone(),
            issuer: self.issuer.clone(),
            ..Capacity::default()
        }
    }

    /// This principal as an actor of the audit trail, with the id of its request.
    pub fn actor(&self, request_id: Option<&str>) -> Actor {
        Actor {
            principal: self.id.clone(),
            issuer: self.issuer.clone(),
            request_id: request_id.map(str::to_owned),
        }
    }
}
