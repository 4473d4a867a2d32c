//! Subjects of commits: `area: what changed, imperative`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;

/// The last commit before the rule.
const BEFORE: &str = "332fdaa2a062977dd9270408079c001f2b8dbf1d";
const MAX_CHARACTERS: usize = 72;

/// The subjects since the rule began; `None` in a checkout without that history.
pub(super) fn since_the_rule(root: &Path) -> Option<Vec<(String, String)>> {
    let output = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s"])
        .arg(format!("{BEFORE}..HEAD"))
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let subject = |line: &str| {
        let (commit, subject) = line.split_once(' ')?;
        Some((commit.to_owned(), subject.to_owned()))
    };
    Some(text.lines().filter_map(subject).collect())
}

/// Every subject has the form that `docs/style.md` requires.
pub(super) fn subjects(commits: &[(String, String)]) -> Vec<Finding> {
    commits
        .iter()
        .filter_map(|(commit, subject)| {
            let why = wrong(subject)?;
            let path = format!("commit {commit}");
            Some(Finding::fail(&path, None, why))
        })
        .collect()
}

fn wrong(subject: &str) -> Option<String> {
    let characters = subject.chars().count();
    if characters > MAX_CHARACTERS {
        return Some(format!(
            "the subject has {characters} characters; at most {MAX_CHARACTERS} are allowed"
        ));
    }
    let is_area = |area: &str| {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/, .".contains(c);
        !area.is_empty() && area.chars().all(allowed)
    };
    let has_form = subject
        .split_once(": ")
        .is_some_and(|(area, what)| is_area(area) && !what.trim().is_empty());
    (!has_form).then(|| "the subject is not `area: what changed, imperative`; reword it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_name_an_area_and_are_short() {
        assert_eq!(wrong("kernel: reject late answers by deadline"), None);
        assert_eq!(wrong("cli, docs: name the file"), None);
        assert!(wrong("Reject late answers").is_some());
        assert!(wrong("kernel:reject").is_some());
        assert!(wrong(&format!("kernel: {}", "x".repeat(70))).is_some());
    }
}
