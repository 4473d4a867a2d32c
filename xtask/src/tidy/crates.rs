//! Rules for every crate, and for stores.

use super::Finding;
use super::lines::has_word;
use super::tree::Tree;

/// Crates that keep events without interpreting them.
const STORES: &[&str] = &["crates/store-sqlite/src/", "crates/store-postgres/src/"];

/// The one crate with unsafe code (decision 36).
const UNSAFE: &str = "crates/seccomp-notify";

/// Signs of an event kind in a store.
const EVENT_NAMES: &[&str] = &[
    "\"run.",
    "\"node.",
    "\"interrupt.",
    "\"channel.",
    "\"replay.",
    "\"runwright.",
    "kernel::run",
    "RunStarted",
    "RunCompleted",
    "RunFailed",
    "NodeStarted",
    "NodeCompleted",
    "NodeFailed",
];

/// Folder and text of each member's manifest.
fn members(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files().filter_map(|(path, text)| {
        let folder = path.strip_suffix("/Cargo.toml")?;
        text.contains("[package]").then_some((folder, text))
    })
}

/// A crate's documentation begins with its purpose.
pub(super) fn crate_docs(tree: &Tree) -> Vec<Finding> {
    members(tree)
        .filter_map(|(folder, _)| {
            let roots = ["lib.rs", "main.rs"].map(|file| format!("{folder}/src/{file}"));
            let Some((path, text)) = roots
                .iter()
                .find_map(|path| tree.file(path).map(|text| (path, text)))
            else {
                let message = "a crate without src/lib.rs or src/main.rs; add one";
                return Some(Finding::fail(folder, None, message));
            };
            (!text.starts_with("//! ")).then(|| {
                let message = "the first line is not `//! …`; say what the crate is for";
                Finding::fail(path, Some(1), message)
            })
        })
        .collect()
}

/// A crate has one name everywhere.
pub(super) fn folder_names(tree: &Tree) -> Vec<Finding> {
    members(tree)
        .filter_map(|(folder, manifest)| {
            let expected = folder.rsplit('/').next().unwrap_or(folder);
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = "))?;
            let name = name.trim_matches('"');
            (name != expected).then(|| {
                let message = format!("package {name} in folder {expected}; rename one of them");
                Finding::fail(&format!("{folder}/Cargo.toml"), None, message)
            })
        })
        .collect()
}

/// A crate with lints of its own could allow unsafe code.
pub(super) fn shared_lints(tree: &Tree) -> Vec<Finding> {
    // Others do not belong to the workspace: examples, and a fuzzer.
    let is_crate = |folder: &str| {
        folder
            .strip_prefix("crates/")
            .is_some_and(|it| !it.contains('/'))
    };
    let is_own = |folder: &str| matches!(folder, "bench" | "xtask") || is_crate(folder);
    let others = members(tree).filter(|(folder, _)| is_own(folder) && *folder != UNSAFE);
    let own = others.filter(|(_, manifest)| !manifest.contains("[lints]\nworkspace = true"));
    let message = "without the lints of the workspace, which forbid unsafe code; add `[lints]` with \
                   `workspace = true`";
    own.map(|(folder, _)| Finding::fail(&format!("{folder}/Cargo.toml"), None, message))
        .collect()
}

/// A store that names an event interprets it.
pub(super) fn events_in_stores(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        if !STORES.iter().any(|store| path.starts_with(store)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for name in EVENT_NAMES.iter().filter(|name| has_word(line, name)) {
                let message = format!(
                    "{name} in a store; give the batch a column for what the store must act on"
                );
                findings.push(Finding::fail(path, Some(index + 1), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_docs_come_first() {
        let check = |path, text| {
            let tree = Tree::from([
                ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
                (path, text),
            ]);
            crate_docs(&tree).len()
        };
        assert_eq!(check("crates/a/src/lib.rs", "//! What it is for.\n"), 0);
        assert_eq!(check("crates/a/src/main.rs", "//! What it is for.\n"), 0);
        assert_eq!(check("crates/a/src/lib.rs", "use x;\n"), 1);
        assert_eq!(check("crates/a/src/other.rs", "//! Not the root.\n"), 1);
    }

    #[test]
    fn a_folder_is_named_like_its_package() {
        let check = |name: &str| {
            let manifest = format!("[package]\nname = \"{name}\"\n");
            folder_names(&Tree::from([(
                "crates/store-sqlite/Cargo.toml",
                manifest.as_str(),
            )]))
            .len()
        };
        assert_eq!(check("store-sqlite"), 0);
        assert_eq!(check("sqlite"), 1);
    }

    #[test]
    fn one_crate_has_lints_of_its_own() {
        let check = |path, lints: &str| {
            let manifest = format!("[package]\nname = \"a\"\n{lints}");
            shared_lints(&Tree::from([(path, manifest.as_str())])).len()
        };
        let (shared, own) = ("[lints]\nworkspace = true\n", "[lints.rust]\n");
        assert_eq!(check("crates/a/Cargo.toml", shared), 0);
        assert_eq!(check("crates/a/Cargo.toml", own), 1);
        assert_eq!(check("crates/seccomp-notify/Cargo.toml", own), 0);
    }

    #[test]
    fn a_store_names_no_event() {
        let check = |path, text| events_in_stores(&Tree::from([(path, text)])).len();
        let path = "crates/store-sqlite/src/append.rs";
        assert_eq!(check(path, "if kind == \"run.started\" {}\n"), 1);
        assert_eq!(check(path, "Event::RunStarted { .. } => {}\n"), 1);
        assert_eq!(check(path, "use kernel::run::Event;\n"), 1);
        assert_eq!(check(path, "let runs = count();\n"), 0);
        assert_eq!(
            check("crates/kernel/src/run/event.rs", "\"run.started\"\n"),
            0
        );
    }
}
