//! Where secrets come from: the engine's environment and a folder of files.
//!
//! A reference is `env:NAME` or `file:NAME`. Workflows choose references, so each source gives
//! out only what its owner listed for the tenant, never whatever the engine happens to have.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use kernel::ids::TenantId;
use kernel::problem::quoted;
use kernel::run::NodeError;

use crate::nodes::Secrets;

/// Bytes of a secret file at most.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Which variables of the environment are secrets that may be given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNames {
    /// Those whose name begins with this.
    Prefix(String),
    /// These.
    Listed(BTreeSet<String>),
}

impl AllowedNames {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Prefix(prefix) => !prefix.is_empty() && name.starts_with(prefix.as_str()),
            Self::Listed(names) => names.contains(name),
        }
    }
}

/// Secrets of the engine's environment, for one tenant: `env:NAME`.
#[derive(Clone, Debug)]
pub struct EnvSecrets {
    tenant: TenantId,
    allowed: AllowedNames,
}

impl EnvSecrets {
    /// The variables a tenant may use.
    pub fn new(tenant: TenantId, allowed: AllowedNames) -> Self {
        Self { tenant, allowed }
    }
}

#[async_trait]
impl Secrets for EnvSecrets {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<String, NodeError> {
        let name = reference
            .strip_prefix("env:")
            .ok_or_else(|| unknown_kind(reference))?;
        if *tenant != self.tenant || !self.allowed.has(name) {
            let how = match *tenant == self.tenant {
                true => "allow its name where the engine is started: `--secret-env NAME`",
                // The environment is the host's own.
                false => "use `file:NAME`, a file of the folder that `--secrets DIR` names",
            };
            let text = format!("{} may not be used as a secret; {how}", quoted(reference));
            return Err(NodeError::new("secret_not_allowed", text).fatal());
        }
        std::env::var(name).map_err(|error| {
            let text = match error {
                std::env::VarError::NotPresent => "is not set",
                std::env::VarError::NotUnicode(_) => "is not UTF-8",
            };
            not_found(format!(
                "the variable of {} {text} for the engine",
                quoted(reference)
            ))
        })
    }
}

/// Secrets in files, for every tenant that has a folder of its name: `file:NAME` is the content
/// of `<folder>/<tenant>/<NAME>` without a line break at its end.
#[derive(Clone, Debug)]
pub struct FileSecrets {
    folder: PathBuf,
}

impl FileSecrets {
    /// The folder that holds a folder per tenant.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    fn path(&self, tenant: &TenantId, name: &str) -> Option<PathBuf> {
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !text.is_empty()
                && text.len() <= 200
                && !text.starts_with('.')
                && text.chars().all(plain)
        };
        let plain = is_plain(tenant.as_str()) && is_plain(name);
        plain.then(|| self.folder.join(tenant.as_str()).join(name))
    }
}

#[async_trait]
impl Secrets for FileSecrets {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<String, NodeError> {
        let name = reference
            .strip_prefix("file:")
            .ok_or_else(|| unknown_kind(reference))?;
        let path = self.path(tenant, name).ok_or_else(|| {
            let text = format!(
                "{} names no secret; after `file:` stands a file name of letters, digits, - _ .",
                quoted(reference)
            );
            NodeError::new("secret_not_found", text).fatal()
        })?;
        read(&path).await.map_err(|error| {
            let text = format!(
                "{} cannot be read: {error}; put it into the folder of secrets",
                quoted(reference)
            );
            not_found(text)
        })
    }
}

async fn read(path: &Path) -> std::io::Result<String> {
    let invalid = |text: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, text);
    let metadata = tokio::fs::metadata(path).await?;
    if !metadata.is_file() {
        return Err(invalid("it is no file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(invalid("it is longer than any secret"));
    }
    let mut text =
        String::from_utf8(tokio::fs::read(path).await?).map_err(|_| invalid("it is not UTF-8"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Several sources, told apart by how a reference begins.
#[derive(Clone, Default)]
pub struct SecretSources {
    sources: Vec<(&'static str, Arc<dyn Secrets>)>,
}

impl SecretSources {
    /// No source: every reference is refused.
    pub fn none() -> Self {
        Self::default()
    }

    /// These, and the environment's.
    pub fn with_env(mut self, env: EnvSecrets) -> Self {
        self.sources.push(("env:", Arc::new(env)));
        self
    }

    /// These, and a folder's.
    pub fn with_files(mut self, files: FileSecrets) -> Self {
        self.sources.push(("file:", Arc::new(files)));
        self
    }
}

#[async_trait]
impl Secrets for SecretSources {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<String, NodeError> {
        match self
            .sources
            .iter()
            .find(|(kind, _)| reference.starts_with(kind))
        {
            Some((_, source)) => source.resolve(tenant, reference).await,
            None => Err(unknown_kind(reference)),
        }
    }
}

fn unknown_kind(reference: &str) -> NodeError {
    let text = format!(
        "{} is no reference this engine can resolve; write env:NAME or file:NAME, and give the \
         engine a source of that kind",
        quoted(reference)
    );
    NodeError::new("secret_not_found", text).fatal()
}

fn not_found(text: String) -> NodeError {
    NodeError::new("secret_not_found", text).fatal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<String, NodeError>) -> String {
        result.expect_err("it is refused").code
    }

    #[tokio::test]
    async fn the_environment_gives_out_what_is_allowed_and_no_more() {
        // PATH is the one variable every test has.
        let local = TenantId::new("local");
        let listed =
            AllowedNames::Listed(BTreeSet::from(["PATH".to_owned(), "NOT_SET_X".to_owned()]));
        let env = EnvSecrets::new(local.clone(), listed);
        assert_eq!(
            env.resolve(&local, "env:PATH").await.ok(),
            std::env::var("PATH").ok()
        );
        assert_eq!(
            code(env.resolve(&local, "env:HOME").await),
            "secret_not_allowed"
        );
        assert_eq!(
            code(env.resolve(&"other".into(), "env:PATH").await),
            "secret_not_allowed"
        );
        assert_eq!(
            code(env.resolve(&local, "env:NOT_SET_X").await),
            "secret_not_found"
        );
        assert_eq!(code(env.resolve(&local, "PATH").await), "secret_not_found");
        let refused = env.resolve(&local, "env:HOME").await.unwrap_err();
        assert!(
            refused.message.contains("`--secret-env NAME`"),
            "{refused:?}"
        );
        let refused = env.resolve(&"other".into(), "env:PATH").await;
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("`--secrets DIR`"), "{refused:?}");
        let nothing = EnvSecrets::new(local.clone(), AllowedNames::Prefix(String::new()));
        assert_eq!(
            code(nothing.resolve(&local, "env:PATH").await),
            "secret_not_allowed"
        );
    }

    #[tokio::test]
    async fn files_are_those_of_the_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let local = TenantId::new("local");
        std::fs::create_dir(folder.path().join("local")).unwrap();
        std::fs::write(folder.path().join("local/token"), "s3cret\r\n").unwrap();
        std::fs::write(folder.path().join("outside"), "no").unwrap();
        let files = FileSecrets::new(folder.path());
        assert_eq!(files.resolve(&local, "file:token").await.unwrap(), "s3cret");
        for reference in [
            "file:../outside",
            "file:",
            "file:.",
            "file:gone",
            "file:a/b",
            "env:token",
        ] {
            assert_eq!(
                code(files.resolve(&local, reference).await),
                "secret_not_found",
                "{reference}"
            );
        }
        for tenant in ["..", ".", "", "other", "local/.."] {
            assert_eq!(
                code(files.resolve(&tenant.into(), "file:token").await),
                "secret_not_found"
            );
        }
    }

    #[tokio::test]
    async fn a_reference_goes_to_its_source() {
        let local = TenantId::new("local");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("local")).unwrap();
        std::fs::write(folder.path().join("local/token"), "s3cret").unwrap();
        let sources = SecretSources::none().with_files(FileSecrets::new(folder.path()));
        assert_eq!(
            sources.resolve(&local, "file:token").await.unwrap(),
            "s3cret"
        );
        assert_eq!(
            code(sources.resolve(&local, "env:PATH").await),
            "secret_not_found"
        );
        assert_eq!(
            code(SecretSources::none().resolve(&local, "x").await),
            "secret_not_found"
        );
    }
}
