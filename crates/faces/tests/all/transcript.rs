//! Events as lines for a terminal.

use faces::Mask;
use faces::transcript::{Line, MAX_TEXT, line, printable};
use kernel::run::{Event, RunEvent};
use kernel::time::Timestamp;

use crate::samples;

#[test]
fn every_kind_of_event_has_a_readable_line() {
    let lines: Vec<_> = samples::log()
        .iter()
        .map(|event| line(Mask::bare(), event).to_string())
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn nothing_from_outside_reaches_the_terminal_unescaped() {
    let hostile = "a\u{1b}]0;title\u{7}\r\n\u{9b}31m\u{202e}\u{2028}é→";
    assert_eq!(
        printable(hostile),
        "a\\u{1b}]0;title\\u{7}\\r\\n\\u{9b}31m\\u{202e}\\u{2028}é→"
    );
    let Line { node, text, .. } = line(Mask::bare(), &logged(hostile.repeat(100)));
    let shown = format!("{node:?}{text}");
    assert!(!shown.chars().any(char::is_control), "{shown}");
    assert_eq!(text.chars().count(), MAX_TEXT);
    assert!(text.ends_with('…'));
}

#[test]
fn a_text_that_just_fits_is_not_cut() {
    let message = "x".repeat(MAX_TEXT - "info: ".len());
    assert_eq!(
        line(Mask::bare(), &logged(message.clone())).text,
        format!("info: {message}")
    );
    assert!(
        line(Mask::bare(), &logged(message + "x"))
            .text
            .ends_with('…')
    );
}

fn logged(message: String) -> Event {
    Event {
        seq: 0,
        at: Timestamp(0),
        cause: None,
        body: RunEvent::LogAppended {
            level: kernel::run::event::LogLevel::Info,
            message,
            attempt: None,
        },
    }
}
