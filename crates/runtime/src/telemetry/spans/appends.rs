//! Spans of appends, batch by batch.

use kernel::run::{CausedBy, Event};
use kernel::trace::{self, attempt_span, run_span};

use super::{Moment, Span, Walk};

/// The most append spans of one run; the run's span reports that more were dropped.
pub(super) const MAX_APPENDS: usize = 1_000;

impl Walk<'_> {
    /// A batch is one append; its span has every event it wrote. Output and log lines of attempts
    /// have none: there are too many of them, and they do not concern the run as a whole.
    pub(super) fn append(&mut self, event: &Event) {
        let moment = Moment {
            name: super::super::type_of(&event.body),
            at: event.at,
            seq: event.seq,
        };
        let Some(cause) = &event.cause else {
            if let Some(span) = self.append.and_then(|at| self.spans.get_mut(at)) {
                span.events.push(moment);
            }
            return;
        };
        self.append = None;
        let run = &self.header.stream;
        let parent = match &cause.command {
            CausedBy::Output | CausedBy::Log => return,
            CausedBy::Finish { attempt, .. } => attempt_span(run, attempt),
            _ => run_span(run),
        };
        self.appends += 1;
        if self.appends > MAX_APPENDS {
            return;
        }
        let mut attributes = self.of_run();
        attributes.extend([
            ("openwop.event_type", moment.name.as_str().into()),
            ("openwop.event_seq", event.seq.into()),
        ]);
        self.append = Some(self.spans.len());
        self.spans.push(Span {
            name: "openwop.event.append".into(),
            trace: self.trace,
            id: trace::span(&format!("append\0{run}\0{}", event.seq)),
            parent: Some(parent),
            // Its duration is not in the log.
            start: event.at,
            end: Some(event.at),
            is_call: false,
            attributes,
            events: vec![moment],
            error: None,
            link: None,
        });
    }
}
