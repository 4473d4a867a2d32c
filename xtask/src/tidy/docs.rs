//! Rules for the form, the links and the commands of documents.

use super::Finding;
use super::tree::Tree;
use crate::COMMANDS;

const DECISIONS: &str = "docs/design/decisions/";
const SECTIONS: &[&str] = &["## Status", "## Context", "## Decision", "## Consequences"];

/// A decision record is `NNNN-title.md`, numbered without gaps, with its four sections.
pub(super) fn decision_records(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for (path, text) in tree.files() {
        let Some(name) = path.strip_prefix(DECISIONS) else {
            continue;
        };
        for section in SECTIONS {
            if !text.lines().any(|line| line == *section) {
                let message =
                    format!("no section `{section}`; see docs/design/decisions/template.md");
                findings.push(Finding::fail(path, None, message));
            }
        }
        if name == "template.md" {
            continue;
        }
        let number = name.split_once('-').and_then(|(digits, _)| {
            (digits.len() == 4)
                .then(|| digits.parse::<u32>().ok())
                .flatten()
        });
        match number {
            Some(number) if number == expected => expected += 1,
            Some(number) => {
                let message = format!("number {number:04} where {expected:04} is next; renumber");
                findings.push(Finding::fail(path, None, message));
                expected = number + 1;
            }
            None => {
                let message = "not a record's name; call it NNNN-title.md";
                findings.push(Finding::fail(path, None, message));
            }
        }
    }
    findings
}

/// A link into the project has a target.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, target) in link_targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains(':') {
                continue;
            }
            if resolve(folder, file).is_none_or(|file| !tree.has(&file)) {
                let message = format!("the link to {file} leads nowhere; correct or remove it");
                findings.push(Finding::fail(path, Some(line), message));
            }
        }
    }
    findings
}

fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            rest = after;
            if let (false, Some((target, _))) = (fenced, after.split_once(')')) {
                targets.push((index + 1, target));
            }
        }
    }
    targets
}

/// The path from the root for `link` in a file of `folder`; `None` if it leaves the project.
fn resolve(folder: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The commands in the README exist.
pub(super) fn readme_commands(tree: &Tree) -> Vec<Finding> {
    let path = "README.md";
    let mut findings = Vec::new();
    for (line, command) in shell_lines(tree.file(path).unwrap_or_default()) {
        if let Some(missing) = missing(tree, &command) {
            let message = format!("`{command}`: there is no {missing}; correct the line or add it");
            findings.push(Finding::fail(path, Some(line), message));
        }
    }
    findings
}

/// The commands in the fenced shell blocks; in a `console` block, the lines after `$ `.
fn shell_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut language = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() {
                None
            } else {
                Some(fence.trim())
            };
            continue;
        }
        let command = match language {
            Some("sh" | "bash" | "shell") => Some(line.trim_start_matches("$ ")),
            Some("console") => line.strip_prefix("$ "),
            _ => None,
        };
        if let Some(command) = command {
            let command = command.split(" #").next().unwrap_or_default().trim();
            lines.push((index + 1, command.to_owned()));
        }
    }
    lines
}

/// A file or subcommand in a command line that is missing from the tree.
fn missing(tree: &Tree, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let absent = match words.as_slice() {
        ["cargo", "xtask", name, ..] if !COMMANDS.iter().any(|known| known.name == *name) => {
            Some(format!("xtask command {name}"))
        }
        ["runwright", name, ..] if !name.starts_with('-') && !has_subcommand(tree, name) => {
            Some(format!("runwright command {name}"))
        }
        [script, ..] if script.contains('/') => {
            let file = script.trim_start_matches("./");
            let built = file.starts_with("target/");
            (!built && !script.starts_with('/') && !tree.has(file)).then(|| file.to_owned())
        }
        _ => None,
    };
    absent.or_else(|| {
        words
            .iter()
            .skip(1)
            .find(|word| {
                ["examples/", "docs/", "crates/"]
                    .iter()
                    .any(|f| word.starts_with(f))
                    && !tree.has(word)
            })
            .map(|word| (*word).to_owned())
    })
}

/// Whether the CLI's source declares a command of this name: clap derives it from a variant in
/// camel case, or it is written out.
fn has_subcommand(tree: &Tree, name: &str) -> bool {
    let variant: String = name
        .split('-')
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map_or(String::new(), |c| {
                c.to_uppercase().collect::<String>() + chars.as_str()
            })
        })
        .collect();
    let spelt = format!("\"{name}\"");
    tree.rust()
        .filter(|(path, _)| path.starts_with("crates/cli/src/"))
        .any(|(_, text)| {
            text.lines().any(|line| {
                let line = line.trim_start();
                let declared = line
                    .strip_prefix(variant.as_str())
                    .is_some_and(|rest| rest.starts_with(['(', '{', ',', ' ']));
                declared || line.contains(&spelt)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# T\n\n## Status\n\n## Context\n\n## Decision\n\n## Consequences\n";

    #[test]
    fn records_have_their_sections_and_numbers() {
        let tree = Tree::from([
            ("docs/design/decisions/0001-a.md", RECORD),
            ("docs/design/decisions/0002-b.md", RECORD),
            ("docs/design/decisions/template.md", RECORD),
        ]);
        assert_eq!(decision_records(&tree), []);
        let tree = Tree::from([
            (
                "docs/design/decisions/0001-a.md",
                "# T\n\n## Status\n\n## Context\n\n## Decision\n",
            ),
            ("docs/design/decisions/0003-b.md", RECORD),
            ("docs/design/decisions/notes.md", RECORD),
        ]);
        let found = decision_records(&tree);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].message.contains("## Consequences"));
        assert!(found[1].message.contains("0002 is next"));
    }

    #[test]
    fn links_lead_somewhere() {
        let tree = Tree::from([
            (
                "docs/a.md",
                "[b](b.md) [root](../README.md#top) [web](https://example.org/x) [t](#t)\n",
            ),
            (
                "docs/b.md",
                "[gone](gone.md) [out](../../x.md)\n```\n[code](no.md)\n```\n",
            ),
            ("README.md", "[docs](docs/)\n"),
        ]);
        let found: Vec<_> = links(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        assert_eq!(
            found,
            [
                ("docs/b.md".to_owned(), Some(1)),
                ("docs/b.md".to_owned(), Some(1))
            ]
        );
    }

    #[test]
    fn the_readme_names_only_commands_that_exist() {
        let cli = "enum Command {\n    Run(Run),\n    Completions { shell: Shell },\n}\n";
        let check = |readme: &str| {
            let tree = Tree::from([
                ("README.md", readme),
                (".ci/run", "#!/bin/sh\n"),
                ("crates/cli/src/main.rs", cli),
                ("examples/a.json", "{}\n"),
            ]);
            readme_commands(&tree).len()
        };
        assert_eq!(
            check("```sh\n.ci/run\ncargo xtask ci\nrunwright run examples/a.json\n```\n"),
            0
        );
        assert_eq!(
            check("```console\n$ runwright completions bash\nrunwright nonsense\n```\n"),
            0
        );
        assert_eq!(check("```sh\nrunwright walk\n```\n"), 1);
        assert_eq!(check("```sh\nrunwright run examples/b.json\n```\n"), 1);
        assert_eq!(check("```sh\ncargo xtask cj\n```\n"), 1);
        assert_eq!(check("```sh\n./scripts/go\n```\n"), 1);
        assert_eq!(check("text\n```json\nrunwright walk\n```\n"), 0);
    }
}
