//! `runwright keys revoke`.

use kernel::audit::Actor;
use kernel::registry::Rejection;
use runtime::access::{ApiKeys, KeyError};

use super::{Whose, find, short};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright keys revoke build-server --tenant acme --reason 'was in a log'")]
pub(crate) struct Args {
    /// The key: its id, the end of it, its name, or the key itself
    #[arg(value_name = "ID")]
    key: String,

    #[command(flatten)]
    whose: Whose,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Takes a key back.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    let tenant = &args.whose.tenant;
    let key = find(&door, tenant, &args.key).await?;
    let by = Actor::operator();
    let revoked = ApiKeys::new(door.clone())
        .revoke(tenant, &key, args.reason, &by)
        .await;
    match revoked {
        Ok(()) => talk::say(format!("key {} is revoked", short(&key))),
        Err(KeyError::Rejected(Rejection::Unchanged)) => {
            talk::say(format!("key {} was revoked before", short(&key)));
        }
        Err(error) => return Err(error.into()),
    }
    crate::trail::deliver(&door).await;
    Ok(Exit::Done)
}
