//! Finds runs by typed text: a whole id, its beginning, its end, or `last`.

pub(crate) mod documents;

use std::path::PathBuf;

use faces::openwop::v2::project;
use faces::player::names::is_session_id;
use kernel::ids::StreamId;
use kernel::problem::quoted;
use kernel::stream::StreamKind;
use runtime::door::Door;
use store::{ListCursor, ListQuery, Listed, StoreError};

use crate::exit::Failure;
use crate::session::Session;

/// Rows per query of the store.
const PAGE: usize = 1_000;
/// Maximum ids listed for an ambiguous part.
const NAMED: usize = 5;
/// Minimum characters that denote an id.
pub(crate) const SHORTEST: usize = 4;

/// A run as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunName(String);

impl RunName {
    /// As typed.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for RunName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        // The id of a run of another host begins with its tenant.
        let text = match text.split_once('/') {
            Some((tenant, id)) if !tenant.is_empty() => format!("{}~2F{id}", project(tenant)),
            _ => text.to_owned(),
        };
        if text.is_empty() || text.len() > 128 || !text.chars().all(is_plain) {
            return Err(
                "a run id has only letters, digits and -, _, .; `runwright runs list` shows \
                        the ids",
            );
        }
        Ok(Self(text))
    }
}

/// The displayed end of a run id, which users may type. The name of a session is shown as a whole:
/// its end is a time of day, which others may share.
pub(crate) fn short(run: &StreamId) -> &str {
    const SHOWN: usize = 8;
    let id = run.as_str();
    match id.char_indices().rev().nth(SHOWN - 1) {
        Some((at, _)) if id.len() > 2 * SHOWN && !is_session_id(id) => &id[at..],
        _ => id,
    }
}

/// The run with this name, of any tenant. If none matches, ids that contain the typed text are
/// suggested.
pub(crate) async fn find(door: &Door, name: &RunName) -> Result<StreamId, Failure> {
    match search(door, name).await? {
        Sought::Found(run) => Ok(run),
        Sought::Unknown(like) => match documents::find(door, name).await? {
            Some(document) => Err(documents::is_read_only(&document)),
            None => Err(unknown(name, &like)),
        },
    }
}

/// A run of an engine, or one that a browser app saved.
pub(crate) enum Shown {
    Run(StreamId),
    Document(StreamId),
}

/// The run or document with this name, for a command that only shows it.
pub(crate) async fn find_to_show(door: &Door, name: &RunName) -> Result<Shown, Failure> {
    match search(door, name).await? {
        Sought::Found(run) => Ok(Shown::Run(run)),
        Sought::Unknown(like) => match documents::find(door, name).await? {
            Some(document) => Ok(Shown::Document(document)),
            None => Err(unknown(name, &like)),
        },
    }
}

/// The run with this name, for an irreversible command: without suggestions.
pub(crate) async fn find_to_end(door: &Door, name: &RunName) -> Result<StreamId, Failure> {
    match search(door, name).await? {
        Sought::Found(run) => Ok(run),
        Sought::Unknown(_) => Err(unknown(name, &[])),
    }
}

/// The result of a search.
enum Sought {
    Found(StreamId),
    /// No run. These ids contain the typed text.
    Unknown(Vec<StreamId>),
}

async fn search(door: &Door, RunName(typed): &RunName) -> Result<Sought, Failure> {
    let whole = StreamId::new(typed);
    match door.store().load_head(&whole).await {
        Ok(loaded) if loaded.header.kind == StreamKind::Run => return Ok(Sought::Found(whole)),
        Ok(_) | Err(StoreError::Missing) => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(grave) = door.store().tombstone(&whole).await? {
        let what = format!(
            "run {whole} was purged at {}: {}",
            grave.purged_at, grave.reason
        );
        return Err(Failure::new(what));
    }
    let runs = all(door, ListQuery::default()).await?;
    if matches!(typed.as_str(), "last" | "latest") {
        let last = runs.iter().find(|row| row.index.parent.is_none());
        let last = last.map(|row| Sought::Found(row.stream.clone()));
        return last
            .ok_or_else(|| Failure::new("no run yet").hint("start one with `runwright run FILE`"));
    }
    if typed.len() < SHORTEST {
        return Ok(Sought::Unknown(Vec::new()));
    }
    let like: Vec<&StreamId> = runs
        .iter()
        .map(|row| &row.stream)
        .filter(|run| run.as_str().contains(typed))
        .collect();
    let found: Vec<&str> = like
        .iter()
        .filter(|run| is_part(typed, run))
        .map(|run| run.as_str())
        .collect();
    match found.as_slice() {
        [one] => Ok(Sought::Found(StreamId::new(one))),
        [] => Ok(Sought::Unknown(like.into_iter().cloned().collect())),
        several => {
            let named = several
                .iter()
                .take(NAMED)
                .copied()
                .collect::<Vec<_>>()
                .join("\n  ");
            let more = match several.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!("\n  and {n} more"),
            };
            let what = format!("{} fits several runs:\n  {named}{more}", quoted(typed));
            Err(Failure::new(what).hint("give more characters; the end of an id differs most"))
        }
    }
}

/// Whether a text denotes a run: the beginning or the end of its id, or the beginning of the
/// displayed end.
pub(crate) fn is_part(typed: &str, run: &StreamId) -> bool {
    let id = run.as_str();
    id.ends_with(typed)
        || id.starts_with(typed)
        || id.trim_start_matches("run-").starts_with(typed)
        || short(run).starts_with(typed)
}

fn unknown(RunName(typed): &RunName, like: &[StreamId]) -> Failure {
    let failure = Failure::new(format!("no run {} in this store", quoted(typed)));
    match like {
        _ if typed.len() < SHORTEST => failure.hint(format!(
            "give at least {SHORTEST} characters of its id, or `last`"
        )),
        [] => failure.hint("`runwright runs list` shows the runs"),
        like => {
            let named: Vec<&str> = like.iter().take(NAMED).map(short).collect();
            failure.hint(format!("did you mean {}?", named.join(" or ")))
        }
    }
}

/// Every run that a query matches, newest first; its limit counts over all pages. A query without a
/// tenant covers all of them: a user who can read the file of a store is its operator.
pub(crate) async fn all(door: &Door, query: ListQuery) -> Result<Vec<Listed>, Failure> {
    let most = match query.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let query = ListQuery {
        kind: Some(StreamKind::Run),
        ..query
    };
    Ok(pages(door, query, most).await?)
}

/// Every row that a query matches.
pub(crate) async fn pages(
    door: &Door,
    mut query: ListQuery,
    most: usize,
) -> Result<Vec<Listed>, StoreError> {
    let mut rows = Vec::new();
    loop {
        query.limit = PAGE.min(most - rows.len());
        let page = door.store().list(query.clone()).await?;
        let last = page.last().map(|row| ListCursor {
            created_at: row.index.created_at,
            stream: row.stream.clone(),
        });
        let is_last = page.len() < query.limit;
        rows.extend(page);
        if is_last || last.is_none() || rows.len() >= most {
            return Ok(rows);
        }
        query.after = last;
    }
}

/// The folder with the files of a run and its attempts.
pub(crate) fn folder(session: &Session, run: &StreamId) -> PathBuf {
    session.place.attempts().join(run.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_the_start_or_end_of_its_id() {
        let run = StreamId::new("run-019a0000-0000-7000-8000-12345678abcd");
        for part in ["run-019a", "019a0000", "5678", "78abcd", "abcd"] {
            assert!(is_part(part, &run), "{part}");
        }
        for part in ["1234", "678a", "7000"] {
            assert!(!is_part(part, &run), "{part}");
        }
    }

    #[test]
    fn a_run_id_cannot_be_a_path() {
        for bad in ["", "/x", "a/b c", "a b", "a\0", "ä", &"x".repeat(129)] {
            assert!(bad.parse::<RunName>().is_err(), "{bad:?}");
        }
        assert!("run-0199c2d4-aa".parse::<RunName>().is_ok());
        for path in ["../x", "a/b"] {
            assert!(!path.parse::<RunName>().unwrap().as_str().contains('/'));
        }
    }

    #[test]
    fn the_short_form_is_the_end_of_a_long_id() {
        assert_eq!(
            short(&"run-019a0000-0000-7000-8000-12345678abcd".into()),
            "5678abcd"
        );
        assert_eq!(short(&"run-1".into()), "run-1");
        let session = "WFR-fix-a-bug-20260317-143022";
        assert_eq!(short(&session.into()), session);
    }
}
