//! `runwright store status`.

use kernel::time::Timestamp;
use serde_json::{Value, json};
use store::whole::{LiveServer, Status, TableSize};

use super::Site;
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::text;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright store status
  runwright store status --store postgres://runwright@db.internal/runwright --json

Servers are alive as long as their entry or one of their leases has not expired by the store's clock.
`feed` counts the appends that have not got their position yet; a number that stays above zero points
at a transaction that hangs. `oldest snapshot` is the age of the oldest transaction in the database,
which keeps deleted rows from being reused.")]
pub(crate) struct Args {}

/// Reports about the store.
pub(super) async fn run(_: &Args, session: &Session) -> Result<Exit, Failure> {
    let site = Site::of_session(session);
    let store = site.open_to_look().await?;
    let (status, now) = (store.status().await?, store.now());
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&as_json(&site, &status, now))?,
        Form::Text => {
            let tables = [
                facts(&site, &status, now),
                servers(&status, now),
                sizes(&status),
            ];
            let tables = tables
                .iter()
                .map(|table| table.lines().collect::<Vec<_>>().join("\n"));
            let shown: Vec<String> = tables.filter(|table| !table.is_empty()).collect();
            data.line(shown.join("\n\n"))?;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

fn as_json(site: &Site, status: &Status, now: Timestamp) -> Value {
    let table = |table: &TableSize| json!({ "name": table.name, "bytes": table.bytes });
    let server = |server: &LiveServer| {
        json!({
            "holder": server.holder,
            "address": server.address,
            "leases": server.leases,
            "expiresAt": server.expires_at.to_string(),
        })
    };
    json!({
        "store": site.name(),
        "streams": status.streams,
        "events": status.events,
        "feed": { "end": status.feed_end.0, "waiting": status.feed_waiting },
        "outbox": {
            "messages": status.outbox.messages,
            "oldestMs": status.outbox.oldest.map(|at| now.ms_since(at)),
        },
        "oldestSnapshotMs": status.oldest_snapshot.map(|age| age.as_millis()),
        "servers": status.servers.iter().map(server).collect::<Vec<_>>(),
        "tables": status.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn facts(site: &Site, status: &Status, now: Timestamp) -> Table {
    let mut table = Table::default();
    let mut fact = |name: &str, value: String| table.row([name.to_owned(), value]);
    fact("store", site.name());
    fact("logs", status.streams.to_string());
    fact("events", status.events.to_string());
    fact(
        "feed",
        format!("at {}, {} waiting", status.feed_end.0, status.feed_waiting),
    );
    let oldest = status.outbox.oldest.map(|at| now.ms_since(at));
    fact(
        "outbox",
        match oldest {
            Some(ms) => format!("{} waiting, for {}", status.outbox.messages, text::ms(ms)),
            None => format!("{} waiting", status.outbox.messages),
        },
    );
    if let Some(age) = status.oldest_snapshot {
        fact("oldest snapshot", text::duration(age));
    }
    table
}

fn servers(status: &Status, now: Timestamp) -> Table {
    if status.servers.is_empty() {
        return Table::default();
    }
    let mut table = Table::new(["SERVER", "ADDRESS", "LEASES", "EXPIRES IN"]);
    for server in &status.servers {
        table.row([
            server.holder.to_string(),
            server.address.clone().unwrap_or_default(),
            server.leases.to_string(),
            text::ms(server.expires_at.ms_since(now)),
        ]);
    }
    table
}

fn sizes(status: &Status) -> Table {
    let mut sizes: Vec<_> = status.tables.iter().collect();
    sizes.sort_by_key(|table| std::cmp::Reverse(table.bytes));
    let mut table = Table::new(["TABLE", "SIZE"]);
    for size in sizes {
        table.row([size.name.clone(), text::bytes(size.bytes)]);
    }
    table
}
