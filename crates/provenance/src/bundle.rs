//! A snapshot with its sidecar files as one JSON document, for export.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use faces::provenance::calls::{self, Attempt, Call};
use faces::provenance::hash::{self, digest};
use faces::provenance::read::{self, Document};
use faces::provenance::seal::{self, Finding};
use kernel::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contents;
use crate::folder::{Beside, Folder, FolderError, Imported, Kept, Writer};
use crate::signature::Signature;
use crate::verify::of_document;

/// Maximum bytes of contents in a bundle.
pub const MAX_BUNDLED: usize = 32 << 20;

/// A snapshot that travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The document as in its file.
    pub snapshot: Value,
    /// The calls of its execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Attempts to replay it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<Attempt>,
    /// The signature of its seal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// The contents it names, by their hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contents: BTreeMap<String, Bytes>,
}

/// Some bytes in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bytes {
    /// They are UTF-8.
    Text(String),
    /// They may be anything.
    Base64(String),
}

/// Why a bundle cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its contents are too large for one document.
    #[error(
        "the contents of the snapshot have more than {MAX_BUNDLED} bytes; copy its files \
             instead"
    )]
    TooLarge,
    /// The content does not match its seal.
    #[error("the snapshot was changed after it was written: {}", .0.first().map_or("", |one| &one.message))]
    Damaged(Vec<Finding>),
    /// Another snapshot has its id here.
    #[error("another snapshot has this id already")]
    IdTaken,
}

impl Bytes {
    fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(other) => Self::Base64(STANDARD.encode(other.into_bytes())),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

impl Folder {
    /// Returns a snapshot with its sidecar files and the contents it names, as far as they are
    /// kept.
    ///
    /// # Errors
    /// When a file cannot be read, a content is damaged, or the bundle is too large.
    pub fn bundle(&self, kept: &Kept) -> Result<Bundle, BundleError> {
        let calls = self.calls(&kept.path)?;
        let mut bundled = BTreeMap::new();
        let mut length = 0;
        for digest in contents::named(&kept.document, &calls) {
            let hash = hash::written(&digest);
            if !self.has_blob(&hash) {
                continue;
            }
            let bytes = self.blob(&hash)?;
            length += bytes.len();
            if length > MAX_BUNDLED {
                return Err(BundleError::TooLarge);
            }
            bundled.insert(hash, Bytes::new(bytes));
        }
        Ok(Bundle {
            snapshot: kept.document.raw.clone(),
            replays: self.attempts(&kept.path)?,
            signature: self.signature(&kept.path)?,
            calls,
            contents: bundled,
        })
    }
}

impl Bundle {
    /// The document in it, after all checks, with the contents it names.
    ///
    /// # Errors
    /// [`BundleError::Damaged`] with all errors.
    pub fn verified(&self) -> Result<Document, BundleError> {
        let bytes = self.snapshot.to_string().into_bytes();
        let document = read::read(&bytes).map_err(|why| {
            let finding = Finding::error("", why.code, why.message);
            BundleError::Damaged(vec![finding])
        })?;
        let mut wrong = of_document(&document);
        for (hash, bytes) in &self.contents {
            let is_it = bytes
                .bytes()
                .is_some_and(|bytes| hash::same(&hash::hash_bytes(&bytes), hash));
            if !is_it {
                let message = "a content does not match its hash";
                wrong.push(Finding::error(hash.as_str(), "content_damaged", message));
            }
        }
        let here: BTreeSet<Digest> = self
            .contents
            .keys()
            .filter_map(|hash| digest(hash))
            .collect();
        for missing in contents::needed(&document, &self.calls).difference(&here) {
            let message = "a content that a replay needs is missing";
            let hash = hash::written(missing);
            wrong.push(Finding::error(hash, "content_missing", message));
        }
        wrong.extend(calls::check(&document, &self.calls, "calls"));
        wrong.extend(calls::check_replays(&document, &self.replays, "replays"));
        // A snapshot of another tool has no seal, and is imported as such.
        wrong.retain(|finding| finding.is_error && finding.code != seal::NOT_SEALED);
        if wrong.is_empty() {
            Ok(document)
        } else {
            Err(BundleError::Damaged(wrong))
        }
    }
}

impl Writer {
    /// Imports a snapshot from a bundle. Its core stays unchanged.
    ///
    /// # Errors
    /// When the bundle is invalid, another snapshot has its id, or the disk rejects a write.
    pub fn take_in(&self, bundle: &Bundle) -> Result<Imported, BundleError> {
        let document = bundle.verified()?;
        match self.known(&document) {
            Ok(Some(path)) => return Ok(Imported::Known(path)),
            Err(FolderError::IdTaken { .. }) => return Err(BundleError::IdTaken),
            known => known?,
        };
        for bytes in bundle.contents.values() {
            self.put_blob(&bytes.bytes().unwrap_or_default())?;
        }
        let beside = Beside::new(&bundle.calls, &bundle.replays);
        let path = self.place_document(&document, &beside)?;
        if let Some(signature) = &bundle.signature {
            self.put_signature(&path, signature)?;
        }
        Ok(Imported::New(path))
    }
}
