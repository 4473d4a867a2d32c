//! Events as lines, in columns and colours.

use faces::Mask;
use faces::transcript::{self, Line};
use kernel::ids::Seq;
use serde_json::Value;

use crate::{style, text};

/// An event of a log.
pub(crate) fn of_event(seq: Seq, line: &Line) -> String {
    let kind = format!("{:<27}", line.kind);
    let kind = match line.kind.rsplit('.').next() {
        Some("completed" | "resolved") => style::good(kind),
        Some("failed" | "dead_lettered" | "breached" | "diverged") => style::bad(kind),
        Some("restarted" | "resuming" | "retried" | "cancelled" | "paused") => style::warn(kind),
        Some("chunk") => style::dim(kind),
        _ => kind,
    };
    let node = line.node.as_deref().unwrap_or_default();
    let time = style::dim(&line.time);
    let text = format!("{seq:>5}  {time}  {kind} {node:<14} {}", line.text);
    text.trim_end().to_owned()
}

/// An event of a server, as for a store. An unknown type is shown by its name.
pub(crate) fn of_doc(doc: &Value) -> String {
    if let Some(event) = faces::openwop::v1::read(doc) {
        return of_event(event.seq, &transcript::line(Mask::bare(), &event));
    }
    let word = |name: &str| text::one_line(doc[name].as_str().unwrap_or_default(), 60);
    let time = word("timestamp");
    let time = time.split('T').nth(1).unwrap_or_default();
    let line = format!(
        "{:>5}  {}  {:<27} {:<14}",
        doc["sequence"].as_u64().unwrap_or_default(),
        style::dim(time.trim_end_matches('Z')),
        word("type"),
        word("nodeId"),
    );
    line.trim_end().to_owned()
}
