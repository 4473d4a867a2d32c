//! Programs that definitions run on this machine: who may run them, and their confinement.
//!
//! A definition of the operator runs its programs as the engine's user. A definition of a tenant
//! runs them only if the operator allowed that tenant by name, and confined: the kernel denies them
//! every folder but their own, the network, and other processes ([`Confinement`]), and the
//! supervisor keeps them within [`Bounds`].

mod confinement;
#[cfg(target_os = "linux")]
mod linux;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel::ids::{TenantId, file_name};
use kernel::run::NodeError;
use kernel::stream::PutBy;

pub use confinement::{
    Bounds, Confinement, Files, Mechanism, Network, NotConfined, confine, confinement,
    confines_network,
};
#[cfg(target_os = "linux")]
pub use linux::{Observation, confine_observed};
pub(crate) use watch::Crowd;

/// The folder of the tenants' folders, below the data folder.
const FOLDERS: &str = "tenants";
/// The temporary folder of a tenant's programs, below its folder.
const TEMPORARY: &str = "tmp";

/// The treatment of allowed tenants' programs if the kernel cannot confine them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Reject them.
    #[default]
    Refuse,
    /// Run them as the engine's user, with all its rights.
    Unconfined,
}

/// The operator's rules for programs.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// The data folder of the store, which contains the tenants' folders.
    pub data: PathBuf,
    /// Tenants whose definitions may run programs.
    pub tenants: BTreeSet<TenantId>,
    /// The treatment of their programs if the kernel cannot confine them.
    pub fallback: Fallback,
    /// Files and folders, in addition to the data folder, that hold secrets of the engine.
    pub secret: Vec<PathBuf>,
    /// The project folder of the operator.
    pub project: PathBuf,
    /// The tenant whose requests are the operator's own.
    pub own: Option<TenantId>,
}

/// Why a definition may not run programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The operator did not allow it.
    #[error(
        "this workflow runs programs on the server's machine, and the operator does not allow this \
         for workflows of the tenant {0}; the operator can serve the workflow from a folder \
         (`runwright serve --workflows DIR`) or allow the tenant (`--allow-programs {0}`)"
    )]
    NotAllowed(TenantId),
    /// A node of a session runs programs of the operator's project.
    #[error(
        "nodes of sessions run only in the operator's project, not for a workflow of a tenant; ask \
         the operator to play the template"
    )]
    OfSession,
    /// The kernel cannot confine them.
    #[error(
        "this workflow runs programs, and this machine cannot confine them: {0}; the operator can \
         run them unconfined with --allow-unconfined-programs"
    )]
    NotConfined(NotConfined),
}

impl Refused {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) | Self::OfSession => "programs_not_allowed",
            Self::NotConfined(_) => "programs_not_confined",
        }
    }
}

impl From<Refused> for NodeError {
    fn from(refused: Refused) -> Self {
        Self::new(refused.code(), refused.to_string()).fatal()
    }
}

/// The execution of a tenant's program.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    /// The tenant's folder, in which it works.
    pub folder: PathBuf,
    /// Its confinement; `None` if the operator allows it to run unconfined.
    pub confinement: Option<Confinement>,
}

impl Confined {
    /// Its initial environment.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        let folder = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            ("HOME", folder(self.folder.clone())),
            ("LANG", "C.UTF-8".to_owned()),
            ("PATH", PATH.to_owned()),
            ("TMPDIR", folder(self.folder.join(TEMPORARY))),
        ]
    }
}

/// The search path for programs of tenants.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables of a tenant's program, in addition to those its definition sets.
pub(crate) const VARIABLES: [&str; 4] = ["HOME", "LANG", "PATH", "TMPDIR"];

impl Programs {
    /// The author of a definition that a tenant registers over the API.
    pub fn put_by(&self, tenant: &TenantId) -> PutBy {
        match &self.own {
            Some(own) if own == tenant => PutBy::Operator,
            _ => PutBy::Tenant,
        }
    }

    /// Checks that a definition of a tenant may run programs.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, tenant: &TenantId, put_by: PutBy) -> Result<(), Refused> {
        if put_by == PutBy::Operator {
            return Ok(());
        }
        if !self.tenants.contains(tenant) {
            return Err(Refused::NotAllowed(tenant.clone()));
        }
        self.confinable().map(drop)
    }

    /// Whether the kernel can confine here; false if it cannot and the operator accepts that.
    fn confinable(&self) -> Result<bool, Refused> {
        match (confinement(), self.fallback) {
            (Ok(_), _) => Ok(true),
            (Err(_), Fallback::Unconfined) => Ok(false),
            (Err(why), Fallback::Refuse) => Err(Refused::NotConfined(why)),
        }
    }

    /// The execution of an attempt's program; `None` for the operator's.
    pub(crate) fn permit(
        &self,
        tenant: &TenantId,
        put_by: PutBy,
    ) -> Result<Option<Confined>, NodeError> {
        self.check(tenant, put_by)?;
        if put_by == PutBy::Operator {
            return Ok(None);
        }
        let folder = self.folder(tenant).map_err(|error| {
            let text = format!("the folder of the tenant cannot be used: {error}");
            NodeError::new("working_directory_unusable", text)
        })?;
        let confinement = self.confinable()?.then(|| Confinement {
            files: Files::Folder {
                folder: folder.clone(),
                hidden: self.hidden(&[&self.project]),
            },
            network: Network::Denied,
            bounds: Some(Bounds::OF_TENANTS),
        });
        Ok(Some(Confined {
            folder,
            confinement,
        }))
    }

    /// Checks that a node of a session may run for an attempt.
    pub(crate) fn permit_session(&self, put_by: PutBy) -> Result<(), NodeError> {
        match put_by {
            PutBy::Operator => Ok(()),
            PutBy::Tenant => Err(Refused::OfSession.into()),
        }
    }

    /// The execution of a server of tools for an attempt. The operator chose its program and may
    /// have named the tenant in its configuration; the program sees neither the data folder nor the
    /// engine.
    pub(crate) fn permit_server(
        &self,
        tenant: &TenantId,
        put_by: PutBy,
        named: bool,
    ) -> Result<Option<Confinement>, NodeError> {
        if put_by == PutBy::Operator {
            return Ok(None);
        }
        if !named {
            self.check(tenant, put_by)?;
        }
        Ok(self.confinable()?.then(|| Confinement {
            files: Files::AllBut(self.hidden(&[])),
            network: Network::Open,
            bounds: Some(Bounds::OF_TENANTS),
        }))
    }

    fn hidden(&self, more: &[&Path]) -> Vec<PathBuf> {
        let own = [self.data.as_path()].into_iter();
        let all = own.chain(self.secret.iter().map(PathBuf::as_path));
        let all = all.chain(more.iter().copied());
        // A missing path is hidden by its given name.
        all.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()))
            .collect()
    }

    /// The folder of a tenant, created if it does not exist.
    fn folder(&self, tenant: &TenantId) -> std::io::Result<PathBuf> {
        use std::os::unix::fs::DirBuilderExt;
        let folder = self.data.join(FOLDERS).join(file_name(tenant.as_str()));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder.join(TEMPORARY))?;
        folder.canonicalize()
    }
}
