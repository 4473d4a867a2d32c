//! Documents among the runs of a store: runs that browser apps recorded and saved.

use kernel::document::{PARENT_MARK, is_mark, run_status};
use kernel::ids::StreamId;
use kernel::problem::quoted;
use kernel::stream::StreamKind;
use runtime::door::Door;
use store::{ListQuery, Listed};

use super::{NAMED, RunName, SHORTEST, is_part, pages, short};
use crate::exit::Failure;

/// The app's id of a document's run.
pub(crate) fn app_id(row: &Listed) -> &str {
    row.index.summary["id"].as_str().unwrap_or_default()
}

/// Every document that a query matches, newest first.
pub(crate) async fn all(door: &Door, query: ListQuery) -> Result<Vec<Listed>, Failure> {
    let ListQuery {
        statuses,
        parent,
        tag,
        limit,
        ..
    } = &query;
    let most = match limit {
        0 => usize::MAX,
        limit => *limit,
    };
    let wanted = ListQuery {
        kind: Some(StreamKind::Document),
        // The store has the app's status, but not open questions.
        statuses: Vec::new(),
        parent: None,
        tag: match parent {
            Some(parent) => Some(format!("{PARENT_MARK}{parent}")),
            None => tag.clone(),
        },
        ..query.clone()
    };
    let is_filtered = !statuses.is_empty() || tag.is_some();
    let rows = pages(door, wanted, if is_filtered { usize::MAX } else { most }).await?;
    let fits = |row: &Listed| {
        let status = run_status(&row.index);
        let has_tag = |tag: &String| !is_mark(tag) && row.index.tags.contains(tag);
        (statuses.is_empty() || statuses.iter().any(|it| it == status))
            && tag.as_ref().is_none_or(has_tag)
    };
    Ok(rows.into_iter().filter(fits).take(most).collect())
}

/// The document with this name: by its own id, by that of its app, or by a part of one of them.
pub(crate) async fn find(door: &Door, name: &RunName) -> Result<Option<StreamId>, Failure> {
    let typed = name.as_str();
    if typed.len() < SHORTEST {
        return Ok(None);
    }
    let rows = all(door, ListQuery::default()).await?;
    let is_whole = |row: &&Listed| row.stream.as_str() == typed || app_id(row) == typed;
    let is_meant =
        |row: &&Listed| is_part(typed, &row.stream) || is_part(typed, &StreamId::new(app_id(row)));
    let mut found: Vec<&Listed> = rows.iter().filter(is_whole).collect();
    if found.is_empty() {
        found = rows.iter().filter(is_meant).collect();
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.stream.clone())),
        several => {
            let named = several.iter().take(NAMED);
            let named: Vec<String> = named
                .map(|row| format!("{} ({} of {})", row.stream, app_id(row), row.tenant))
                .collect();
            let what = format!(
                "{} fits several runs:\n  {}",
                quoted(typed),
                named.join("\n  ")
            );
            Err(Failure::new(what).hint("give the id that starts with doc-"))
        }
    }
}

/// Explains which commands work on a run that a browser app saved.
pub(super) fn is_read_only(document: &StreamId) -> Failure {
    let id = short(document);
    Failure::new(format!("run {id} was recorded by a browser app")).hint(format!(
        "`runwright runs show {id}` shows it; for more, ask a server with --server"
    ))
}
