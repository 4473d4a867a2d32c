//! `runwright keys rotate`.

use kernel::audit::Actor;
use runtime::access::ApiKeys;

use super::{Whose, find, print, short};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::span::Span;
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright keys rotate build-server --tenant acme --overlap 48h

The successor has the same scopes and the same lifetime, counted from now. Give \
                  it to the users of the key; the key ends after the overlap. \
                  If another person knows the key, end it at once with `runwright keys \
                  revoke`.")]
pub(crate) struct Args {
    /// The key: its id, the end of it, or its name
    #[arg(value_name = "ID")]
    key: String,

    #[command(flatten)]
    whose: Whose,

    /// How long both are valid: a day or more
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    overlap: Span,
}

/// Creates a successor of a key.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    let tenant = &args.whose.tenant;
    let key = find(&door, tenant, &args.key).await?;
    let Span(overlap) = args.overlap;
    let issued = ApiKeys::new(door.clone())
        .rotate(tenant, &key, overlap, &Actor::operator())
        .await?;
    crate::trail::deliver(&door).await;
    print(session, tenant, &issued)?;
    talk::say(format!(
        "key {} ends in {} at the latest",
        short(&key),
        text::duration(overlap)
    ));
    Ok(Exit::Done)
}
