//! `runwright keys`: access keys for HTTP.

mod create;
mod list;
mod revoke;
mod rotate;

use clap::Subcommand;
use kernel::ids::{KeyId, TenantId};
use kernel::problem::quoted;
use kernel::registry::{Grant, Key, KeyStatus};
use runtime::access::{ApiKeys, Issued, KeyError};
use runtime::door::Door;
use serde_json::{Value, json};

use crate::args::tenant;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// The default tenant of keys.
const DEFAULT_TENANT: &str = "local";
/// The length of a key id's end that distinguishes keys of a tenant.
const SHORT: usize = 8;
/// Minimum characters of a key id's end that name a key.
const SHORTEST: usize = 4;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a key and print it; it is shown only now
    Create(create::Args),
    /// List keys, newest first; never their secrets
    List(list::Args),
    /// Revoke a key; every server on the store refuses it within a second
    Revoke(revoke::Args),
    /// Replace a key: create its successor and let the key expire
    Rotate(rotate::Args),
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Create(args) => create::run(args, session).await,
        Command::List(args) => list::run(args, session).await,
        Command::Revoke(args) => revoke::run(args, session).await,
        Command::Rotate(args) => rotate::run(args, session).await,
    }
}

/// The tenant of keys, as typed.
#[derive(clap::Args, Debug)]
struct Whose {
    /// The tenant
    #[arg(long, value_name = "TENANT", default_value = DEFAULT_TENANT, value_parser = tenant)]
    tenant: TenantId,
}

/// Finds a key by its id, by the end of its id, by its name, or by the whole token.
async fn find(door: &Door, tenant: &TenantId, typed: &str) -> Result<KeyId, Failure> {
    let keys = ApiKeys::new(door.clone()).list(tenant).await?;
    // A pasted token is accepted as a whole.
    let wanted = typed.strip_prefix("rw_").unwrap_or(typed);
    let wanted = wanted.split('_').next().unwrap_or(wanted);
    let is_meant = |key: &&Key| {
        let id = key.id.as_str();
        id == wanted
            || (wanted.len() >= SHORTEST && id.ends_with(wanted))
            || key.grant.name.as_deref() == Some(typed)
    };
    let meant: Vec<&Key> = keys.iter().filter(is_meant).collect();
    let now = door.store().now();
    // A name is passed on to the successor: if one of its keys is still valid, that one is meant.
    let live: Vec<&Key> = (meant.iter().copied())
        .filter(|key| key.standing(now) == KeyStatus::Live)
        .collect();
    match if live.len() == 1 {
        &live[..]
    } else {
        &meant[..]
    } {
        [key] => Ok(key.id.clone()),
        [] => Err(Failure::new(format!(
            "tenant {} has no such key",
            quoted(tenant.as_str())
        ))
        .hint(format!(
            "`runwright keys list{}` shows the keys; give the end of an id",
            option(tenant)
        ))),
        several => {
            let shown = |key: &&Key| {
                let (id, standing) = (short(&key.id), key.standing(now).as_str());
                format!(
                    "{id} ({standing}, created {})",
                    text::ago(key.created_at, now)
                )
            };
            let several: Vec<String> = several.iter().map(shown).collect();
            let what = format!("several keys fit: {}", several.join(", "));
            Err(Failure::new(what).hint(format!(
                "give the id of one; `runwright keys list{}` shows all",
                option(tenant)
            )))
        }
    }
}

/// The option that names a tenant in a suggested command; empty for the default one.
fn option(tenant: &TenantId) -> String {
    let name = text::one_line(tenant.as_str(), 256);
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.as_str() {
        DEFAULT_TENANT => String::new(),
        name if name.chars().all(is_plain) => format!(" --tenant {name}"),
        name => format!(" --tenant '{}'", name.replace('\'', r"'\''")),
    }
}

/// The end of a key id, which distinguishes it within its tenant.
fn short(key: &KeyId) -> &str {
    let id = key.as_str();
    id.get(id.len().saturating_sub(SHORT)..).unwrap_or(id)
}

/// Prints a token: alone on stdout, so that `KEY=$(runwright keys create)` works.
fn print(session: &Session, tenant: &TenantId, issued: &Issued) -> Result<(), Failure> {
    let mut data = Data::new();
    let token = issued.token.reveal();
    match session.form {
        Form::Text => data.line(token)?,
        Form::Json => {
            let mut shown = described(issued.token.key(), &issued.grant);
            shown["tenant"] = tenant.as_str().into();
            shown["key"] = token.into();
            data.json(&shown)?;
        }
    }
    data.done()?;
    let id = short(issued.token.key());
    talk::say(style::dim(format!(
        "key {id} of tenant {}; it is shown only now",
        quoted(tenant.as_str())
    )));
    Ok(())
}

/// A key, without its secret.
fn described(id: &KeyId, grant: &Grant) -> Value {
    json!({
        "keyId": id,
        "principal": grant.principal,
        "workspace": grant.workspace,
        "scopes": grant.scopes,
        "groups": grant.groups,
        "roles": grant.roles,
        "name": grant.name,
        "expiresAt": grant.expires_at.map(|at| at.to_string()),
    })
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            short @ KeyError::OverlapTooShort => Self::new(short.to_string()).hint(
                "if another person knows the key, end it at once with `runwright keys revoke`",
            ),
            other => Self::new(other.to_string()),
        }
    }
}
