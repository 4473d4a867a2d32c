//! An event as one line for a person at a plain terminal.
//!
//! ```text
//! 12:03:04.120  node.started               build    attempt 1
//! ```
//!
//! No colours: the printer of a [`Line`] adds them by its parts. Text from outside the engine is
//! made printable first ([`printable`]), so that a workflow's output cannot move the cursor, set a
//! title or pretend to be another line.

use std::fmt::{self, Write};

use kernel::run::Event;
use kernel::time::Timestamp;

use crate::mask::Mask;

mod agents;
mod text;
mod words;

/// The longest text of a line, in characters; a cut is marked by `…`.
pub const MAX_TEXT: usize = 160;

/// An event as a printable line. [`fmt::Display`] puts the parts in columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time of day, UTC, with milliseconds: `12:03:04.120`.
    pub time: String,
    /// The event's type.
    pub kind: &'static str,
    /// Its node, printable.
    pub node: Option<String>,
    /// The rest, printable, at most [`MAX_TEXT`] characters; may be empty.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.as_deref().unwrap_or("-");
        let line = format!("{}  {:<27} {node:<16} {}", self.time, self.kind, self.text);
        f.write_str(line.trim_end())
    }
}

/// The line of an event, masked by its workflow.
pub fn line(mask: Mask<'_>, event: &Event) -> Line {
    let event = &*mask.event(event);
    Line {
        time: time_of_day(event.at),
        kind: event.body.kind(),
        node: event.body.node().map(|node| printable(node.as_str())),
        // Shortened before it is made printable, too: a chunk of output may be long.
        text: shorten(&printable(&shorten(&text::text(event), MAX_TEXT)), MAX_TEXT),
    }
}

/// A text without characters that a terminal interprets: control characters, line separators and
/// changes of the writing direction are written as escapes.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_unprintable(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// The first `max` characters; `…` marks a cut.
fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
    }
}

fn time_of_day(at: Timestamp) -> String {
    day_and_time(at).1
}

/// The day of a time, UTC: `2026-11-23`.
pub fn day(at: Timestamp) -> String {
    day_and_time(at).0
}

fn day_and_time(at: Timestamp) -> (String, String) {
    let stamp = at.to_string();
    match stamp.split_once('T') {
        Some((day, time)) => (day.to_owned(), time.trim_end_matches('Z').to_owned()),
        None => (String::new(), stamp),
    }
}

/// The due time of an event, relative to its own time: with the day if that differs.
fn due(at: Timestamp, told: Timestamp) -> String {
    let (day_due, time) = day_and_time(at);
    if day_due == day(told) {
        return time;
    }
    format!("{day_due} {time}")
}
