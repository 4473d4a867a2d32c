//! `runwright snapshot verify`.

use faces::provenance::seal::State;
use provenance::{FolderError, PublicKey, Strictness};
use serde::Serialize;
use serde_json::json;

use super::{Rooted, failed, find, key};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot verify
  runwright snapshot verify latest --strict

A snapshot is valid, unverified (calls may be missing: its command could connect past the recorder,
or a connection was refused), unsigned (a required signature is missing), unsealed (it has no seal,
so changes cannot be detected), tampered or malformed. Exits
with 0 if all are valid or, without --strict, unverified; else with 4. Files of a capture that was
killed or is still running are listed and do not count.")]
pub(crate) struct Args {
    /// The snapshots: ids, the beginnings of them, names, `latest`, or paths [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,

    /// Refuse ids that are not UUIDs, placeholders instead of hashes, commands that could connect
    /// past the recorder, and records of replays without a signature by you, by the signer of the
    /// snapshot or by --key
    #[arg(long)]
    strict: bool,

    /// Require a signature by this key: the key, or its file; may be given several times
    #[arg(long, value_name = "KEY|FILE")]
    key: Vec<String>,

    #[command(flatten)]
    rooted: Rooted,
}

/// Why a file cannot be read as a snapshot, with its code.
pub(super) fn unread(error: Option<FolderError>) -> Option<(&'static str, String)> {
    match error? {
        FolderError::NoSnapshot { why, .. } if why.code == "tampered" => {
            Some((State::Tampered.as_str(), why.message))
        }
        FolderError::NoSnapshot { why, .. } => Some(("malformed", why.message)),
        FolderError::Damaged { why, .. } => Some(("malformed", why)),
        _ => None,
    }
}

/// A file that is not readable as a snapshot.
#[derive(Serialize)]
struct Unread {
    file: String,
    state: &'static str,
    why: String,
}

/// Verifies.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let strictness = if args.strict {
        Strictness::Strict
    } else {
        Strictness::Lenient
    };
    let keys = args.key.iter().map(|typed| key::named(typed));
    let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
    let own = key::own();
    let trusted: Vec<_> = own.iter().chain(&keys).cloned().collect();
    let whose = |signer: &PublicKey| match () {
        () if Some(signer) == own.as_ref() => "your key",
        () if keys.contains(signer) => "a key that was given",
        () => "an unknown key; give a trusted one with --key",
    };
    let mut named = args.snapshots.clone();
    let (mut broken, mut unfinished) = (Vec::<Unread>::new(), Vec::new());
    if named.is_empty() {
        let listing = folder.list().map_err(failed)?;
        if listing.entries.is_empty() && listing.broken.is_empty() {
            let at = folder.snapshots();
            return Err(Failure::new(format!("no snapshots in {}", at.display())));
        }
        let files = listing.entries.into_iter();
        let at = folder.snapshots();
        named.extend(files.map(|entry| at.join(entry.file).display().to_string()));
        let is_unfinished = provenance::Broken::is_unfinished;
        let damaged: Vec<_>;
        (unfinished, damaged) = listing.broken.into_iter().partition(is_unfinished);
        broken.extend(damaged.into_iter().map(|one| {
            let read = folder.read(&at.join(&one.file));
            let (state, why) = unread(read.err()).unwrap_or(("malformed", one.why));
            let file = one.file;
            Unread { file, state, why }
        }));
    }
    let mut found = Vec::new();
    for name in &named {
        let path = folder.resolve(name).ok();
        let read = path.as_ref().map(|path| folder.read(path));
        match unread(read.and_then(Result::err)) {
            Some((state, why)) => broken.push(Unread {
                file: name.clone(),
                state,
                why,
            }),
            None => {
                let kept = find(&folder, name)?;
                let lies_in = folder.clone().holding_or_self(&kept.path);
                let verified = lies_in.verify_trusting(&kept, strictness, &trusted);
                let mut verified = verified.map_err(failed)?;
                if !keys.is_empty() {
                    verified.must_be_signed_by(&keys);
                }
                found.push((kept.path.clone(), verified));
            }
        }
    }
    let is_valid = broken.is_empty() && found.iter().all(|(_, found)| found.is_valid);
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => {
            let all = found.iter().map(|(path, found)| {
                let mut value = serde_json::to_value(found).unwrap_or_default();
                value["path"] = path.display().to_string().into();
                value
            });
            let all: Vec<_> = all.collect();
            data.json(&json!({
                "valid": is_valid, "snapshots": all, "broken": broken, "unfinished": unfinished,
            }))?;
        }
        Form::Text => {
            for (_, verified) in &found {
                let id = text::one_line(&verified.snapshot_id, 64);
                let word = match (verified.is_valid, verified.state) {
                    (true, State::Unverified) => style::warn(verified.state.as_str()),
                    (true, _) => style::good(verified.state.as_str()),
                    (false, _) => style::bad(verified.state.as_str()),
                };
                data.line(format!("{id}  {word}"))?;
                if let Some(signer) = &verified.signed_by {
                    let whose = whose(signer);
                    let is_good = verified.state != State::Tampered;
                    if is_good {
                        data.line(format!(
                            "  good Ed25519 signature by {} ({whose})",
                            signer.as_str()
                        ))?;
                    }
                }
                for signer in &verified.replays_signed_by {
                    data.line(format!(
                        "  records of replays signed by {} ({})",
                        signer.as_str(),
                        whose(signer)
                    ))?;
                }
                for finding in &verified.findings {
                    let mark = if finding.is_error {
                        style::bad("wrong")
                    } else {
                        style::warn("odd")
                    };
                    let path = text::one_line(&finding.path, 120);
                    data.line(format!("  {mark} {path}: {}", finding.message))?;
                }
            }
            for broken in &broken {
                let file = text::one_line(&broken.file, 160);
                let why = text::one_line(&broken.why, 200);
                data.line(format!("{file}  {}\n  {why}", style::bad(broken.state)))?;
            }
            for half in &unfinished {
                let file = text::one_line(&half.file, 160);
                let why = text::one_line(&half.why, 200);
                data.line(format!("{file}  {}\n  {why}", style::warn("unfinished")))?;
            }
        }
    }
    data.done()?;
    if is_valid {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Damaged)
    }
}
