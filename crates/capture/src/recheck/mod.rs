//! Looks through snapshots that are kept for secrets which the rules of now would have taken out, and
//! puts what they would have written in their place ([`mend`]).
//!
//! A snapshot is cleaned again, with its calls, its replays and the contents it names, by what each
//! was cleaned by when it was captured. What comes out otherwise had a secret in it. No value that is
//! found is ever told: only where it stands, and of which kind it is.

mod contents;
pub mod mend;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use faces::provenance::calls::{Attempt, Call};
use faces::provenance::hash::written;
use kernel::digest::Digest;
use provenance::{Entry, Folder, FolderError, Kept, Redaction, named_contents, taken_out};
use serde::Serialize;
use serde_json::Value;

use crate::clean::Cleaner;
use contents::{Cleaned, Role, roles};
use places::differences;

/// How many values of each kind.
pub type Kinds = BTreeMap<String, u64>;

/// Something that has secrets in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What it is.
    pub of: Part,
    /// Where in it: a pointer, the step of a call, a file. Without secrets.
    pub at: String,
    /// The hash of the content, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How many values of each kind: `shape`, `field`, `header`, `url`, or the name of the variable
    /// whose value it is.
    pub kinds: Kinds,
}

/// A part of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The file of a snapshot.
    Document,
    /// The list of its calls.
    Calls,
    /// The record of its replays.
    Replays,
    /// A content that it names.
    Content,
    /// A file that is no snapshot, or a part of one that is not there.
    Leftover,
    /// A content that no snapshot names.
    Unnamed,
}

impl Part {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Calls => "calls",
            Self::Replays => "replays",
            Self::Content => "content",
            Self::Leftover => "leftover",
            Self::Unnamed => "unnamed",
        }
    }
}

/// What was found in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// The snapshot.
    pub snapshot_id: String,
    /// Its file within the folder.
    pub file: String,
    /// Whether it was captured without anything being taken out of it.
    pub is_unredacted: bool,
    /// What has secrets in it.
    pub found: Vec<Found>,
}

impl Looked {
    /// Whether it may be kept as it is.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty() && !self.is_unredacted
    }
}

/// What was found in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Each snapshot that was looked at.
    pub snapshots: Vec<Looked>,
    /// What belongs to none and has secrets in it.
    pub besides: Vec<Found>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.besides.is_empty() && self.snapshots.iter().all(Looked::is_clean)
    }
}

/// A snapshot as the rules of now would have it.
struct Recheck {
    found: Vec<Found>,
    raw: Value,
    calls: Vec<Value>,
    replays: Vec<Value>,
    /// Contents that are others then.
    changed: BTreeMap<Digest, Cleaned>,
    /// What was taken out of all of it.
    kinds: Kinds,
}

/// Which of the snapshots of a folder have secrets in them, of those that are meant, by what is known
/// as one now. Of all of them (`is_meant` is none) also what lies about.
///
/// # Errors
/// When something cannot be read.
pub fn look(
    folder: &Folder,
    redaction: &Redaction,
    is_meant: Option<&dyn Fn(&Entry) -> bool>,
) -> Result<Report, FolderError> {
    let listing = folder.list()?;
    let mut report = Report::default();
    let mut named = BTreeSet::new();
    for entry in &listing.entries {
        if !is_meant.is_none_or(|is_meant| is_meant(entry)) {
            continue;
        }
        let path = folder.snapshots().join(&entry.file);
        let kept = match folder.read(&path) {
            Ok(kept) => kept,
            // Pruned a moment ago.
            Err(FolderError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(error),
        };
        let (recheck, names) = recheck(folder, &kept, redaction)?;
        named.extend(names);
        report.snapshots.push(Looked {
            snapshot_id: redaction.fresh().text(&entry.snapshot_id),
            file: redaction.fresh().text(&entry.file),
            is_unredacted: entry.is_unredacted,
            found: recheck.found,
        });
    }
    if is_meant.is_none() {
        for broken in &listing.broken {
            let path = folder.snapshots().join(&broken.file);
            report
                .besides
                .extend(of_file(&path, Part::Leftover, redaction)?);
        }
        for digest in folder.kept_contents()?.difference(&named) {
            report.besides.extend(unnamed(folder, digest, redaction)?);
        }
    }
    Ok(report)
}

/// A snapshot that lies anywhere, by its file.
///
/// # Errors
/// When something of it cannot be read.
pub fn look_at(folder: &Folder, kept: &Kept, redaction: &Redaction) -> Result<Looked, FolderError> {
    let (recheck, _) = recheck(folder, kept, redaction)?;
    let snapshot = &kept.document.snapshot;
    let file = kept.path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Looked {
        snapshot_id: redaction.fresh().text(&snapshot.snapshot_id),
        file: redaction.fresh().text(&file),
        is_unredacted: snapshot.is_unredacted(),
        found: recheck.found,
    })
}

/// Cleans a snapshot again; gives every content that it names besides.
fn recheck(
    folder: &Folder,
    kept: &Kept,
    redaction: &Redaction,
) -> Result<(Recheck, BTreeSet<Digest>), FolderError> {
    let mut recheck = Recheck {
        found: Vec::new(),
        raw: kept.document.raw.clone(),
        calls: Vec::new(),
        replays: Vec::new(),
        changed: BTreeMap::new(),
        kinds: Kinds::new(),
    };
    let cleaner = Cleaner::new(redaction.fresh(), &[]);
    cleaner.value(&mut recheck.raw);
    recheck.tell(
        Part::Document,
        "",
        differences(&kept.document.raw, &recheck.raw, &cleaner),
    );
    let beside = |ending: &str| kept.path.with_extension(ending);
    let calls: Vec<Call> = match folder.calls(&kept.path) {
        Ok(calls) => calls,
        // What is no list of calls any more is still a text.
        Err(FolderError::Damaged { path, .. }) => {
            recheck.text(&path, Part::Calls, redaction)?;
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    for call in &calls {
        let before = value_of(call);
        let mut after = before.clone();
        cleaner.value(&mut after);
        let at = format!("step {}", call.seq + 1);
        recheck.tell(Part::Calls, &at, differences(&before, &after, &cleaner));
        recheck.calls.push(after);
    }
    let replays: Vec<Attempt> = match folder.attempts(&kept.path) {
        Ok(replays) => replays,
        Err(FolderError::Damaged { .. }) => {
            recheck.text(&beside("replays.jsonl"), Part::Replays, redaction)?;
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    for replay in &replays {
        let before = value_of(replay);
        let mut after = before.clone();
        cleaner.value(&mut after);
        let at = format!("replay {}", replay.attempt);
        recheck.tell(Part::Replays, &at, differences(&before, &after, &cleaner));
        recheck.replays.push(after);
    }
    let named = named_contents(&kept.document, &calls);
    let roles = roles(&kept.document, &calls);
    for digest in &named {
        let Some(bytes) = folder.content_as_it_is(digest)? else {
            continue;
        };
        let fallback = [(Role::Bytes, "named by the snapshot".to_owned())];
        let roles = roles.get(digest).map_or(&fallback[..], |roles| roles);
        if let Some(cleaned) = contents::cleaned(&bytes, roles, redaction) {
            let at = cleaner.text(&roles[0].1);
            recheck.told(Part::Content, at, Some(digest), cleaned.taken.clone());
            recheck.changed.insert(*digest, cleaned);
        }
    }
    Ok((recheck, named))
}

impl Recheck {
    /// Notes what differs at places of something.
    fn tell(&mut self, of: Part, prefix: &str, places: Vec<(String, Kinds)>) {
        for (at, kinds) in places {
            let at = format!("{prefix} {at}").trim().to_owned();
            self.told(of, at, None, kinds);
        }
    }

    fn told(&mut self, of: Part, at: String, hash: Option<&Digest>, kinds: Kinds) {
        for (kind, count) in &kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        self.found.push(Found {
            of,
            at,
            hash: hash.map(written),
            kinds,
        });
    }

    fn text(&mut self, path: &Path, of: Part, redaction: &Redaction) -> Result<(), FolderError> {
        self.found.extend(of_file(path, of, redaction)?);
        Ok(())
    }
}

fn value_of(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("a call or an attempt is always JSON")
}

/// What has secrets in it of a file that is looked at as a text.
fn of_file(path: &Path, of: Part, redaction: &Redaction) -> Result<Option<Found>, FolderError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let path = path.to_owned();
            return Err(FolderError::Io { path, error });
        }
    };
    let (clean, _) = redaction.fresh().sifted(&bytes);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok((clean != bytes).then(|| Found {
        of,
        at: redaction.fresh().text(&name),
        hash: None,
        kinds: taken_out(
            &String::from_utf8_lossy(&bytes),
            &String::from_utf8_lossy(&clean),
        ),
    }))
}

/// What has secrets in it of a content that nobody says anything of.
fn unnamed(
    folder: &Folder,
    digest: &Digest,
    redaction: &Redaction,
) -> Result<Option<Found>, FolderError> {
    let Some(bytes) = folder.content_as_it_is(digest)? else {
        return Ok(None);
    };
    let roles = [(contents::guessed(&bytes), String::new())];
    let cleaned = contents::cleaned(&bytes, &roles, redaction);
    Ok(cleaned.map(|cleaned| Found {
        of: Part::Unnamed,
        at: "named by no snapshot".to_owned(),
        hash: Some(written(digest)),
        kinds: cleaned.taken,
    }))
}

#[cfg(test)]
mod tests;
