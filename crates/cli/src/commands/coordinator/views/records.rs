//! `dispatch.json`, `mailbox.json` and `dispatch-seen.json`.

use std::collections::BTreeSet;
use std::path::Path;

use faces::coordinator::{DispatchRecord, MailRecord, Records};
use kernel::coordinator::{CoordinatorEvent, Event};
use serde_json::json;

use super::edit::{self, RecordFile};
use super::{DISPATCH, Failed, LEDGER, LEDGER_EPOCH, LEDGER_VERSION, MAILBOX, replace};

const LEDGER_TAIL: &str = "\n  ]\n}";

fn ledger_head() -> String {
    format!(
        "{{\n  \"schema_version\": {LEDGER_VERSION},\n  \"ledger_epoch\": {LEDGER_EPOCH},\n  \
         \"request_ids\": [\n"
    )
}

/// Whether an event removes entries from files, which are then rebuilt.
pub(super) fn rewrites(event: &CoordinatorEvent) -> bool {
    matches!(
        event,
        CoordinatorEvent::DispatchRemoved { .. }
            | CoordinatorEvent::DispatchCompacted
            | CoordinatorEvent::Imported { .. }
    )
}

/// Writes the files from the whole log.
pub(super) fn write_all(dir: &Path, log: &[Event]) -> Result<(), Failed> {
    let mut records = Records::default();
    let mut ids = reserved(dir);
    for event in log {
        records.apply(event);
        if let CoordinatorEvent::DispatchQueued { request_id, .. } = &event.body {
            ids.insert(request_id.to_string());
        }
    }
    replace(
        dir,
        DISPATCH,
        RecordFile::from_records(records.dispatches()).bytes(),
    )?;
    replace(
        dir,
        MAILBOX,
        RecordFile::from_records(records.mail().iter()).bytes(),
    )?;
    replace(dir, LEDGER, ledger(&ids).as_bytes())
}

/// Ids that only the ledger has: those that another program's log had lost.
fn reserved(dir: &Path) -> BTreeSet<String> {
    let read = || -> Option<BTreeSet<String>> {
        let bytes = std::fs::read(dir.join(LEDGER)).ok()?;
        let mut ledger: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        serde_json::from_value(ledger.get_mut("request_ids")?.take()).ok()
    };
    read().unwrap_or_default()
}

fn ledger(ids: &BTreeSet<String>) -> String {
    if ids.is_empty() {
        // An object keeps its fields sorted; the ledger does not.
        return ledger_head().trim_end_matches('\n').to_owned() + "]\n}";
    }
    let lines: Vec<String> = ids.iter().map(|id| format!("    {}", json!(id))).collect();
    format!("{}{}{LEDGER_TAIL}", ledger_head(), lines.join(",\n"))
}

/// Applies new events to the files. `false` when one is malformed.
pub(super) fn follow(dir: &Path, news: &[Event]) -> Result<bool, Failed> {
    let mut dispatches = Lazy::new(dir, DISPATCH);
    let mut mail = Lazy::new(dir, MAILBOX);
    let mut ledger = None;
    for event in news {
        let followed = match &event.body {
            CoordinatorEvent::DispatchQueued {
                request_id,
                target,
                metadata,
                ..
            } => {
                let path = dir.join(LEDGER);
                let text: &mut String = match &mut ledger {
                    Some(text) => text,
                    None => ledger.insert(std::fs::read_to_string(path)?),
                };
                let record =
                    DispatchRecord::queued(request_id, target, metadata.as_deref(), event.at);
                edit::insert_sorted(text, &ledger_head(), LEDGER_TAIL, request_id.as_str())
                    .and(dispatches.file()?.push(&record))
            }
            CoordinatorEvent::DispatchNotified { request_id, .. }
            | CoordinatorEvent::DispatchDelivered { request_id, .. }
            | CoordinatorEvent::DispatchFailed { request_id, .. } => {
                change(dispatches.file()?, "request_id", request_id.as_str(), {
                    |record: &mut DispatchRecord| record.advance(&event.body, event.at)
                })
            }
            CoordinatorEvent::MailCreated { .. } => {
                let file = mail.file()?;
                MailRecord::created(&event.body, event.at).and_then(|record| file.push(&record))
            }
            CoordinatorEvent::MailNotified { message_id, .. }
            | CoordinatorEvent::MailDelivered { message_id, .. } => {
                change(mail.file()?, "message_id", message_id, {
                    |record: &mut MailRecord| record.advance(&event.body, event.at)
                })
            }
            _ => Some(()),
        };
        if followed.is_none() {
            return Ok(false);
        }
    }
    // The ledger first: it must contain every id of the other files.
    if let Some(text) = ledger {
        replace(dir, LEDGER, text.as_bytes())?;
    }
    dispatches.write()?;
    mail.write()?;
    Ok(true)
}

fn change<T: serde::Serialize + serde::de::DeserializeOwned>(
    file: &mut RecordFile,
    field: &str,
    value: &str,
    change: impl FnOnce(&mut T),
) -> Option<()> {
    let (range, text) = file.find(field, value)?;
    let mut record: T = serde_json::from_str(text).ok()?;
    change(&mut record);
    file.put(range, &record);
    Some(())
}

/// A file that is read on demand and written if it changed.
struct Lazy<'a> {
    dir: &'a Path,
    name: &'static str,
    file: Option<RecordFile>,
}

impl<'a> Lazy<'a> {
    fn new(dir: &'a Path, name: &'static str) -> Self {
        Self {
            dir,
            name,
            file: None,
        }
    }

    fn file(&mut self) -> Result<&mut RecordFile, Failed> {
        match &mut self.file {
            Some(file) => Ok(file),
            empty => {
                let text = std::fs::read_to_string(self.dir.join(self.name))?;
                Ok(empty.insert(RecordFile::from(text)))
            }
        }
    }

    fn write(&self) -> Result<(), Failed> {
        match &self.file {
            Some(file) => replace(self.dir, self.name, file.bytes()),
            None => Ok(()),
        }
    }
}
