//! A ratchet on constructions that `docs/style.md` asks to avoid: how often they occur in comments
//! and documents may only fall.

use std::collections::BTreeMap;
use std::path::Path;

use super::Finding;
use super::tree::Tree;

/// The counts so far: one `part count` per line.
const RATCHET: &str = "xtask/prose.txt";

/// Words and phrases in lower case, each found where it is not part of a longer word.
const PHRASES: &[&str] = &[
    "nobody",
    "somebody",
    "stands",
    "stood",
    "whoever",
    "whatever",
    "wherever",
    "tells of",
    "told of",
    "says of",
    "said of",
    "hears of",
    "heard of",
    "behind",
    "goes on",
    "go on",
    "went on",
    "is no",
    "are no",
    "any more",
    "no more",
    "beside",
    "so many",
    "as many as",
    "comes to",
    "comes of",
    "came to",
    "came of",
];

/// Words that open a sentence in the place of a noun.
const OPENINGS: &[&str] = &["What", "Of"];

/// No part of the project has more of these constructions than the ratchet says.
pub(super) fn ratchet(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.file(RATCHET) else {
        return Vec::new();
    };
    let allowed = parse(text);
    let mut findings = Vec::new();
    for (part, count) in counts(tree) {
        let allowed = allowed.get(&part).copied().unwrap_or(0);
        if count > allowed {
            findings.push(Finding::fail(
                RATCHET,
                None,
                format!(
                    "{part} has {count} constructions that docs/style.md asks to avoid, {allowed} \
                     are allowed; rewrite the new ones ({})",
                    first_phrases()
                ),
            ));
        }
    }
    findings
}

/// Writes the counts where they have fallen.
pub(super) fn bless(root: &Path, tree: &Tree) -> Result<(), String> {
    let before = tree.file(RATCHET).map(parse);
    let mut text = String::new();
    for (part, count) in counts(tree) {
        let allowed = match &before {
            Some(before) => before.get(&part).copied().unwrap_or(0).min(count),
            None => count,
        };
        text.push_str(&format!("{part} {allowed}\n"));
    }
    std::fs::write(root.join(RATCHET), text)
        .map_err(|error| format!("cannot write {RATCHET}: {error}"))
}

fn parse(text: &str) -> BTreeMap<String, usize> {
    text.lines()
        .filter_map(|line| {
            let (part, count) = line.rsplit_once(' ')?;
            Some((part.to_owned(), count.parse().ok()?))
        })
        .collect()
}

fn first_phrases() -> String {
    format!("such as \"{}\"", PHRASES[..4].join("\", \""))
}

/// How often the constructions occur, by part of the project.
fn counts(tree: &Tree) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (path, text) in tree.files() {
        if path == "docs/style.md" || path.ends_with("tidy/prose.rs") {
            continue;
        }
        let prose: Vec<&str> = if path.ends_with(".rs") {
            text.lines().filter_map(comment).collect()
        } else if path.ends_with(".md") {
            text.lines().collect()
        } else {
            continue;
        };
        *counts.entry(part(path)).or_default() += count(&prose.join("\n"));
    }
    counts
}

/// A crate with its tests, or the top folder.
fn part(path: &str) -> String {
    let mut folders = path.split('/');
    match (folders.next(), folders.next(), folders.next()) {
        (Some("crates"), Some(name), Some(_)) => format!("crates/{name}"),
        (Some(top), Some(_), _) => top.to_owned(),
        _ => "pages".to_owned(),
    }
}

fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']))
}

fn count(prose: &str) -> usize {
    let words: Vec<&str> = prose
        .split(|c: char| c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    let plain = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.to_lowercase()
    };
    let lower: Vec<String> = words.iter().map(|word| plain(word)).collect();
    let phrases: usize = PHRASES
        .iter()
        .map(|phrase| {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            let is_one = |at: &&[String]| at.iter().zip(&phrase).all(|(a, b)| a == b);
            lower.windows(phrase.len()).filter(is_one).count()
        })
        .sum();
    let opens = |at: usize| at == 0 || words[at - 1].ends_with(['.', ':', ';']);
    let openings = (0..words.len())
        .filter(|at| OPENINGS.contains(&words[*at]) && opens(*at))
        .count();
    phrases + openings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_counted_as_whole_words() {
        assert_eq!(count("Nobody stands behind it."), 3);
        assert_eq!(count("It goes\non, and is no more."), 3);
        assert_eq!(count("It understands that a notebook is nothing."), 0);
        assert_eq!(count("What is kept. Of those, what is left"), 2);
    }

    #[test]
    fn counts_may_only_fall() {
        let source = "/// Nobody knows.\nfn nobody() {}\n";
        let tree = |allowed| Tree::from([("crates/a/src/lib.rs", source), (RATCHET, allowed)]);
        assert_eq!(ratchet(&tree("crates/a 1\n")), []);
        assert_eq!(ratchet(&tree("crates/a 2\n")), []);
        assert_eq!(ratchet(&tree("crates/a 0\n")).len(), 1);
        assert_eq!(ratchet(&tree("crates/b 9\n")).len(), 1);
    }
}
