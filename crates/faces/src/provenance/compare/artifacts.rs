//! Compares changes of files: by path, operation and content.

use std::collections::BTreeMap;

use super::super::document::{Artifact, Operation};
use super::super::hash;
use super::super::ladder::Level;
use super::drift::Difference;
use super::report::{FieldReport, Verdict};
use super::semantic::Undecided;
use super::text::Text;
use super::{Options, Side, semantic, shape};

const FIELD: &str = "outputs.artifacts_created";

/// One side with its list.
type Listed<'a, 'b> = (&'a Side<'b>, &'a [Artifact]);

pub(super) fn compare(a: Listed<'_, '_>, b: Listed<'_, '_>, options: &Options<'_>) -> FieldReport {
    let (one, other) = (by_path(a.1), by_path(b.1));
    let (mut level, mut verdict) = (Level::Identical, Verdict::Match);
    let mut differences = Vec::new();
    let mut note = |path: &str, what: &'static str, a: Option<&Artifact>, b: Option<&Artifact>| {
        let shown = |artifact: &Artifact| {
            serde_json::json!({
                "operation": artifact.operation, "hash": artifact.hash,
            })
        };
        differences.push(Difference {
            path: path.to_owned(),
            what,
            a: a.map(shown),
            b: b.map(shown),
        });
    };
    for (path, artifact) in &one {
        let Some(with) = other.get(path) else {
            (level, verdict) = (Level::Different, Verdict::Mismatch);
            note(path, "is on one side only", Some(artifact), None);
            continue;
        };
        if artifact.operation != with.operation {
            (level, verdict) = (Level::Different, Verdict::Mismatch);
            note(path, "another operation", Some(artifact), Some(with));
            continue;
        }
        let (found, said) = content((a.0, artifact), (b.0, with), path, options);
        if found != Level::Identical {
            let what = match found {
                Level::Equivalent => "other bytes with the same meaning",
                _ if said == Verdict::NeedsReview => "another text, which needs review",
                Level::SameShape => "the same shape with other values",
                _ => "another content",
            };
            note(path, what, Some(artifact), Some(with));
        }
        level = level.min(found);
        verdict = verdict.min(said);
    }
    for (path, artifact) in &other {
        if !one.contains_key(path) {
            (level, verdict) = (Level::Different, Verdict::Mismatch);
            note(path, "is on the other side only", None, Some(artifact));
        }
    }
    FieldReport {
        field: FIELD,
        level,
        verdict,
        is_empty: one.is_empty() && other.is_empty(),
        differences,
    }
}

fn by_path(artifacts: &[Artifact]) -> BTreeMap<&str, &Artifact> {
    let paths = artifacts.iter();
    paths
        .map(|artifact| (artifact.path.as_deref().unwrap_or(""), artifact))
        .collect()
}

/// Endings of files of prose.
const PROSE: [&str; 6] = ["md", "markdown", "txt", "rst", "adoc", ""];

fn ending(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}

/// The pairs of units of prose files that a reader has to judge.
pub(super) fn pairs_to_read(a: &Side<'_>, b: &Side<'_>, options: &Options<'_>) -> Vec<Undecided> {
    let list = |side: &Side<'_>| {
        let artifacts = &side.snapshot.outputs.artifacts_created;
        artifacts.clone().unwrap_or_default()
    };
    let (one, other) = (list(a), list(b));
    let other = by_path(&other);
    let mut pairs = Vec::new();
    for (path, artifact) in by_path(&one) {
        let hashes = (
            artifact.hash.as_deref(),
            other.get(path).and_then(|with| with.hash.as_deref()),
        );
        if let (Some(x), Some(y)) = hashes
            && PROSE.contains(&ending(path).as_str())
            && !hash::same(x, y)
            && let (Some(x), Some(y)) = (a.text(x), b.text(y))
        {
            pairs.extend(semantic::pairs_to_read(&x, &y, options));
        }
    }
    pairs
}

/// The agreement of the contents of one path.
fn content(
    a: (&Side<'_>, &Artifact),
    b: (&Side<'_>, &Artifact),
    path: &str,
    options: &Options<'_>,
) -> (Level, Verdict) {
    let differs = (Level::Different, Verdict::Mismatch);
    let hashes = (a.1.hash.as_deref(), b.1.hash.as_deref());
    let (Some(one), Some(other)) = hashes else {
        return match hashes {
            (None, None) => (Level::Identical, Verdict::Match),
            _ => differs,
        };
    };
    if hash::same(one, other) {
        return (Level::Identical, Verdict::Match);
    }
    // A deleted file's last content only matters for identity.
    if a.1.operation == Some(Operation::Deleted) {
        return differs;
    }
    let (Some(one), Some(other)) = (a.0.text(one), b.0.text(other)) else {
        return differs;
    };
    match ending(path).as_str() {
        format @ ("json" | "toml" | "yaml" | "yml") => match (
            shape::in_format(format, &one),
            shape::in_format(format, &other),
        ) {
            (Some(one), Some(other))
                if hash::canonical_json(&one) == hash::canonical_json(&other) =>
            {
                (Level::Equivalent, Verdict::Match)
            }
            (Some(one), Some(other)) if shape::same_value(&one, &other) => {
                (Level::SameShape, Verdict::Mismatch)
            }
            _ => differs,
        },
        prose if PROSE.contains(&prose) => {
            let (one, other) = (Text::new(&one), Text::new(&other));
            let meaning = semantic::compare(&one, &other, options);
            let level = match (meaning.is_equivalent, shape::same(&one, &other)) {
                (true, _) => Level::Equivalent,
                (false, true) => Level::SameShape,
                (false, false) => Level::Different,
            };
            (level, meaning.verdict)
        }
        _ if shape::same_code(&one, &other) => (Level::SameShape, Verdict::Mismatch),
        _ => differs,
    }
}
