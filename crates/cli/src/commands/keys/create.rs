//! `runwright keys create`.

use kernel::audit::Actor;
use kernel::problem::quoted;
use kernel::registry::{Key, KeyStatus};
use runtime::access::{ApiKeys, NewKey, Scopes, UnknownScope};

use super::{Whose, print};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::span::Span;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Scopes: manifest:read (workflow definitions), runs:create, runs:read, \
runs:cancel (also pause, resume, signal), artifacts:read, approvals:respond, approvals:delegate \
(answer for others by name), webhooks:manage, audit:read, workflows:write, keys:manage; * for all. None implies another.
Groups and roles are words of your own; approval gates name them in approverGroupRefs and approverRoleRefs.

The key is printed alone on stdout, so that a script can keep it:
  KEY=$(runwright keys create --data ./data --tenant acme --scopes runs:create,runs:read)

It works at once, also on a store that a server has open."
)]
pub(crate) struct Args {
    #[command(flatten)]
    whose: Whose,

    /// The only workspace the key reaches [default: all of the tenant]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// The principal of the key, shown in runs and the audit trail [default: the key's id]
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,

    /// What it may do, separated by commas
    #[arg(long, value_name = "SCOPES", default_value = "*", value_parser = scopes)]
    scopes: Scopes,

    /// Groups of its bearer, for gates with groups; separated by commas
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    groups: Vec<String>,

    /// Roles of its bearer, for gates with roles; separated by commas
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    roles: Vec<String>,

    /// Its lifetime, such as 12h or 30d [default: until it is revoked]
    #[arg(long, value_name = "SPAN")]
    expires: Option<Span>,

    /// A name for the key
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

fn scopes(text: &str) -> Result<Scopes, UnknownScope> {
    Scopes::parse(text.split(',').map(str::trim))
}

/// Makes a key.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.create()?;
    let now = door.store().now();
    let new = NewKey {
        principal: args.principal,
        workspace: args.workspace,
        scopes: args.scopes,
        groups: args.groups.into_iter().collect(),
        roles: args.roles.into_iter().collect(),
        name: args.name,
        expires_at: args.expires.map(|Span(life)| now.plus(life)),
    };
    let tenant = &args.whose.tenant;
    let keys = ApiKeys::new(door.clone());
    if let Some(name) = &new.name {
        let is_taken = |key: &Key| {
            key.grant.name.as_ref() == Some(name) && key.standing(now) == KeyStatus::Live
        };
        if keys.list(tenant).await?.iter().any(is_taken) {
            let what = format!("a valid key named {} exists", quoted(name));
            return Err(Failure::new(what)
                .hint("choose another name, or replace that key with `runwright keys rotate`"));
        }
    }
    let issued = keys.create(tenant, new, &Actor::operator()).await?;
    crate::trail::deliver(&door).await;
    print(session, tenant, &issued)?;
    Ok(Exit::Done)
}
