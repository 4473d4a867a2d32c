//! `runwright snapshot key`: the key for signing captures.

use std::path::{Path, PathBuf};

use provenance::{Folder, Kept, PublicKey, Signed, SigningKey, Writer};
use runtime::named_file::{self, MAX_CONFIG_BYTES};
use serde_json::json;

use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::session::{Form, Session};
use crate::{style, talk};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Every capture and every record of a replay is signed with your key, $XDG_CONFIG_HOME/runwright/snapshot.key (by default in
~/.config), which the first capture creates. Give others the public key that this command prints, so
that they can check your snapshots.

  runwright snapshot key > me.pub
  runwright snapshot verify latest --key me.pub"
)]
pub(crate) struct Args {}

/// The path of this user's key; `None` without a home folder.
fn path() -> Option<PathBuf> {
    let set = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.map(|config| config.join("runwright/snapshot.key"))
}

/// The public key of this user, if there is one.
pub(super) fn own() -> Option<PublicKey> {
    let key = SigningKey::open(&path()?).ok()??;
    Some(key.public())
}

/// The key of this user, which is created if it is missing.
fn open_or_make() -> Result<SigningKey, String> {
    let path = path().ok_or("neither XDG_CONFIG_HOME nor HOME is set, so there is no key")?;
    SigningKey::open_or_make(&path).map_err(|error| error.to_string())
}

fn say_unsigned(what: &str, why: &str) {
    let note = style::warn("note:");
    talk::say(format!("{note} the {what} is not signed: {why}"));
}

/// Signs a newly captured snapshot. Reports a missing key.
pub(super) fn sign(writer: &Writer, kept: &Kept) {
    let signed =
        open_or_make().and_then(|key| writer.sign(kept, &key).map_err(|error| error.to_string()));
    if let Err(why) = signed {
        say_unsigned("snapshot", &why);
    }
}

/// The key for the record of a replay. Reports a missing one.
pub(super) fn for_replay() -> Option<SigningKey> {
    open_or_make()
        .inspect_err(|why| say_unsigned("record of this replay", why))
        .ok()
}

/// Whether this user signed a snapshot, so that its command is trusted.
pub(super) fn is_own(folder: &Folder, kept: &Kept) -> bool {
    let seal = faces::provenance::seal::text(&kept.document.raw);
    let signature = folder.signature(&kept.path).ok().flatten();
    signature.is_some_and(|signature| {
        Some(&signature.key) == own().as_ref() && signature.is_of(Signed::Seal(seal))
    })
}

/// The key given as a text, or as a file with it.
pub(super) fn named(typed: &str) -> Result<PublicKey, Failure> {
    if let Some(key) = PublicKey::parse(typed) {
        return Ok(key);
    }
    let shown = crate::text::one_line(typed, 120);
    let text = named_file::read_to_string(Path::new(typed), MAX_CONFIG_BYTES).map_err(|error| {
        Failure::new(format!(
            "--key {shown}: this is neither a key nor a file that can be read: {}",
            io_text(&error)
        ))
        .hint("a key is `ed25519:` and base64; `runwright snapshot key` prints yours")
    })?;
    PublicKey::parse(&text).ok_or_else(|| {
        Failure::new(format!("--key {shown}: the file has no public key"))
            .hint("a key is `ed25519:` and base64; `runwright snapshot key` prints yours")
    })
}

/// Prints the public key.
pub(super) fn run(_args: &Args, session: &Session) -> Result<Exit, Failure> {
    let path = path()
        .ok_or_else(|| Failure::new("no folder for a key").hint("set HOME or XDG_CONFIG_HOME"))?;
    let key = SigningKey::open_or_make(&path).map_err(|error| Failure::new(error.to_string()))?;
    let key = key.public();
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(key.as_str())?,
        Form::Json => data.json(&json!({ "key": key }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}
