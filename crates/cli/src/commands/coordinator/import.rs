//! Takes over a state directory that the published program wrote.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use faces::coordinator::EventJson;
use kernel::coordinator::{Coordinator, Import, ImportedMail, Reached};
use kernel::ids::RequestId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::{Guard, HoldChange};

use super::Refused;
use super::folder::Folder;
use super::views::{
    EVENTS, LEDGER, LEDGER_EPOCH, LEDGER_MISSING, LEDGER_VERSION, MAILBOX, SNAPSHOT,
};

/// The ids ever used for a request.
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

/// Its name is part of what is said of one that does not read.
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

/// Whether a directory holds what the published program calls a state.
pub(super) fn is_state(dir: &Path) -> bool {
    [EVENTS, SNAPSHOT, MAILBOX]
        .iter()
        .any(|name| dir.join(name).exists())
}

/// Why a directory cannot be changed, as the published program says it.
pub(super) fn unloadable(Refused(why): Refused) -> Refused {
    Refused(format!("failed to load authoritative runtime state: {why}"))
}

/// Takes over what the published program left in the directory, once: a store that knows its
/// runtime is never asked again.
pub(super) fn take_over(folder: &Folder) -> Result<(), Refused> {
    let coordinator = folder
        .coordinator()
        .map_err(|error| Refused(format!("io error: {error}")))?;
    if coordinator.next_seq() > 0 {
        return super::views::check_ledger(&folder.path, &folder.data);
    }
    // Ids without any events are those of a state that was lost; they stay taken.
    let ledger_alone = !is_state(&folder.path) && folder.path.join(LEDGER).exists();
    if !is_state(&folder.path) && !ledger_alone {
        return Ok(());
    }
    let import = read(&folder.path, ledger_alone)?;
    if import.commands.is_empty() && import.mail.is_empty() && import.used.is_empty() {
        return Ok(());
    }
    append(folder, coordinator, import)
}

fn append(folder: &Folder, coordinator: Coordinator, import: Import) -> Result<(), Refused> {
    let store = folder.door().store();
    let batches = coordinator
        .import(import, store.now())
        .map_err(|rejection| faces::coordinator::text(&rejection))?;
    for batch in batches {
        folder
            .wait(store.append(batch, Guard::Outside, HoldChange::Keep))
            .map_err(|error| Refused(format!("io error: {error}")))?;
    }
    Ok(())
}

fn read(dir: &Path, ledger_alone: bool) -> Result<Import, Refused> {
    let events: Vec<serde_json::Value> = match ledger_alone {
        true => Vec::new(),
        false => json(&dir.join(EVENTS))?,
    };
    // An event that is not known is kept out, as whoever wrote it knows it better.
    let events: Vec<EventJson> = (events.into_iter())
        .filter_map(|event| serde_json::from_value(event).ok())
        .collect();
    let used = ledger(dir)?;
    for event in &events {
        if let EventJson::DispatchQueued { request_id, .. } = event
            && !used.contains(request_id.as_str())
        {
            return Err(concat!(
                r#"dispatch error: invalid dispatch request id: ""#,
                r#"dispatch seen ledger omits an authoritative dispatch id""#
            )
            .into());
        }
    }
    Ok(Import {
        commands: events.iter().filter_map(EventJson::command).collect(),
        mail: mail(dir, &events),
        used,
    })
}

/// The mailboxes' own file replaces what the events say; where it does not read, they stand.
fn mail(dir: &Path, events: &[EventJson]) -> Vec<ImportedMail> {
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
    let bytes = std::fs::read(path).map_err(|error: io::Error| format!("io error: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("json error: {error}").into())
}
