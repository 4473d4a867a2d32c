//! Detects changes of a session's template since its beginning.

use faces::player::projection::METADATA;
use kernel::digest::Digest;
use kernel::json::{self, Limits};
use kernel::run::Run;

use super::Args;
use crate::exit::Failure;
use crate::session::Session;
use crate::{style, talk};

/// The key of a template's digest in the metadata of a run.
pub(super) const DIGEST: &str = "templateDigest";

/// The digest of a template, independent of spaces and the order of its keys.
pub(super) fn digest(template: &[u8]) -> Option<String> {
    let template = json::parse(template, Limits::DEFINITION).ok()?;
    Some(Digest::compute(&json::canonical(&template)).to_string())
}

/// Warns when the template file has changed since the session began; with `--strict` this is an
/// error.
pub(super) fn warn(args: &Args, session: &Session, run: &Run) -> Result<(), Failure> {
    let Some(path) = changed(session, run) else {
        return Ok(());
    };
    let id = &run.header.stream;
    let what = format!(
        "{path} has changed since session {id} started; the session keeps the template it started \
         with"
    );
    let hint = format!("`runwright play --resume {id} --replan` applies the change");
    if args.strict {
        return Err(Failure::new(what).hint(hint));
    }
    talk::say(format!("{} {what}; {hint}", style::warn("warning:")));
    Ok(())
}

/// The template file, if its content has changed.
fn changed(session: &Session, run: &Run) -> Option<String> {
    let play = run.facts()?.metadata.get(METADATA)?;
    let text = |key: &str| play.get(key)?.as_str();
    let (path, began_with) = (text("templatePath")?, text(DIGEST)?);
    let now = std::fs::read(session.place.project.join(path)).ok()?;
    (digest(&now).as_deref() != Some(began_with)).then(|| path.to_owned())
}
