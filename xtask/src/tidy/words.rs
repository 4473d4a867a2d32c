//! Forbidden words. They are written in two pieces here, so that this file keeps its own rules.

use super::Finding;
use super::tree::Tree;

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
];

/// The lock file names its registry by design.
const MAY_NAME_REGISTRIES: &[&str] = &["Cargo.lock"];

const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("proxy.golang", ".org"),
    concat!("rubygems", ".org"),
];

/// Remarks about the authors of the project, and names of assistants.
const ABOUT_ITSELF: &[&str] = &[
    concat!("AI-", "generated"),
    concat!("AI-", "written"),
    concat!("as an ", "AI"),
    concat!("language model ", "wrote"),
    concat!("helper ", "agent"),
    concat!("Chat", "GPT"),
    concat!("Cla", "ude"),
];

/// Path parts of files that may name assistants: presets of the coding-agent programs that people
/// run with the product.
const PRESETS: &[&str] = &["executor", "preset"];

/// Paths of one machine are useless on any other.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let starts_path = |line: &str, at: usize| {
        // Inside a longer path it is a folder of the project.
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || "-_./}*".contains(c))
    };
    search(tree, MACHINE_PATHS, starts_path, |word| {
        format!(
            "a path of one machine ({word}…); use a path from the project's root, or a variable"
        )
    })
}

/// Each machine configures its own package registries.
pub(super) fn registry_hosts(tree: &Tree) -> Vec<Finding> {
    let mut findings = search(
        tree,
        REGISTRY_HOSTS,
        |_, _| true,
        |word| format!("a package registry ({word}); name the package, not its address"),
    );
    findings.retain(|finding| !MAY_NAME_REGISTRIES.contains(&finding.path.as_str()));
    findings
}

/// The project describes its behaviour, not how it was written.
pub(super) fn about_itself(tree: &Tree) -> Vec<Finding> {
    let mut findings = search(
        tree,
        ABOUT_ITSELF,
        |_, _| true,
        |word| {
            format!("\"{word}\"; say what the thing does, or name it in an executor preset only")
        },
    );
    findings.retain(|finding| !PRESETS.iter().any(|preset| finding.path.contains(preset)));
    findings
}

fn search(
    tree: &Tree,
    words: &[&str],
    counts: impl Fn(&str, usize) -> bool,
    message: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            for word in words {
                if line.match_indices(word).any(|(at, _)| counts(line, at)) {
                    findings.push(Finding::fail(path, Some(index + 1), message(word)));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_path_is_not_a_folder_of_the_project() {
        let check = |text: String| machine_paths(&Tree::from([("a.md", text.as_str())])).len();
        assert_eq!(check(format!("see `{}x`\n", MACHINE_PATHS[3])), 1);
        assert_eq!(check(format!("{}x\n", MACHINE_PATHS[0])), 1);
        assert_eq!(check(format!("crates{}x\n", MACHINE_PATHS[3])), 0);
        assert_eq!(check("/etc/hosts\n".to_owned()), 0);
    }

    #[test]
    fn registries_are_named_in_the_lock_file_only() {
        let text = format!("source = \"{}\"\n", REGISTRY_HOSTS[0]);
        assert_eq!(
            registry_hosts(&Tree::from([("Cargo.lock", text.as_str())])),
            []
        );
        assert_eq!(
            registry_hosts(&Tree::from([("Cargo.toml", text.as_str())])).len(),
            1
        );
    }

    #[test]
    fn assistants_are_named_in_presets_only() {
        let text = format!("{}\n", ABOUT_ITSELF[6]);
        let preset = "crates/runtime/src/nodes/executor/presets.rs";
        assert_eq!(about_itself(&Tree::from([(preset, text.as_str())])), []);
        assert_eq!(
            about_itself(&Tree::from([("README.md", text.as_str())])).len(),
            1
        );
    }
}
