//! Runs by what people type: a whole id, its beginning, its end, or `last`.

use std::path::PathBuf;

use kernel::ids::StreamId;
use kernel::problem::{closest, quoted};
use kernel::stream::StreamKind;
use runtime::door::Door;
use store::{ListCursor, ListQuery, Listed, ReadFrom, StoreError};

use crate::exit::Failure;
use crate::session::Session;

/// Rows asked of the store at a time.
const PAGE: usize = 1_000;
/// Ids named when a part of an id fits several.
const NAMED: usize = 5;
/// The fewest characters that stand for an id.
const SHORTEST: usize = 4;

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
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > 128 || !text.chars().all(is_plain) {
            return Err("a run id holds letters, digits and -, _, . only; \
                        `runwright runs list` shows them");
        }
        Ok(Self(text.to_owned()))
    }
}

/// The end of a run id that people are shown and may type.
pub(crate) fn short(run: &StreamId) -> &str {
    const SHOWN: usize = 8;
    let id = run.as_str();
    match id.char_indices().rev().nth(SHOWN - 1) {
        Some((at, _)) if id.len() > 2 * SHOWN => &id[at..],
        _ => id,
    }
}

/// The run that was meant.
pub(crate) async fn find(
    session: &Session,
    door: &Door,
    RunName(typed): &RunName,
) -> Result<StreamId, Failure> {
    let whole = StreamId::new(typed);
    match door.store().load(&whole, ReadFrom::Seq(u64::MAX), 0).await {
        Ok(loaded) if loaded.header.kind == StreamKind::Run => return Ok(whole),
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
    let runs = all(session, door, ListQuery::default()).await?;
    if matches!(typed.as_str(), "last" | "latest") {
        let last = runs.iter().find(|row| row.index.parent.is_none());
        return last.map(|row| row.stream.clone()).ok_or_else(|| {
            Failure::new("there is no run yet").hint("begin one with `runwright run FILE`")
        });
    }
    let ids = || runs.iter().map(|row| row.stream.as_str());
    let fits = |id: &&str| {
        id.ends_with(typed)
            || id.starts_with(typed)
            || id.trim_start_matches("run-").starts_with(typed)
    };
    let found: Vec<&str> = match typed.len() {
        ..SHORTEST => Vec::new(),
        _ => ids().filter(fits).collect(),
    };
    match found.as_slice() {
        [one] => Ok(StreamId::new(one)),
        [] => Err(unknown(typed, closest(typed, ids().map(tail_of(typed))))),
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

/// As much of the end of an id as was typed, so that a slip in a short form is found too.
fn tail_of(typed: &str) -> impl Fn(&str) -> &str {
    let length = typed.len();
    move |id| match id.len().checked_sub(length) {
        Some(at) if length < id.len() / 2 => &id[at..],
        _ => id,
    }
}

fn unknown(typed: &str, meant: Option<&str>) -> Failure {
    let failure = Failure::new(format!("there is no run {} in this store", quoted(typed)));
    match meant {
        // Of two characters one is always like those of some id.
        _ if typed.len() < SHORTEST => failure.hint(format!(
            "give at least {SHORTEST} characters of its id, or `last`"
        )),
        Some(meant) => failure.hint(format!("did you mean {meant}?")),
        None => failure.hint("`runwright runs list` shows the runs there are"),
    }
}

/// Every run that a query matches, newest first; its limit is that of all pages together.
pub(crate) async fn all(
    session: &Session,
    door: &Door,
    query: ListQuery,
) -> Result<Vec<Listed>, Failure> {
    let most = match query.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let query = ListQuery {
        tenant: Some(session.tenant.clone()),
        kind: Some(StreamKind::Run),
        ..query
    };
    pages(door, query, most).await
}

/// Every row that a query matches.
pub(crate) async fn pages(
    door: &Door,
    mut query: ListQuery,
    most: usize,
) -> Result<Vec<Listed>, Failure> {
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

/// The folder an attempt or a run keeps its files in.
pub(crate) fn folder(session: &Session, run: &StreamId) -> PathBuf {
    session.place.attempts().join(run.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_cannot_be_a_path() {
        for bad in ["", "../x", "a/b", "a b", "a\0", "ä", &"x".repeat(129)] {
            assert!(bad.parse::<RunName>().is_err(), "{bad:?}");
        }
        assert!("run-0199c2d4-aa".parse::<RunName>().is_ok());
    }

    #[test]
    fn the_short_form_is_the_end_of_a_long_id() {
        assert_eq!(
            short(&"run-019a0000-0000-7000-8000-12345678abcd".into()),
            "5678abcd"
        );
        assert_eq!(short(&"run-1".into()), "run-1");
    }
}
