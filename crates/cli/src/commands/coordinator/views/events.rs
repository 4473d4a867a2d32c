//! `events.json`: the published events as one array, which is appended to.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use faces::coordinator::EventJson;
use kernel::coordinator::{CoordinatorEvent, DispatchStatus, Event};
use kernel::ids::RequestId;

use super::{Failed, edit};

/// The end of the array.
const END: &str = "\n]";

/// An event as an entry of the array. `None` for one that the published program would reject.
pub(super) fn shown(event: &Event) -> Option<String> {
    entry(event, Origin::Here)
}

/// The original writer of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This program.
    Here,
    /// The program whose files were taken over. Its entries stay.
    Elsewhere,
}

fn entry(event: &Event, origin: Origin) -> Option<String> {
    if let CoordinatorEvent::Foreign { text } = &event.body {
        return Some(format!("  {text}"));
    }
    let json = EventJson::published(&event.body);
    let is_shown = match origin {
        Origin::Here => json.is_published(),
        Origin::Elsewhere => true,
    };
    is_shown.then(|| edit::pretty(&json, 2))
}

/// Whether an event may void earlier events of the authority, which then leave the file.
pub(super) fn voids(event: &CoordinatorEvent) -> bool {
    matches!(
        event,
        CoordinatorEvent::AuthorityAcquired(_) | CoordinatorEvent::AuthorityReleased { .. }
    )
}

/// The number of events before the beginning of the last lease without another owner's lease before
/// it. The published program has neither release nor takeover: of two owners it would keep the
/// first.
fn before_authority(log: &[Event]) -> usize {
    let mut owner: Option<&str> = None;
    let mut begin = 0;
    for (at, event) in log.iter().enumerate() {
        match &event.body {
            CoordinatorEvent::AuthorityAcquired(lease) => {
                if owner.is_some_and(|owner| owner != lease.owner) {
                    begin = at;
                }
                owner = Some(&lease.owner);
            }
            CoordinatorEvent::AuthorityReleased { .. } => (owner, begin) = (None, at),
            _ => {}
        }
    }
    begin
}

/// Whether an event changes the authority, here or in its original log.
fn is_of_authority(event: &CoordinatorEvent) -> bool {
    match event {
        CoordinatorEvent::Foreign { text } => {
            let read = serde_json::from_str::<EventJson>(text);
            read.is_ok_and(|event| event.is_of_authority())
        }
        CoordinatorEvent::AuthorityRenewed(_) => true,
        event => voids(event),
    }
}

/// The entries of a whole log, without removed requests, which the published program erases.
pub(super) fn of_log(log: &[Event]) -> Vec<String> {
    let mut erased: HashSet<&RequestId> = HashSet::new();
    let mut settled: HashSet<&RequestId> = HashSet::new();
    for event in log {
        match &event.body {
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => erased.extend(request_ids),
            CoordinatorEvent::DispatchCompacted => erased.extend(settled.drain()),
            body => {
                if let Some((request, DispatchStatus::Delivered | DispatchStatus::Failed)) =
                    dispatch(body)
                {
                    settled.insert(request);
                }
            }
        }
    }
    let begin = before_authority(log);
    let imported = match log.first().map(|event| &event.body) {
        Some(CoordinatorEvent::Imported { events }) => *events,
        _ => 0,
    };
    let origin = |event: &Event| {
        if (1..=imported).contains(&event.seq) {
            Origin::Elsewhere
        } else {
            Origin::Here
        }
    };
    (log.iter().enumerate())
        .filter(|(at, event)| match dispatch(&event.body) {
            Some((request, _)) => !erased.contains(request),
            None if is_of_authority(&event.body) => *at >= begin,
            None => !super::records::rewrites(&event.body),
        })
        .filter_map(|(_, event)| entry(event, origin(event)))
        .collect()
}

fn dispatch(event: &CoordinatorEvent) -> Option<(&RequestId, DispatchStatus)> {
    Some(match event {
        CoordinatorEvent::DispatchQueued { request_id, .. } => {
            (request_id, DispatchStatus::Pending)
        }
        CoordinatorEvent::DispatchNotified { request_id, .. } => {
            (request_id, DispatchStatus::Notified)
        }
        CoordinatorEvent::DispatchDelivered { request_id, .. } => {
            (request_id, DispatchStatus::Delivered)
        }
        CoordinatorEvent::DispatchFailed { request_id, .. } => (request_id, DispatchStatus::Failed),
        _ => return None,
    })
}

/// The whole array.
pub(super) fn text(entries: &[String]) -> String {
    match entries {
        [] => "[]".to_owned(),
        entries => format!("[\n{}{END}", entries.join(",\n")),
    }
}

/// Appends entries. `false` when the file does not end as expected.
pub(super) fn extend(path: &Path, count: u64, entries: &[String]) -> Result<bool, Failed> {
    if entries.is_empty() {
        return Ok(true);
    }
    let file = File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    if count == 0 {
        return Ok(false);
    }
    let Some(at) = length.checked_sub(END.len() as u64) else {
        return Ok(false);
    };
    let mut end = [0; END.len()];
    file.read_exact_at(&mut end, at)?;
    if end != END.as_bytes() {
        return Ok(false);
    }
    let more = format!(",\n{}{END}", entries.join(",\n"));
    file.write_all_at(more.as_bytes(), at)?;
    Ok(true)
}
