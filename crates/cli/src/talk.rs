//! Messages on stderr: for people, never for programs.
//!
//! All messages pass through here, because progress bars, plain lines and the engine's log share
//! the terminal: messages appear above the bars.

use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use indicatif::MultiProgress;
use kernel::problem::Problem;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::env;
use crate::exit::Failure;
use crate::next;
use crate::style;

/// The bars that are on the terminal.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Prints one or more lines; suggested commands are completed with the place.
pub(crate) fn say(text: impl AsRef<str>) {
    write(&next::placed(text.as_ref()));
}

/// Writes above the bars, if there are any.
fn write(text: &str) {
    let write = || {
        // An error on a closed stderr cannot be reported.
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    };
    let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner);
    match &*bars {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}

/// Prints the reason of a failure.
pub(crate) fn say_failure(failure: &Failure) {
    say(format!("{} {failure}", style::bad("error:")));
    if let Failure::Said {
        hint: Some(hint), ..
    } = failure
    {
        say(format!("{} {hint}", style::dim(" next:")));
    }
}

/// Prints the warnings about an accepted document.
pub(crate) fn say_warnings(document: &str, warnings: &[Problem]) {
    for warning in warnings {
        say(format!(
            "{} {document}: {warning} ({})",
            style::warn("warning:"),
            warning.code.as_str()
        ));
    }
}

/// Sets or clears the bars above which messages are printed.
pub(crate) fn draw_above(bars: Option<MultiProgress>) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = bars;
}

/// Whether stderr is a terminal that can show bars.
pub(crate) fn is_drawable() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether messages may be coloured.
pub(crate) fn is_coloured() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// Whether the terminal shows more than ASCII.
pub(crate) fn has_symbols() -> bool {
    let encoding = env::ENCODING
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    encoding.is_some_and(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

/// Prints the engine's log, filtered by `RUNWRIGHT_LOG`; by default warnings.
pub(crate) fn listen_to_engine() {
    let reports = tracing_subscriber::fmt().with_env_filter(filter("error"));
    // A second subscriber is rejected; the first one stays.
    let _ = reports.with_writer(Lines).try_init();
}

/// Prints a server's log, one JSON object per line.
pub(crate) fn listen_to_server() {
    let reports = tracing_subscriber::fmt().with_env_filter(filter("info"));
    let reports = reports.json().flatten_event(true).with_span_list(false);
    let _ = reports.with_writer(Lines).try_init();
    std::panic::set_hook(Box::new(report_panic));
}

/// Logs a panic without its message, which may contain data of a request.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(place, "panicked");
}

/// The filter from `RUNWRIGHT_LOG`.
fn filter(otherwise: &str) -> EnvFilter {
    let filter = std::env::var(env::LOG)
        .ok()
        .filter(|filter| !filter.is_empty());
    match EnvFilter::try_new(filter.as_deref().unwrap_or(otherwise)) {
        Ok(filter) => filter,
        Err(_) => {
            say(format!(
                "{} is not a log filter and was ignored; write for example info",
                env::LOG
            ));
            EnvFilter::new(otherwise)
        }
    }
}

/// Writes each log entry unchanged.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// One log entry, printed when it is complete.
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        write(String::from_utf8_lossy(&self.0).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_a_json_line_with_the_place_and_no_message() {
        let kept = Kept::default();
        let writer = kept.clone();
        let reports = tracing_subscriber::fmt().json().flatten_event(true);
        let reports = reports.with_writer(move || writer.clone()).finish();
        let before = panic::take_hook();
        panic::set_hook(Box::new(report_panic));
        let caught = tracing::subscriber::with_default(reports, || {
            panic::catch_unwind(|| panic!("the card number is 4111"))
        });
        panic::set_hook(before);
        assert!(caught.is_err());
        let bytes = kept.0.lock().unwrap().clone();
        let line = String::from_utf8(bytes).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(told["message"], "panicked");
        assert_eq!(told["level"], "ERROR");
        assert!(
            told["place"].as_str().unwrap().contains("talk.rs:"),
            "{line}"
        );
        assert!(!line.contains("4111"), "{line}");
    }
}
