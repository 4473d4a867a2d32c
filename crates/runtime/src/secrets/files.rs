//! Secrets in a folder, one file each.
//!
//! ```text
//! DIR/TENANT/NAME                         everybody of the tenant
//! DIR/TENANT/.workspaces/WORKSPACE/NAME   everybody in the workspace
//! DIR/TENANT/.users/PRINCIPAL/NAME        runs of this principal
//! ```
//!
//! The folder of a workspace or principal whose name is not a valid file name, and of every
//! principal with an issuer, is named by `~` and a digest: `runwright secrets` prints it.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use kernel::digest::Digest;
use kernel::problem::quoted;
use kernel::run::NodeError;
use kernel::stream::Owner;

use super::reference::{Scope, is_plain};
use crate::redact::Redactor;

/// The largest secret file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Secrets in files, for every tenant that has a folder of its name. A file's content without a
/// final line break is the secret.
#[derive(Clone, Debug)]
pub struct FileSecrets {
    folder: PathBuf,
}

/// A stored secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    /// Its scope.
    pub scope: Scope,
    /// Its name.
    pub name: String,
}

impl FileSecrets {
    /// The folder that holds a folder per tenant.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder of a scope's secrets. `None` if the owner has no such scope.
    fn place(&self, owner: &Owner, scope: Scope) -> Option<PathBuf> {
        let tenant = owner.tenant.as_str();
        let tenant = is_plain(tenant).then(|| self.folder.join(tenant))?;
        match scope {
            Scope::Tenant => Some(tenant),
            Scope::Workspace => {
                let workspace = owner.workspace.as_deref()?;
                Some(tenant.join(".workspaces").join(folder_of(None, workspace)))
            }
            Scope::User => {
                let principal = owner.principal.as_deref()?;
                let folder = folder_of(owner.issuer.as_deref(), principal);
                Some(tenant.join(".users").join(folder))
            }
        }
    }

    /// The narrowest secret of a name, or that of a scope.
    pub(super) async fn resolve(
        &self,
        owner: &Owner,
        scope: Option<Scope>,
        name: &str,
    ) -> Result<String, NodeError> {
        let all = match &scope {
            Some(scope) => std::slice::from_ref(scope),
            None => &Scope::ALL,
        };
        for scope in all {
            let Some(place) = self.place(owner, *scope) else {
                continue;
            };
            match read(&place.join(name)).await {
                Ok(secret) => return Ok(secret),
                // A file in place of a folder on the path counts as missing.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(unreadable(name, &error)),
            }
        }
        let whose = scope.map_or("user, workspace or tenant", Scope::as_str);
        let text = format!(
            "no secret {} of the run's {whose}; add it to the folder of secrets",
            quoted(name)
        );
        Err(NodeError::new("credential_not_found", text).lacking())
    }

    /// Stores a secret atomically.
    ///
    /// # Errors
    /// An invalid name, a scope the owner does not have, or an error of the file system.
    pub fn put(&self, owner: &Owner, secret: &StoredSecret, value: &str) -> std::io::Result<()> {
        let file = self.file(owner, secret)?;
        // A value that cannot be redacted would be rejected when a workflow uses it.
        Redactor::default()
            .knowing(&secret.name, value)
            .map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
        let folder = file.parent().unwrap_or(&self.folder);
        create_private(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(value.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&file)?;
        std::fs::File::open(folder)?.sync_all()
    }

    /// Removes a secret. Returns whether it existed.
    ///
    /// # Errors
    /// As [`FileSecrets::put`].
    pub fn remove(&self, owner: &Owner, secret: &StoredSecret) -> std::io::Result<bool> {
        match std::fs::remove_file(self.file(owner, secret)?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether any tenant has a secret of this name for all its runs.
    pub(super) fn has(&self, name: &str) -> bool {
        let tenants = std::fs::read_dir(&self.folder).into_iter().flatten();
        is_plain(name)
            && tenants
                .flatten()
                .any(|tenant| tenant.path().join(name).is_file())
    }

    /// The secrets an owner's runs can use, by scope and name, without their values.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn list(&self, owner: &Owner) -> std::io::Result<Vec<StoredSecret>> {
        let mut found = Vec::new();
        for scope in Scope::ALL {
            let Some(place) = self.place(owner, scope) else {
                continue;
            };
            let entries = match std::fs::read_dir(&place) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().into_string().unwrap_or_default();
                if is_plain(&name) && entry.path().is_file() {
                    names.push(name);
                }
            }
            names.sort_unstable();
            found.extend(names.into_iter().map(|name| StoredSecret { scope, name }));
        }
        Ok(found)
    }

    fn file(&self, owner: &Owner, secret: &StoredSecret) -> std::io::Result<PathBuf> {
        if !is_plain(&secret.name) {
            return Err(invalid("a secret's name must be letters, digits, - _ ."));
        }
        let place = self.place(owner, secret.scope);
        let place = place.ok_or_else(|| invalid("the secret has no owner"))?;
        Ok(place.join(&secret.name))
    }
}

/// The folder of a workspace or principal. The prefix of a digest is not valid in a plain name.
fn folder_of(issuer: Option<&str>, name: &str) -> String {
    match issuer {
        None if is_plain(name) => name.to_owned(),
        issuer => {
            let text = format!("{}\0{name}", issuer.unwrap_or_default());
            format!("~{}", Digest::compute(text.as_bytes()))
        }
    }
}

#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

fn invalid(text: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, text)
}

async fn read(path: &Path) -> std::io::Result<String> {
    let metadata = tokio::fs::metadata(path).await?;
    if !metadata.is_file() {
        return Err(invalid("it is not a file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(invalid("it is too long for a secret"));
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

fn unreadable(name: &str, error: &std::io::Error) -> NodeError {
    let text = format!("the secret {} cannot be read: {error}", quoted(name));
    match error.kind() {
        // The content is not a valid secret: retrying will not help.
        ErrorKind::InvalidData => NodeError::new("credential_not_found", text).fatal(),
        _ => NodeError {
            host_lacks: true,
            ..NodeError::new("credential_unavailable", text)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(workspace: Option<&str>, principal: Option<&str>, issuer: Option<&str>) -> Owner {
        Owner {
            workspace: workspace.map(str::to_owned),
            principal: principal.map(str::to_owned),
            issuer: issuer.map(str::to_owned),
            ..Owner::tenant("acme")
        }
    }

    fn secret(scope: Scope) -> StoredSecret {
        StoredSecret {
            scope,
            name: "k".to_owned(),
        }
    }

    async fn found(files: &FileSecrets, owner: &Owner, scope: Option<Scope>) -> String {
        match files.resolve(owner, scope, "k").await {
            Ok(secret) => secret,
            Err(error) => error.code,
        }
    }

    #[tokio::test]
    async fn the_narrowest_secret_wins_and_stays_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSecrets::new(folder.path());
        let ada = owner(Some("w"), Some("ada"), None);
        for (scope, value) in [
            (Scope::Tenant, "of acme"),
            (Scope::Workspace, "all of w"),
            (Scope::User, "of ada"),
        ] {
            files.put(&ada, &secret(scope), value).unwrap();
        }
        let stored: Vec<Scope> = files.list(&ada).unwrap().iter().map(|s| s.scope).collect();
        assert_eq!(stored, Scope::ALL);
        for (who, expected) in [
            (ada.clone(), "of ada"),
            (owner(Some("w"), Some("bob"), None), "all of w"),
            (owner(None, Some("bob"), None), "of acme"),
            // A principal `ada` of an issuer is another one.
            (
                owner(Some("v"), Some("ada"), Some("https://idp")),
                "of acme",
            ),
            (Owner::tenant("other"), "credential_not_found"),
            (Owner::tenant(".."), "credential_not_found"),
            (owner(Some("../.users/ada"), None, None), "of acme"),
        ] {
            assert_eq!(found(&files, &who, None).await, expected, "{who:?}");
        }
        let bob = owner(None, Some("bob"), None);
        assert_eq!(
            found(&files, &bob, Some(Scope::User)).await,
            "credential_not_found"
        );
        assert_eq!(found(&files, &ada, Some(Scope::Tenant)).await, "of acme");
        assert!(files.remove(&ada, &secret(Scope::User)).unwrap());
        assert!(!files.remove(&ada, &secret(Scope::User)).unwrap());
        assert_eq!(found(&files, &ada, None).await, "all of w");
    }

    #[tokio::test]
    async fn people_of_an_issuer_have_secrets_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSecrets::new(folder.path());
        let ada = owner(None, Some("auth0|ada"), Some("https://idp"));
        files.put(&ada, &secret(Scope::User), "hers alone").unwrap();
        assert_eq!(found(&files, &ada, None).await, "hers alone");
        let other = owner(None, Some("auth0|ada"), Some("https://other"));
        assert_eq!(found(&files, &other, None).await, "credential_not_found");
        let nobody = owner(None, None, None);
        assert!(
            files
                .put(&nobody, &secret(Scope::User), "nobody's")
                .is_err()
        );
    }

    #[tokio::test]
    async fn a_file_is_read_without_its_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSecrets::new(folder.path());
        let acme = Owner::tenant("acme");
        std::fs::create_dir(folder.path().join("acme")).unwrap();
        std::fs::write(folder.path().join("acme/k"), "s3cret\r\n").unwrap();
        assert_eq!(found(&files, &acme, None).await, "s3cret");
        std::fs::write(folder.path().join("acme/k"), [0xff]).unwrap();
        assert_eq!(found(&files, &acme, None).await, "credential_not_found");
    }

    #[test]
    fn secrets_that_cannot_be_redacted_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSecrets::new(folder.path());
        let acme = Owner::tenant("acme");
        for value in ["short", &"x".repeat(MAX_FILE_BYTES as usize + 1)] {
            assert!(files.put(&acme, &secret(Scope::Tenant), value).is_err());
        }
        assert!(files.list(&acme).unwrap().is_empty());
    }
}
