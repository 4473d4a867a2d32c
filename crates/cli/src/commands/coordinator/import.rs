//! Takes over a state directory that the published program wrote.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use faces::coordinator::{EventJson, is_event};
use kernel::coordinator::{Coordinator, Import, ImportedEntry, ImportedMail, Reached};
use kernel::ids::RequestId;
use kernel::limits::MAX_SNAPSHOT_BYTES;
use runtime::named_file;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use store::{Guard, LeaseChange};

use super::Refused;
use super::folder::Folder;
use super::views::{
    EVENTS, LEDGER, LEDGER_EPOCH, LEDGER_MISSING, LEDGER_VERSION, MAILBOX, SNAPSHOT,
};

/// All ids that requests ever used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    schema_version: u32,
    ledger_epoch: u32,
    request_ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstLedger {
    schema_version: u32,
    request_ids: Vec<String>,
}

/// Its name is part of the error message for unreadable files.
#[derive(Deserialize)]
#[serde(untagged)]
enum DispatchSeenLedger {
    Present(Ledger),
    First(FirstLedger),
}

#[derive(Deserialize)]
struct Mailbox {
    records: Vec<Mail>,
}

#[derive(Deserialize)]
struct Mail {
    message_id: String,
    from_worker: String,
    to_worker: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    notified_at: Option<String>,
    #[serde(default)]
    delivered_at: Option<String>,
}

/// Whether a directory contains a state in the published program's sense.
pub(super) fn is_state(dir: &Path) -> bool {
    [EVENTS, SNAPSHOT, MAILBOX]
        .iter()
        .any(|name| dir.join(name).exists())
}

/// The error for a directory that cannot be changed, in the published program's words.
pub(super) fn unloadable(Refused(why): Refused) -> Refused {
    Refused(format!("failed to load authoritative runtime state: {why}"))
}

/// The state that a new runtime takes over from its directory.
#[derive(Debug)]
pub(super) enum Found {
    /// The runtime has events: then nothing else is imported.
    Known(Coordinator),
    /// Nothing to import.
    Nothing,
    /// This.
    Left(Import),
}

/// The published program's state in the directory.
pub(super) fn look(folder: &Folder) -> Result<Found, Refused> {
    let coordinator = folder.standing_now()?;
    if coordinator.next_seq() > 0 {
        super::views::check_ledger(&folder.path, &folder.data)?;
        return Ok(Found::Known(coordinator));
    }
    // Ids without events belong to a lost state; they stay taken.
    let ledger_alone = !is_state(&folder.path) && folder.path.join(LEDGER).exists();
    if !is_state(&folder.path) && !ledger_alone {
        return Ok(Found::Nothing);
    }
    let import = read(&folder.path, ledger_alone)?;
    let is_empty = import.entries.is_empty() && import.mail.is_empty() && import.used.is_empty();
    Ok(if is_empty {
        Found::Nothing
    } else {
        Found::Left(import)
    })
}

/// Takes over the published program's state in the directory, once. From then on the requested
/// contract is in force; requesting another one is an error.
pub(super) fn take_over(folder: &Folder) -> Result<(), Refused> {
    match look(folder)? {
        Found::Nothing => Ok(()),
        Found::Known(coordinator) => folder.agrees(&coordinator),
        Found::Left(import) => append(folder, import),
    }
}

/// Writes the import to the folder's store, atomically.
pub(super) fn append(folder: &Folder, import: Import) -> Result<(), Refused> {
    let store = folder.door().store();
    let batch = folder
        .standing_now()?
        .import(import, store.now())
        .map_err(|rejection| faces::coordinator::text(&rejection))?;
    folder
        .wait(store.append(batch, Guard::Outside, LeaseChange::Keep))
        .map(drop)
        .map_err(|error| Refused(format!("io error: {error}")))
}

fn read(dir: &Path, ledger_alone: bool) -> Result<Import, Refused> {
    let entries = if ledger_alone {
        Vec::new()
    } else {
        entries(&dir.join(EVENTS))?
    };
    let used = ledger(dir)?;
    let events: Vec<&EventJson> = entries
        .iter()
        .filter_map(|(event, _)| event.as_ref())
        .collect();
    for event in &events {
        // Removed ids once existed, even where the log no longer contains them.
        let ids = match event {
            EventJson::DispatchQueued { request_id, .. } => std::slice::from_ref(request_id),
            EventJson::DispatchRecordsRemoved { request_ids } => request_ids,
            _ => &[],
        };
        if !ids.iter().all(|id| used.contains(id.as_str())) {
            return Err(concat!(
                r#"dispatch error: invalid dispatch request id: ""#,
                r#"dispatch seen ledger omits an authoritative dispatch id""#
            )
            .into());
        }
    }
    Ok(Import {
        mail: mail(dir, &events),
        entries: entries.into_iter().filter_map(imported).collect(),
        used,
    })
}

/// The imported form of an entry. Mailboxes are imported separately.
fn imported((event, text): (Option<EventJson>, String)) -> Option<ImportedEntry> {
    let is_mail = matches!(
        event,
        Some(
            EventJson::MailboxMessageCreated { .. }
                | EventJson::MailboxNotified { .. }
                | EventJson::MailboxDelivered { .. }
        )
    );
    (!is_mail).then(|| ImportedEntry {
        command: event.as_ref().and_then(EventJson::command),
        text,
    })
}

/// The entries of a log of events, each with its text. An entry with an unknown name is not an
/// event here; its text is kept.
fn entries(path: &Path) -> Result<Vec<(Option<EventJson>, String)>, Refused> {
    let bytes = bytes(path)?;
    let values: Vec<Value> = parsed(&bytes)?;
    let texts = elements(&bytes);
    values
        .into_iter()
        .zip(texts)
        .map(|(value, text)| {
            let name = value["event"].as_str().unwrap_or_default();
            if !name.is_empty() && !is_event(name) {
                return Ok((None, text));
            }
            let event = serde_json::from_value(value);
            let event = event.map_err(|error| Refused(format!("json error: {error}")))?;
            Ok((Some(event), text))
        })
        .collect()
}

/// The texts of the elements of a valid array.
fn elements(array: &[u8]) -> Vec<String> {
    let is_between = |b: &&u8| b.is_ascii_whitespace() || **b == b',';
    let mut texts = Vec::new();
    let mut rest = (array.trim_ascii_start().strip_prefix(b"[")).unwrap_or_default();
    loop {
        rest = &rest[rest.iter().take_while(is_between).count()..];
        let mut read = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        let Some(Ok(IgnoredAny)) = read.next() else {
            return texts;
        };
        let (element, behind) = rest.split_at(read.byte_offset());
        texts.push(String::from_utf8_lossy(element).trim_end().to_owned());
        rest = behind;
    }
}

/// The mailboxes' own file replaces the events' content; if it is unreadable, the events count.
fn mail(dir: &Path, events: &[&EventJson]) -> Vec<ImportedMail> {
    if let Ok(mailbox) = json::<Mailbox>(&dir.join(MAILBOX)) {
        let imported = mailbox.records.into_iter().map(|mail| ImportedMail {
            message_id: mail.message_id,
            from_worker: mail.from_worker,
            to_worker: mail.to_worker,
            body: mail.body,
            created: mail.created_at,
            notified: Reached::at(mail.notified_at),
            delivered: Reached::at(mail.delivered_at),
        });
        return imported.collect();
    }
    let mut messages: Vec<ImportedMail> = Vec::new();
    for event in events {
        let told = |messages: &mut Vec<ImportedMail>, id: &str| {
            messages.iter().position(|mail| mail.message_id == id)
        };
        match event {
            EventJson::MailboxMessageCreated {
                message_id,
                from_worker,
                to_worker,
                body,
            } => messages.push(ImportedMail {
                message_id: message_id.clone(),
                from_worker: from_worker.clone(),
                to_worker: to_worker.clone(),
                body: body.clone().unwrap_or_default(),
                created: None,
                notified: Reached::No,
                delivered: Reached::No,
            }),
            EventJson::MailboxNotified { message_id } => {
                if let Some(place) = told(&mut messages, message_id) {
                    messages[place].notified = Reached::Sometime;
                }
            }
            EventJson::MailboxDelivered { message_id } => {
                if let Some(place) = told(&mut messages, message_id) {
                    messages[place].delivered = Reached::Sometime;
                }
            }
            _ => {}
        }
    }
    messages
}

fn ledger(dir: &Path) -> Result<BTreeSet<RequestId>, Refused> {
    let path = dir.join(LEDGER);
    if !path.exists() {
        return Err(LEDGER_MISSING.into());
    }
    let ids = match json(&path)? {
        DispatchSeenLedger::Present(ledger)
            if (ledger.schema_version, ledger.ledger_epoch) == (LEDGER_VERSION, LEDGER_EPOCH) =>
        {
            ledger.request_ids
        }
        DispatchSeenLedger::First(ledger) if ledger.schema_version == 1 => ledger.request_ids,
        DispatchSeenLedger::Present(_) | DispatchSeenLedger::First(_) => {
            return Err(
                "io error: unsupported dispatch seen ledger schema version or epoch".into(),
            );
        }
    };
    let mut seen = BTreeSet::new();
    for id in ids {
        if id.is_empty() {
            return Err(r#"dispatch error: invalid dispatch request id: """#.into());
        }
        if !seen.insert(RequestId::new(id.clone())) {
            return Err(format!("dispatch error: duplicate dispatch request id: {id}").into());
        }
    }
    Ok(seen)
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Refused> {
    parsed(&bytes(path)?)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Refused> {
    named_file::read(path, MAX_SNAPSHOT_BYTES)
        .map_err(|error: io::Error| Refused(format!("io error: {error}")))
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(bytes).map_err(|error| format!("json error: {error}").into())
}
