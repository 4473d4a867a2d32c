//! `runwright audit verify`, `export` and `key`.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use faces::openwop::v1;
use kernel::audit::{Anomaly, AnomalyKind, Report, Walk};
use kernel::ids::{Seq, TenantId};
use kernel::limits::MAX_EVENT_BYTES;
use kernel::problem::quoted;
use runtime::access::checkpoints::{self, Keys};
use runtime::access::signing::{PublicKey, Signer};
use runtime::access::trail;
use runtime::keyring::FileKeyring;
use runtime::named_file::NamedFile;
use store::{ReadFrom, StoreError};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Entries read at a time.
const PAGE: usize = 1_000;
/// The bytes from which a line of an exported trail is too long.
const MAX_LINE: u64 = 2 * MAX_EVENT_BYTES as u64;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    /// The tenant
    #[arg(long, value_name = "TENANT", default_value = "local")]
    tenant: String,
}

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Also works without the store, on a file that `runwright audit export` made. Keep such a file, or
the checkpoint that `runwright audit checkpoint` prints and the key that `runwright audit key`
prints, at a place that the engine's machine cannot write to: a person with the data folder can
cut a trail off after any checkpoint, and with the keyring sign another one.

Exits with 0 if no fault is found, else with 1."
)]
pub(crate) struct Args {
    /// An exported trail [default: the trail in the store]
    file: Option<PathBuf>,

    /// The tenant, for the trail in the store
    #[arg(long, value_name = "TENANT", default_value = "local")]
    tenant: String,

    /// The key to check signatures with, as `runwright audit key` or the server's capabilities
    /// have it [default: the keyring of the data folder; for a file, none]
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    public_key: Option<PublicKey>,

    /// A checkpoint that must exist, as `runwright audit checkpoint` printed it
    #[arg(long, value_name = "SEQ:ROOT", value_parser = anchor)]
    expect: Option<Anchor>,
}

/// The place of a checkpoint and its root, which a trail must keep forever.
#[derive(Clone, Debug)]
struct Anchor {
    at: Seq,
    root: String,
}

fn anchor(text: &str) -> Result<Anchor, &'static str> {
    let of = "a checkpoint is the number and the root that `runwright audit checkpoint` prints";
    let (at, root) = text.split_once(':').ok_or(of)?;
    let is_root = root.len() == 64 && root.bytes().all(|byte| byte.is_ascii_hexdigit());
    match at.parse() {
        Ok(at) if is_root => Ok(Anchor {
            at,
            root: root.to_ascii_lowercase(),
        }),
        _ => Err(of),
    }
}

impl Anchor {
    /// Reports a problem if the trail does not have the checkpoint.
    fn hold(&self, report: &mut Report) {
        let mut checkpoints = report.checkpoints.iter();
        let found = checkpoints.find(|checkpoint| checkpoint.at_sequence == self.at);
        let kind = match found {
            Some(found) if found.merkle_root.to_string() == self.root => return,
            Some(found) => AnomalyKind::MerkleMismatch {
                checkpoint: found.checkpoint.clone(),
            },
            None => AnomalyKind::Missing,
        };
        report.anomalies.push(Anomaly { at: self.at, kind });
    }
}

/// Prints the newest checkpoint, to be stored elsewhere.
pub(super) async fn checkpoint(args: ExportArgs, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let keyring = FileKeyring::new(session.place.keyring());
    let (keys, tenant) = (Keys::Own(&keyring), TenantId::new(&args.tenant));
    let (report, _) = checkpoints::verify(&**door.store(), &keys, &tenant, 0, Seq::MAX).await?;
    if !report.is_valid() {
        let what = "the trail is damaged, so no checkpoint is printed";
        return Err(Failure::new(what).hint("`runwright audit verify` shows the damage"));
    }
    let Some(newest) = report.checkpoints.last() else {
        let what = "the trail has no checkpoint yet";
        return Err(Failure::new(what).hint("a server makes one a moment after an entry"));
    };
    let mut data = Data::new();
    data.line(format!("{}:{}", newest.at_sequence, newest.merkle_root))?;
    data.done()?;
    Ok(Exit::Done)
}

fn public_key(text: &str) -> Result<PublicKey, &'static str> {
    PublicKey::read(text).ok_or("a public key is the base64 that `runwright audit key` prints")
}

/// Prints every stored entry unchanged.
pub(super) async fn export(args: ExportArgs, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let stream = kernel::audit::AuditTrail::stream(&TenantId::new(&args.tenant));
    let mut data = Data::new();
    let mut next = 0;
    loop {
        let page = match door.store().load(&stream, ReadFrom::Seq(next), PAGE).await {
            Ok(page) => page,
            Err(StoreError::Missing) => break,
            Err(error) => return Err(error.into()),
        };
        for record in &page.records {
            data.bytes(&record.content)?;
            data.bytes(b"\n")?;
        }
        next += page.records.len() as Seq;
        if page.records.is_empty() || next >= page.next_seq {
            break;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

/// Prints the public key for checking signatures.
pub(super) fn key(session: &Session) -> Result<Exit, Failure> {
    let keyring = FileKeyring::new(session.place.keyring());
    let signer = Signer::from_keyring(&keyring).map_err(|error| Failure::new(error.to_string()))?;
    let mut data = Data::new();
    data.line(signer.public_key().spki())?;
    data.done()?;
    Ok(Exit::Done)
}

/// Recomputes a trail.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let expected = args.expect.clone();
    let (mut report, entries) = match &args.file {
        Some(file) => {
            if args.public_key.is_none() {
                talk::say("signatures are not checked: give the key with --public-key");
            }
            let (report, entries) = read(file, args.public_key)?;
            if entries == 0 {
                return Err(
                    Failure::new("the file has no entry of an audit trail").hint(
                        "`runwright audit export --tenant TENANT` writes a file that can be \
                           verified",
                    ),
                );
            }
            talk::say(format!(
                "the file cannot show whether entries are missing after entry {}, its last one; \
                 `runwright audit list` shows the last entry of the store",
                entries - 1
            ));
            (report, entries)
        }
        None => {
            let door = session.read()?;
            let keyring = FileKeyring::new(session.place.keyring());
            let keys = args.public_key.map_or(Keys::Own(&keyring), Keys::One);
            let tenant = TenantId::new(&args.tenant);
            let store = &**door.store();
            let lag = trail::lag(store).await?;
            if lag.entries > 0 {
                let entries = text::count(lag.entries, "entry");
                let oldest = text::ms(lag.oldest_ms);
                talk::say(format!(
                    "{entries} of the store have waited to be written for {oldest}"
                ));
            }
            let (report, entries) = checkpoints::verify(store, &keys, &tenant, 0, Seq::MAX).await?;
            if entries == 0 {
                let whose = quoted(tenant.as_str());
                talk::say(format!("the trail of tenant {whose} is empty"));
            }
            (report, entries)
        }
    };
    if let Some(expected) = expected {
        expected.hold(&mut report);
    }
    show(&report, entries, session.form)
}

/// Recomputes an exported trail.
fn read(path: &Path, key: Option<PublicKey>) -> Result<(Report, Seq), Failure> {
    let file = NamedFile::open(path).map_err(|error| Failure::file(path, &error))?;
    let is_signed =
        |checkpoint: &kernel::audit::Checkpoint| key.is_none_or(|key| key.has_signed(checkpoint));
    let mut walk = Walk::new(0, 0, Seq::MAX, None, is_signed);
    let (mut entries, mut line_number) = (0, 0);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        line_number += 1;
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line);
        let length = read.map_err(|error| Failure::file(path, &error))?;
        if length as u64 == MAX_LINE {
            let path = path.display();
            let what = format!("{path}: line {line_number} is too long for an entry of a trail");
            return Err(Failure::new(what));
        }
        let entry = line.strip_suffix(b"\n").unwrap_or(&line);
        match length {
            0 => return Ok((walk.finish(entries), entries)),
            _ if entry.is_empty() => {}
            _ => {
                walk.entry(entry, None);
                entries += 1;
            }
        }
    }
}

fn show(report: &Report, entries: Seq, form: Form) -> Result<Exit, Failure> {
    let mut data = Data::for_verdict();
    if form == Form::Json {
        let last = entries.saturating_sub(1);
        data.json(&v1::audit_verification(0, last, report))?;
    } else {
        for anomaly in &report.anomalies {
            let what = match &anomaly.kind {
                AnomalyKind::ChainBreak { .. } => {
                    "does not name the hash of the entry before it".to_owned()
                }
                AnomalyKind::HashMismatch => "differs from the entry that was written".to_owned(),
                AnomalyKind::Missing => "is missing or cannot be read".to_owned(),
                AnomalyKind::MerkleMismatch { .. } => {
                    "does not match the root of its checkpoint".to_owned()
                }
                AnomalyKind::SignatureInvalid { .. } => {
                    "has a checkpoint with a wrong signature".to_owned()
                }
            };
            data.line(format!(
                "{} entry {}: {what}",
                style::bad("wrong"),
                anomaly.at
            ))?;
        }
        let of = usize::try_from(entries).unwrap_or(usize::MAX);
        let verdict = match report.anomalies.len() {
            0 => style::good("no fault found"),
            n => style::bad(text::count(n, "finding")),
        };
        data.line(format!(
            "{of} entries, {}: {verdict}",
            text::count(report.checkpoints.len(), "checkpoint")
        ))?;
    }
    data.done()?;
    if report.is_valid() {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Found)
    }
}
