//! Whether a snapshot is what was written, and whole.

use std::sync::LazyLock;

use faces::provenance::calls;
use faces::provenance::hash::written;
use faces::provenance::read::Document;
use faces::provenance::schema::SCHEMA;
use faces::provenance::seal::{self, Finding};
use jsonschema::Validator;
use serde::Serialize;

use crate::contents;
use crate::folder::{Folder, FolderError, Kept};

/// How files of others are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Ids that are no UUIDs and placeholders in the place of hashes are told of.
    Lenient,
    /// They are errors.
    Strict,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The snapshot.
    pub snapshot_id: String,
    /// Whether nothing is wrong with it.
    pub is_valid: bool,
    /// How many contents it takes to replay it.
    pub contents: usize,
    /// What is wrong, and what is odd.
    pub findings: Vec<Finding>,
}

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).expect("the schema is one")
});

/// What is wrong or odd with a document by itself: held against the schema and its own hashes.
pub(crate) fn of_document(document: &Document) -> Vec<Finding> {
    let mut findings = seal::check(document);
    for error in VALIDATOR.iter_errors(&document.raw) {
        let path = error.instance_path().to_string();
        let is_told = findings
            .iter()
            .any(|known| known.path == path && !known.is_error);
        if !is_told {
            // The message of the validator repeats the value, which may be anything.
            let keyword = error.schema_path().to_string();
            let message = format!("this breaks the schema at {keyword}");
            findings.push(Finding::error(path, "schema", message));
        }
    }
    findings
}

impl Folder {
    /// Holds a snapshot against the schema, its own hashes, its calls, its replays and the contents
    /// it names.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn verify(&self, kept: &Kept, strictness: Strictness) -> Result<Verified, FolderError> {
        let document = &kept.document;
        let mut findings = of_document(document);
        if strictness == Strictness::Strict {
            for finding in &mut findings {
                finding.is_error |= matches!(finding.code, "id_not_uuid" | "hash_malformed");
            }
        }
        let contents = self.check_beside(kept, &mut findings)?;
        Ok(Verified {
            snapshot_id: document.snapshot.snapshot_id.clone(),
            is_valid: !findings.iter().any(|finding| finding.is_error),
            contents,
            findings,
        })
    }

    /// Looks at what lies beside a snapshot: its calls, its replays, and the contents it needs or
    /// names. How many contents it needs.
    fn check_beside(&self, kept: &Kept, findings: &mut Vec<Finding>) -> Result<usize, FolderError> {
        let replays = self.attempts(&kept.path).map(|_| ());
        told(replays, "replays_damaged", findings)?;
        let Some(calls) = told(self.calls(&kept.path), "calls_damaged", findings)? else {
            return Ok(0);
        };
        findings.extend(calls::check(&kept.document.snapshot, &calls));
        let needed = contents::needed(&kept.document, &calls);
        for digest in contents::named(&kept.document, &calls).union(&needed) {
            let hash = written(digest);
            match self.blob(&hash) {
                Ok(_) => {}
                Err(FolderError::NoBlob { .. }) if !needed.contains(digest) => {}
                Err(FolderError::NoBlob { .. }) => {
                    let message = "a content that a replay needs is not kept here";
                    findings.push(Finding::error(hash, "content_missing", message));
                }
                Err(FolderError::Damaged { .. }) => {
                    let message = "a content is not what its hash says";
                    findings.push(Finding::error(hash, "content_damaged", message));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(needed.len())
    }
}

/// What was read of a file beside a snapshot; where it is damaged, that is told.
fn told<T>(
    read: Result<T, FolderError>,
    code: &'static str,
    findings: &mut Vec<Finding>,
) -> Result<Option<T>, FolderError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(FolderError::Damaged { path, why }) => {
            let name = path.file_name().unwrap_or_default();
            findings.push(Finding::error(name.to_string_lossy(), code, why));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
