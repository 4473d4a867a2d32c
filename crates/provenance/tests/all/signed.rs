//! Whether a record of replays that was written again is noticed.

use std::fs;

use faces::provenance::calls::Attempt;
use faces::provenance::chain;
use faces::provenance::document::{MatchStatus, ReplayStatus};
use faces::provenance::seal::{self, State};
use provenance::{Folder, Kept, Signed, SigningKey, Strictness, Verified};
use serde_json::{Value, json};

use crate::support::*;

/// A signed snapshot with a failed and a passed replay.
fn replayed(folder: &Folder, key: &SigningKey) -> Kept {
    let kept = write(folder, draft("yard", "2026-03-01T00:00:00.000Z"), &[]);
    folder.writer().unwrap().sign(&kept, key).unwrap();
    for (status, pass) in [
        (MatchStatus::NoMatch, false),
        (MatchStatus::ExactMatch, true),
    ] {
        let attempt = attempt("2026-03-02T00:00:00.000Z", Some(status), pass);
        folder
            .record_replay(&kept.path, attempt, Some(key))
            .unwrap();
    }
    folder.read(&kept.path).unwrap()
}

/// Makes the failed replay a passed one, with a chain and a status that match.
fn forge(folder: &Folder, kept: &Kept, sign: impl Fn(&Attempt, &str) -> Option<Value>) -> Kept {
    let mut attempts = folder.attempts(&kept.path).unwrap();
    attempts[0].status = Some(MatchStatus::ExactMatch);
    attempts[0].pass = true;
    let bare: Vec<Attempt> = attempts.iter().map(Attempt::unsigned).collect();
    let mut lines = chain::linked(seal::text(&kept.document.raw), &bare);
    for (line, attempt) in lines.iter_mut().zip(&attempts) {
        let link = line[chain::LINK].as_str().unwrap().to_owned();
        if let Some(signature) = sign(attempt, &link) {
            line[Attempt::SIGNATURE] = signature;
        }
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(kept.path.with_extension("replays.jsonl"), text).unwrap();
    let mut document = kept.document.raw.clone();
    document["replay_status"] = json!(ReplayStatus::from_attempts(&attempts));
    fs::write(&kept.path, document.to_string()).unwrap();
    folder.read(&kept.path).unwrap()
}

fn codes(verified: &Verified) -> Vec<&'static str> {
    verified.findings.iter().map(|found| found.code).collect()
}

#[test]
fn signed_records_name_their_signer() {
    let (_root, folder) = folder();
    let key = key();
    let kept = replayed(&folder, &key);
    let verified = folder.verify(&kept, Strictness::Strict).unwrap();
    assert!(verified.is_valid, "{:?}", verified.findings);
    assert_eq!(verified.replays_signed_by, [key.public()]);
}

#[test]
fn a_chain_written_again_without_signatures_is_named() {
    let (_root, folder) = folder();
    let kept = replayed(&folder, &key());
    let forged = forge(&folder, &kept, |_, _| None);
    let lenient = folder.verify(&forged, Strictness::Lenient).unwrap();
    assert_eq!(codes(&lenient), [seal::REPLAY_UNSIGNED]);
    let strict = folder.verify(&forged, Strictness::Strict).unwrap();
    assert_eq!((strict.is_valid, strict.state), (false, State::Unsigned));
}

#[test]
fn a_chain_written_again_with_its_old_signatures_is_tampered() {
    let (_root, folder) = folder();
    let kept = replayed(&folder, &key());
    let old = |attempt: &Attempt, _: &str| attempt.other.get(Attempt::SIGNATURE).cloned();
    let forged = forge(&folder, &kept, old);
    let verified = folder.verify(&forged, Strictness::Lenient).unwrap();
    assert_eq!(codes(&verified), ["replay_signature_wrong"; 2]);
    assert_eq!(verified.state, State::Tampered);
}

#[test]
fn a_chain_signed_again_by_a_foreign_key_is_named() {
    let (_root, folder) = folder();
    let kept = replayed(&folder, &key());
    let other = key();
    let again = |_: &Attempt, link: &str| Some(json!(other.sign(Signed::Replay(link))));
    let forged = forge(&folder, &kept, again);
    let lenient = folder.verify(&forged, Strictness::Lenient).unwrap();
    assert_eq!(codes(&lenient), [seal::REPLAY_SIGNER_UNKNOWN; 2]);
    let verify = |keys: &[_]| folder.verify_trusting(&forged, Strictness::Strict, keys);
    assert!(!verify(&[]).unwrap().is_valid);
    assert!(verify(&[other.public()]).unwrap().is_valid);
}
