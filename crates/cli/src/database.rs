//! The store in a PostgreSQL database, as `--store` names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use runtime::hints::Hints;
use store::Store;
use store_postgres::{Access, Address, Hint, Options, PostgresStore};
use tokio::runtime::Handle;
use tokio::task;

use crate::exit::Failure;

/// How often an engine looks for work, messages and coordinators. Hints of other processes usually
/// come first; an idle server stays below three queries a second.
pub(crate) const POLL: Duration = Duration::from_millis(1_500);

/// The place that `--store` names.
pub(crate) enum Named {
    Database(Address),
    /// The folder of a store in a file.
    Folder(PathBuf),
}

impl Named {
    /// Reads the value of the option.
    pub(crate) fn parse(store: &str) -> Result<Self, Failure> {
        if Address::is_url(store) {
            let address = Address::parse(store).map_err(Failure::from)?;
            return Ok(Self::Database(address));
        }
        if let Some((scheme, _)) = store.split_once("://") {
            return Err(Failure::new(format!(
                "--store cannot use a store of the kind {scheme}://"
            ))
            .hint("write postgres://USER@HOST/DATABASE, or the path of a folder"));
        }
        Ok(Self::Folder(Path::new(store).to_owned()))
    }
}

/// Opens the store. It must be called on a thread of the program's runtime.
pub(crate) fn open(
    address: &Address,
    access: store_sqlite::Access,
    hints: &Hints,
) -> Result<Arc<dyn Store>, Failure> {
    let options = Options {
        access: match access {
            store_sqlite::Access::Create => Access::Create,
            store_sqlite::Access::Write => Access::Write,
            store_sqlite::Access::Read => Access::Read,
        },
        ..Options::default()
    };
    let opened =
        task::block_in_place(|| Handle::current().block_on(PostgresStore::open(address, options)));
    match opened {
        Ok(store) => {
            let hints = hints.clone();
            store.listen(move |hint| pass_on(&hints, &hint));
            Ok(Arc::new(store))
        }
        Err(error) => Err(match Failure::from(error) {
            Failure::Said { what, hint } => Failure::Said {
                what: format!("{address}: {what}"),
                hint,
            },
            other => other,
        }),
    }
}

fn pass_on(hints: &Hints, hint: &Hint) {
    if hint.queue {
        hints.queue();
    }
    if hint.outbox {
        hints.outbox();
    }
    hints.feed();
    for (stream, next_seq) in &hint.streams {
        hints.appended_elsewhere(stream, *next_seq);
    }
}
