//! Whether a snapshot is what was written, and whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use faces::provenance::document::Content;
use faces::provenance::read::Document;
use faces::provenance::schema::SCHEMA;
use faces::provenance::seal::{self, Finding};
use jsonschema::Validator;
use serde::Serialize;

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
    /// How many contents its calls name.
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
    /// Holds a snapshot against the schema, its own hashes, its calls and the contents they name.
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
        let contents = self.check_calls(kept, &mut findings)?;
        Ok(Verified {
            snapshot_id: document.snapshot.snapshot_id.clone(),
            is_valid: !findings.iter().any(|finding| finding.is_error),
            contents,
            findings,
        })
    }

    /// Looks at each content that a call names, and at those that the snapshot names and the
    /// folder has.
    fn check_calls(&self, kept: &Kept, findings: &mut Vec<Finding>) -> Result<usize, FolderError> {
        let beside = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let calls = match self.calls(&kept.path) {
            Ok(calls) => calls,
            Err(FolderError::Damaged { path, why }) => {
                findings.push(Finding::error(beside(&path), "calls_damaged", why));
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let extensions = kept.document.snapshot.extensions.as_ref();
        let content = extensions
            .and_then(|more| more.content)
            .unwrap_or(Content::Full);
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        if content == Content::Full {
            for call in &calls {
                needed.extend(call.contents());
            }
        }
        let named = kept
            .document
            .snapshot
            .hashes()
            .filter(|hash| self.has_blob(hash));
        let all: BTreeSet<&str> = needed.iter().copied().chain(named).collect();
        for hash in all {
            match self.blob(hash) {
                Ok(_) => {}
                Err(FolderError::NoBlob { .. }) => {
                    let message = "a content that a call names is not kept here";
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
