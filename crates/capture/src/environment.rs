//! Which facts about the environment are recorded: an allow-list, never a deny-list.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use provenance::is_secret_variable;

use crate::clean::Cleaner;

/// The variable with the proxy's address for tools of a recorded command.
pub const CAPTURE_URL: &str = "RUNWRIGHT_CAPTURE_URL";

/// Variables that are written down.
const ALLOWED: [&str; 5] = ["LANG", "TZ", "CI", "RUST_LOG", "NODE_ENV"];

/// The query for uncommitted changes. It leaves out our own folders, and lists each file, since git
/// by default names only the folder of new files.
const STATUS: [&str; 7] = [
    "status",
    "--porcelain",
    "--untracked-files=all",
    "--",
    ":/",
    ":(exclude).aiwg/provenance",
    ":(exclude).runwright",
];

/// The git state of a working folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitState {
    /// The commit.
    pub commit: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// Whether there are uncommitted changes.
    pub dirty: Option<bool>,
}

/// Whether a variable is recorded: those for language and randomness, and explicitly requested
/// ones. The name of a secret overrides every list.
fn is_allowed(name: &str, also: &[String]) -> bool {
    let listed = ALLOWED.contains(&name)
        || name.starts_with("LC_")
        || name.ends_with("_SEED")
        || also.iter().any(|also| also == name);
    listed && !is_secret_variable(name)
}

/// The allowed variables of an environment, clean, with the home folder as `~`.
pub fn allowed(
    environment: &BTreeMap<String, String>,
    also: &[String],
    cleaner: &Cleaner,
) -> BTreeMap<String, String> {
    let home = environment.get("HOME").filter(|home| home.len() > 1);
    let chosen = environment
        .iter()
        .filter(|(name, _)| is_allowed(name, also));
    chosen
        .map(|(name, value)| {
            let mut value = cleaner.text(value);
            if let Some(home) = home
                && let Some(rest) = value.strip_prefix(home.as_str())
            {
                value = format!("~{rest}");
            }
            (name.clone(), value)
        })
        .collect()
}

/// The git state of a folder; empty outside a repository. Blocks.
pub fn git(root: &Path) -> GitState {
    if !root.ancestors().any(|folder| folder.join(".git").exists()) {
        return GitState::default();
    }
    let ask = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .current_dir(root)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    GitState {
        commit: ask(&["rev-parse", "HEAD"]),
        branch: ask(&["symbolic-ref", "--short", "HEAD"]),
        dirty: ask(&STATUS).map(|changes| !changes.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_recorded_and_never_secrets() {
        let environment = [
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("PYTHONHASHSEED", "1"),
            ("MY_SEED", "7"),
            ("HOME", "/users/ada"),
            ("PATH", "/bin"),
            ("SHOP_DIR", "/users/ada/shop"),
            ("SHOP_TOKEN", "correct-horse-9"),
            ("SECRET_SEED", "8"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = BTreeMap::from(environment);
        let also = ["SHOP_DIR".to_owned(), "SHOP_TOKEN".to_owned()];
        let allowed = allowed(
            &environment,
            &also,
            &Cleaner::new(provenance::Redaction::default(), &[]),
        );
        let expected = [
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("MY_SEED", "7"),
            ("SHOP_DIR", "~/shop"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(allowed, BTreeMap::from(expected));
    }
}
