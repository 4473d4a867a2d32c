//! Answers as text, so that they can be compared between stores and read by a person.
//!
//! Positions and places are left out: they may differ. Bytes are shown by their digest.

use std::fmt::{self, Display, Write as _};

use kernel::batch::Record;
use kernel::digest::Digest;

use crate::error::StoreError;
use crate::types::*;

/// Describes how two answers differ.
pub(super) fn same(reference: impl Display, other: impl Display) -> Result<(), String> {
    let (reference, other) = (reference.to_string(), other.to_string());
    if reference == other {
        return Ok(());
    }
    Err(format!(
        "the reference answers\n{reference}\nthe other store answers\n{other}"
    ))
}

/// A refusal by its kind; each store words `Corrupt` and `Unavailable` in its own way.
pub(super) fn refusal(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt(_) => "Corrupt".into(),
        StoreError::Unavailable(_) => "Unavailable".into(),
        known => format!("{known:?}"),
    }
}

/// An answer or a refusal as text.
pub(super) fn answer<T>(result: Result<T, StoreError>, show: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => format!("refused: {}", refusal(&error)),
    }
}

pub(super) fn debug<T: fmt::Debug>(value: T) -> String {
    format!("{value:?}")
}

pub(super) fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() < 60 => format!("{text:?}"),
        _ => format!(
            "{} bytes {:.8}",
            bytes.len(),
            Digest::compute(bytes).to_string()
        ),
    }
}

pub(super) fn loaded(loaded: Loaded) -> String {
    let Loaded {
        header,
        checkpoint,
        records,
        first_seq,
        next_seq,
        index,
        lease,
    } = loaded;
    let mut text = format!(
        "{} events, {} from {first_seq}\n{header:?}\n{index:?}\n{lease:?}\n",
        next_seq,
        records.len(),
    );
    if let Some(Checkpoint {
        next_seq,
        chain,
        state,
    }) = checkpoint
    {
        line(
            &mut text,
            format!("checkpoint {next_seq} {chain} {}", bytes(&state)),
        );
    }
    for Record { content, chain } in records {
        line(&mut text, format!("{} {chain}", bytes(&content)));
    }
    text
}

pub(super) fn listed(rows: Vec<Listed>) -> String {
    let mut text = String::new();
    for row in rows {
        line(&mut text, format!("{row:?}"));
    }
    text
}

pub(super) fn feed(events: Vec<FeedEvent>) -> String {
    let mut text = String::new();
    if !events.is_sorted_by(|a, b| a.position < b.position) {
        line(&mut text, "positions do not grow".into());
    }
    for FeedEvent {
        position: _,
        stream,
        tenant,
        seq,
        content,
    } in events
    {
        line(
            &mut text,
            format!(
                "{tenant} {stream}.{seq} {:?}",
                content.as_deref().map(bytes)
            ),
        );
    }
    text
}

pub(super) fn outbox(messages: Vec<Outgoing>) -> String {
    let mut text = String::new();
    if !messages.is_sorted_by(|a, b| a.place < b.place) {
        line(&mut text, "places do not grow".into());
    }
    for Outgoing {
        place: _,
        source,
        tenant,
        id,
        target,
        command,
    } in messages
    {
        line(
            &mut text,
            format!("{tenant} {source} -> {target} {id} {}", bytes(&command)),
        );
    }
    text
}

fn line(text: &mut String, line: String) {
    writeln!(text, "{line}").expect("a string takes any text");
}
