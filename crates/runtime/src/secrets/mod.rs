//! Sources of secrets: the engine's environment and a folder of files.
//!
//! A reference is `secret://NAME` or just `NAME`, `file:NAME` or `env:NAME`. Workflows choose
//! references, so each source returns only secrets that its owner listed for the run's tenant,
//! workspace or principal, never everything the engine can read.

mod env;
mod files;
mod reference;

use std::sync::Arc;

use async_trait::async_trait;
use kernel::problem::quoted;
use kernel::run::NodeError;
use kernel::stream::Owner;

pub use env::{AllowedNames, EnvSecrets};
pub use files::{FileSecrets, StoredSecret};
pub use reference::Scope;
pub(crate) use reference::{misplaced_reference, wrong_reference};

use crate::ports::Secrets;
use reference::Reference;

/// Several sources, selected by the prefix of a reference.
#[derive(Clone, Default)]
pub struct SecretSources {
    env: Option<Arc<EnvSecrets>>,
    files: Option<Arc<FileSecrets>>,
}

impl SecretSources {
    /// No source: every reference is rejected.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the environment.
    pub fn with_env(mut self, env: EnvSecrets) -> Self {
        self.env = Some(Arc::new(env));
        self
    }

    /// Adds a folder.
    pub fn with_files(mut self, files: FileSecrets) -> Self {
        self.files = Some(Arc::new(files));
        self
    }
}

#[async_trait]
impl Secrets for SecretSources {
    async fn resolve(&self, owner: &Owner, reference: &str) -> Result<String, NodeError> {
        let missing = |what: &str| {
            let text = format!(
                "{} cannot be resolved: the engine has no {what}",
                quoted(reference)
            );
            NodeError::new("credential_not_found", text).lacking()
        };
        match Reference::parse(reference)? {
            Reference::Env(name) => match &self.env {
                Some(env) => env.resolve(owner, name),
                None => Err(missing("environment to take secrets from")),
            },
            Reference::Stored { scope, name } => match &self.files {
                Some(files) => files.resolve(owner, scope, name).await,
                None => Err(missing("folder of secrets; start it with --secrets DIR")),
            },
        }
    }

    fn scopes(&self) -> &'static [Scope] {
        match self.files {
            Some(_) => &Scope::ALL,
            None => &[],
        }
    }

    fn has(&self, name: &str) -> bool {
        self.files.as_ref().is_some_and(|files| files.has(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reference_goes_to_its_source() {
        let local = Owner::tenant("local");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("local")).unwrap();
        std::fs::write(folder.path().join("local/token"), "s3cret").unwrap();
        let sources = SecretSources::none().with_files(FileSecrets::new(folder.path()));
        for reference in [
            "token",
            "secret://token",
            "secret://tenant/token",
            "file:token",
        ] {
            let found = sources.resolve(&local, reference).await;
            assert_eq!(found.as_deref(), Ok("s3cret"), "{reference}");
        }
        let refused = [
            (&sources, "env:PATH", "credential_not_found"),
            (&SecretSources::none(), "token", "credential_not_found"),
            (
                &sources,
                "secret://run/token",
                "credential_scope_unsupported",
            ),
        ];
        for (sources, reference, code) in refused {
            let error = sources.resolve(&local, reference).await.unwrap_err();
            assert_eq!(error.code, code, "{reference}");
        }
        assert_eq!(sources.scopes().len(), 3);
        assert!(SecretSources::none().scopes().is_empty());
    }
}
