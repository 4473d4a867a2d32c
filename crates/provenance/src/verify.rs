//! Verifies that a snapshot is unchanged and complete.

use std::sync::LazyLock;

use faces::provenance::calls;
use faces::provenance::hash::written;
use faces::provenance::read::{Document, NoSnapshot};
use faces::provenance::schema::SCHEMA;
use faces::provenance::seal::{self, Finding, Seal, State};
use jsonschema::Validator;
use serde::Serialize;
use serde_json::Value;

use crate::contents;
use crate::folder::{Folder, FolderError, Kept};
use crate::signature::{PublicKey, Signed};

/// How strictly foreign files are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Ids that are not UUIDs, placeholders for hashes, commands that could connect past the
    /// recorder, and records of replays without a signature by a known key are warnings.
    Lenient,
    /// They are errors.
    Strict,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The snapshot.
    pub snapshot_id: String,
    /// The verdict.
    pub state: State,
    /// Whether it has no errors.
    pub is_valid: bool,
    /// The key that signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<PublicKey>,
    /// The keys that signed records of its replays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replays_signed_by: Vec<PublicKey>,
    /// The number of contents that a replay needs.
    pub contents: usize,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
}

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).expect("the schema is one")
});

/// Checks a document by itself, against the schema and its own hashes.
pub(crate) fn of_document(document: &Document) -> Vec<Finding> {
    let mut findings = seal::check(document);
    for error in VALIDATOR.iter_errors(&document.raw) {
        let path = error.instance_path().to_string();
        let is_told = findings
            .iter()
            .any(|known| known.path == path && !known.is_error);
        if !is_told {
            // The validator's message repeats the value, which may be a secret.
            let keyword = error.schema_path().to_string();
            let message = format!("this violates the schema at {keyword}");
            findings.push(Finding::error(path, "schema", message));
        }
    }
    findings
}

/// The reason why a document is not a snapshot, with the invalid member, and whether its seal shows
/// a change.
pub(crate) fn located(bytes: &[u8], why: NoSnapshot) -> NoSnapshot {
    let Ok(raw) = serde_json::from_slice::<Value>(bytes) else {
        return why;
    };
    if why.code != "not_a_snapshot" {
        return why;
    }
    let first = VALIDATOR.iter_errors(&raw).next();
    let place = first.map(|error| error.instance_path().to_string());
    let place = place.filter(|place| !place.is_empty());
    let place = place.map_or_else(String::new, |place| format!("{place}: "));
    let seal = seal::text(&raw);
    if seal.is_empty() || seal == seal::integrity(&raw) {
        NoSnapshot {
            message: format!("{place}{}", why.message),
            ..why
        }
    } else {
        NoSnapshot {
            code: "tampered",
            message: format!(
                "{place}{}; extensions.integrity, the seal, does not match: the snapshot was \
                 changed after it was sealed",
                why.message
            ),
        }
    }
}

impl Verified {
    /// Requires a signature by one of these keys.
    pub fn must_be_signed_by(&mut self, keys: &[PublicKey]) {
        let is_signed = self
            .signed_by
            .as_ref()
            .is_some_and(|key| keys.contains(key));
        if !is_signed {
            let message = match &self.signed_by {
                None => "it is not signed, and a signature is required".to_owned(),
                Some(key) => format!("it is signed by {}, which is not a given key", key.as_str()),
            };
            self.findings
                .push(Finding::error("signature", seal::NOT_SIGNED, message));
            self.state = State::from_findings(&self.findings);
            self.is_valid = false;
        }
    }
}

impl Folder {
    /// Checks a snapshot against the schema, its own hashes, its calls, its replays and the
    /// contents it names.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn verify(&self, kept: &Kept, strictness: Strictness) -> Result<Verified, FolderError> {
        self.verify_trusting(kept, strictness, &[])
    }

    /// The same; records of replays may also be signed by these keys.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn verify_trusting(
        &self,
        kept: &Kept,
        strictness: Strictness,
        keys: &[PublicKey],
    ) -> Result<Verified, FolderError> {
        let document = &kept.document;
        let mut findings = of_document(document);
        let contents = self.check_beside(kept, &mut findings)?;
        let signed = told(
            self.signature(&kept.path),
            "signature_damaged",
            &mut findings,
        )?
        .flatten()
        .filter(|_| seal::read(document) != Seal::Unsealed);
        if let Some(signature) = &signed
            && !signature.is_of(Signed::Seal(seal::text(&document.raw)))
        {
            let message = format!(
                "the signature by {} does not match this seal",
                signature.key.as_str()
            );
            findings.push(Finding::error("signature", "signature_wrong", message));
        }
        let signer = signed.as_ref().map(|signature| &signature.key);
        let trusted: Vec<&PublicKey> = signer.into_iter().chain(keys).collect();
        let signers = self.check_replay_signers(kept, &trusted);
        let signers = told(signers, "replays_damaged", &mut Vec::new())?;
        let (replays_signed_by, odd) = signers.unwrap_or_default();
        // Without a seal nothing of the snapshot is checked.
        if seal::read(document) != Seal::Unsealed {
            findings.extend(odd);
        }
        if strictness == Strictness::Strict {
            for finding in &mut findings {
                finding.is_error |= matches!(
                    finding.code,
                    "id_not_uuid"
                        | "hash_malformed"
                        | seal::UNVERIFIED
                        | seal::REPLAY_UNSIGNED
                        | seal::REPLAY_SIGNER_UNKNOWN
                );
            }
        }
        let state = State::from_findings(&findings);
        Ok(Verified {
            replays_signed_by,
            signed_by: signed.map(|signature| signature.key),
            snapshot_id: document.snapshot.snapshot_id.clone(),
            state,
            is_valid: !findings.iter().any(|finding| finding.is_error),
            contents,
            findings,
        })
    }

    /// Checks the sidecar files of a snapshot: its calls, its replays, and the contents it needs or
    /// names. Returns the number of contents it needs.
    fn check_beside(&self, kept: &Kept, findings: &mut Vec<Finding>) -> Result<usize, FolderError> {
        let replays = told(self.check_replays(kept), "replays_damaged", findings)?;
        findings.extend(replays.into_iter().flatten());
        let Some(calls) = told(self.calls(&kept.path), "calls_damaged", findings)? else {
            return Ok(0);
        };
        let name = self.calls_file(&kept.path);
        findings.extend(calls::check(&kept.document, &calls, &name));
        let needed = contents::needed(&kept.document, &calls);
        let users = contents::users(&kept.document, &calls, &name);
        for digest in contents::named(&kept.document, &calls).union(&needed) {
            let hash = written(digest);
            let user = users.get(digest).map_or("", String::as_str);
            match self.check_blob(digest) {
                Ok(()) => {}
                Err(FolderError::NoBlob { .. }) if !needed.contains(digest) => {}
                Err(FolderError::NoBlob { .. }) => {
                    let message = format!("the content {hash} is missing; {user} refers to it");
                    findings.push(Finding::error(hash, "content_missing", message));
                }
                Err(FolderError::Damaged { path, why }) => {
                    let message = format!("{}: {why}; {user} refers to it", path.display());
                    findings.push(Finding::error(hash, "content_damaged", message));
                }
                Err(FolderError::Io { path, error }) => {
                    let path = path.display();
                    let message = format!("{path} cannot be read: {error}; {user} refers to it");
                    findings.push(Finding::error(hash, "content_unreadable", message));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(needed.len())
    }
}

/// The content of a sidecar file. Damage becomes a finding.
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
