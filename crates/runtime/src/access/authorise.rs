//! The one function that decides what a principal may do.

use kernel::ids::{KeyId, StreamId, TenantId, WorkflowId};
use kernel::stream::Owner;

use super::principal::Principal;
use super::scopes::Scope;

/// An operation that needs authorisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Read workflow definitions, or list them.
    ReadWorkflows,
    /// Register a workflow.
    WriteWorkflows,
    /// Create a run.
    CreateRun,
    /// Save a document: a run that its client records by itself.
    SaveDocument,
    /// Read a run, its events, or lists of runs.
    ReadRun,
    /// Cancel a run.
    CancelRun,
    /// Pause, resume or signal a run. OpenWOP puts these under the scope for cancelling.
    ControlRun,
    /// Answer an interrupt of a run.
    AnswerRun,
    /// Answer on behalf of others, whom the answer names.
    AnswerForOthers,
    /// Annotate a run, ended or not.
    AnnotateRun,
    /// Read an artifact of a run.
    ReadArtifact,
    /// Read or verify the audit trail.
    ReadAudit,
    /// Make, list, rotate or revoke keys.
    ManageKeys,
    /// Register webhooks, list and remove them.
    ManageWebhooks,
    /// Take tasks from a queue, and report on them.
    WorkTasks,
    /// Read the state of a queue.
    ReadQueue,
    /// Send commands to the coordinator of a queue.
    CommandQueue,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 17] = [
        Self::ReadWorkflows,
        Self::WriteWorkflows,
        Self::CreateRun,
        Self::SaveDocument,
        Self::ReadRun,
        Self::CancelRun,
        Self::ControlRun,
        Self::AnswerRun,
        Self::AnswerForOthers,
        Self::AnnotateRun,
        Self::ReadArtifact,
        Self::ReadAudit,
        Self::ManageKeys,
        Self::ManageWebhooks,
        Self::WorkTasks,
        Self::ReadQueue,
        Self::CommandQueue,
    ];

    /// The scope that the action needs.
    pub fn scope(self) -> Scope {
        match self {
            Self::ReadWorkflows => Scope::ManifestRead,
            Self::WriteWorkflows => Scope::WorkflowsWrite,
            Self::CreateRun | Self::SaveDocument => Scope::RunsCreate,
            Self::ReadRun => Scope::RunsRead,
            Self::CancelRun | Self::ControlRun => Scope::RunsCancel,
            // Annotations are statements of people like answers; a read-only key may make neither.
            Self::AnswerRun | Self::AnnotateRun => Scope::ApprovalsRespond,
            Self::AnswerForOthers => Scope::ApprovalsDelegate,
            Self::ReadArtifact => Scope::ArtifactsRead,
            Self::ReadAudit => Scope::AuditRead,
            Self::ManageKeys => Scope::KeysManage,
            Self::ManageWebhooks => Scope::WebhooksManage,
            Self::WorkTasks => Scope::WorkersTake,
            Self::ReadQueue => Scope::CoordinatorRead,
            Self::CommandQueue => Scope::CoordinatorWrite,
        }
    }
}

/// An object of an action, with its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// The workspace that owns it; `None` if it belongs to the whole tenant.
    pub workspace: Option<String>,
    /// The object.
    pub what: What,
}

/// The object of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The workflows of a tenant, shared by its workspaces.
    Workflows,
    /// One workflow.
    Workflow(WorkflowId),
    /// The runs of a tenant or workspace.
    Runs,
    /// One run.
    Run(StreamId),
    /// The keys of a tenant or workspace.
    Keys,
    /// One key.
    Key(KeyId),
    /// The audit trail of a tenant.
    Audit,
    /// The webhooks of a tenant.
    Webhooks,
    /// A queue of a tenant.
    Queue(String),
}

impl What {
    /// The kind of object, and its id if it is a single one.
    pub fn named(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Workflows => ("workflows", None),
            Self::Workflow(id) => ("workflow", Some(id.as_str())),
            Self::Runs => ("runs", None),
            Self::Run(id) => ("run", Some(id.as_str())),
            Self::Keys => ("keys", None),
            Self::Key(id) => ("key", Some(id.as_str())),
            Self::Audit => ("audit", None),
            Self::Webhooks => ("webhooks", None),
            Self::Queue(name) => ("queue", Some(name)),
        }
    }

    fn is_shared_by_workspaces(&self) -> bool {
        matches!(self, Self::Workflows | Self::Workflow(_))
    }
}

impl Resource {
    /// A run, with the owner from its header.
    pub fn run(owner: &Owner, run: &StreamId) -> Self {
        Self {
            tenant: owner.tenant.clone(),
            workspace: owner.workspace.clone(),
            what: What::Run(run.clone()),
        }
    }

    /// Objects of one kind in the principal's own tenant and, if it is bound to one, workspace: for
    /// creating and listing.
    pub fn own(principal: &Principal, what: What) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            workspace: principal.workspace.clone(),
            what,
        }
    }

    /// An object that belongs to the whole tenant.
    pub fn of_tenant(tenant: &TenantId, what: What) -> Self {
        Self {
            tenant: tenant.clone(),
            workspace: None,
            what,
        }
    }
}

/// Why an action is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Not visible to this principal. The answer is the same as for an object that does not exist.
    #[error("nothing with this name exists here")]
    NotFound,
    /// The principal lacks a scope.
    #[error("this needs the scope {needs}; use a key that has it")]
    Scope {
        /// The scope.
        needs: Scope,
    },
}

impl Denied {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Scope { .. } => "insufficient_scope",
        }
    }
}

/// Decides whether a principal may perform an action on a resource.
///
/// Tenant and workspace are compared before the scope, so that a missing scope never discloses that
/// another tenant's resource exists.
///
/// # Errors
/// [`Denied::NotFound`] if the resource belongs to another tenant or workspace, or to the whole
/// tenant while the principal is bound to a workspace (workflows are shared and reachable from
/// each); [`Denied::Scope`] if the scope is missing.
pub fn authorise(principal: &Principal, action: Action, resource: &Resource) -> Result<(), Denied> {
    if principal.tenant != resource.tenant {
        return Err(Denied::NotFound);
    }
    let is_within = principal.workspace.is_none()
        || principal.workspace == resource.workspace
        || resource.what.is_shared_by_workspaces();
    if !is_within {
        return Err(Denied::NotFound);
    }
    let reaches = |only: &StreamId| resource.what == What::Run(only.clone());
    if !principal.run.as_ref().is_none_or(reaches) {
        return Err(Denied::NotFound);
    }
    let needs = action.scope();
    if principal.scopes.has(needs) {
        Ok(())
    } else {
        Err(Denied::Scope { needs })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::access::Scopes;

    fn principal(tenant: &str, workspace: Option<&str>, scopes: Scopes) -> Principal {
        Principal {
            tenant: tenant.into(),
            workspace: workspace.map(str::to_owned),
            run: None,
            id: "p".into(),
            issuer: None,
            scopes,
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
        }
    }

    fn run_of(tenant: &str, workspace: Option<&str>) -> Resource {
        Resource {
            tenant: tenant.into(),
            workspace: workspace.map(str::to_owned),
            what: What::Run("run-1".into()),
        }
    }

    #[test]
    fn another_tenants_resource_is_not_found_with_any_scope() {
        for scopes in [Scopes::Everything, Scopes::Only(BTreeSet::new())] {
            for action in Action::ALL {
                let principal = principal("a", None, scopes.clone());
                let result = authorise(&principal, action, &run_of("b", None));
                assert_eq!(result, Err(Denied::NotFound), "{action:?}");
            }
        }
    }

    #[test]
    fn each_action_needs_its_scope_and_no_other_does() {
        for action in Action::ALL {
            for scope in Scope::ALL {
                let principal = principal("a", None, Scopes::Only(BTreeSet::from([scope])));
                let result = authorise(&principal, action, &run_of("a", None));
                let expected = match action.scope() {
                    needs if needs == scope => Ok(()),
                    needs => Err(Denied::Scope { needs }),
                };
                assert_eq!(result, expected, "{action:?} with {scope}");
            }
        }
    }

    #[test]
    fn a_principal_of_a_run_reaches_it_alone() {
        let bound = Principal {
            run: Some("run-1".into()),
            ..principal("a", None, Scopes::Only(BTreeSet::from([Scope::RunsRead])))
        };
        let may = |resource: &Resource| authorise(&bound, Action::ReadRun, resource);
        assert_eq!(may(&run_of("a", None)), Ok(()));
        assert_eq!(may(&run_of("b", None)), Err(Denied::NotFound));
        let other = Resource::own(&bound, What::Run("run-2".into()));
        assert_eq!(may(&other), Err(Denied::NotFound));
        for what in [What::Runs, What::Workflows, What::Keys] {
            assert_eq!(may(&Resource::own(&bound, what)), Err(Denied::NotFound));
        }
        let cancel = authorise(&bound, Action::CancelRun, &run_of("a", None));
        let needs = Scope::RunsCancel;
        assert_eq!(cancel, Err(Denied::Scope { needs }));
    }

    #[test]
    fn a_workspace_principal_reaches_only_its_workspace() {
        let bound = principal("a", Some("w"), Scopes::Everything);
        let may = |resource: &Resource| authorise(&bound, Action::ReadRun, resource);
        assert_eq!(may(&run_of("a", Some("w"))), Ok(()));
        assert_eq!(may(&run_of("a", Some("v"))), Err(Denied::NotFound));
        assert_eq!(may(&run_of("a", None)), Err(Denied::NotFound));
        let whole = principal("a", None, Scopes::Everything);
        let result = authorise(&whole, Action::ReadRun, &run_of("a", Some("v")));
        assert_eq!(result, Ok(()));

        let tenant = TenantId::new("a");
        let of_tenant = |what| Resource::of_tenant(&tenant, what);
        let keys = authorise(&bound, Action::ManageKeys, &of_tenant(What::Keys));
        assert_eq!(keys, Err(Denied::NotFound));
        let workflows = authorise(&bound, Action::ReadWorkflows, &of_tenant(What::Workflows));
        assert_eq!(workflows, Ok(()));
        assert_eq!(may(&Resource::own(&bound, What::Runs)), Ok(()));
    }
}
