//! The display of runs in progress: bars on a terminal, lines elsewhere, events as JSON for
//! programs, or nothing.

mod bars;
mod output;
mod rows;
mod run_update;
pub(crate) mod runs_view;

use std::time::Duration;

use faces::{Mask, openwop};
use kernel::run::{Event, RunEvent};
use kernel::time::Timestamp;

use crate::data::Data;
use crate::exit::Failure;
use crate::follow::{Follower, RunUpdate};
use crate::{style, talk, text};
use bars::Bars;
use output::Outputs;
use run_update::sentence;
use runs_view::{RunsView, began, name};

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Nothing before the end.
    Quiet,
    /// Outcomes of nodes.
    Nodes,
    /// Also the output of processes.
    Output,
}

/// A view of followed runs.
pub(crate) struct Live {
    look: Look,
    outputs: Outputs,
    detail: Detail,
    /// Whether questions are displayed; otherwise the caller asks them.
    tells_questions: bool,
}

enum Look {
    Nothing,
    Lines,
    Bars(Bars),
    /// `None` once the reader is gone. The runs continue.
    Json(Option<Data>),
}

impl Live {
    /// Output for people: bars if stderr is a terminal, else lines.
    pub(crate) fn for_people(detail: Detail) -> Self {
        let look = match detail {
            Detail::Quiet => Look::Nothing,
            _ if talk::is_drawable() => Look::Bars(Bars::new()),
            _ => Look::Lines,
        };
        Self {
            look,
            outputs: Outputs::default(),
            detail,
            tells_questions: true,
        }
    }

    /// The same for callers that ask the questions of a run themselves, so that they are not shown
    /// twice.
    pub(crate) fn without_questions(self) -> Self {
        Self {
            tells_questions: false,
            ..self
        }
    }

    /// Whether output is suppressed until the end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.detail == Detail::Quiet
    }

    /// Output for programs: one event per line.
    pub(crate) fn for_programs() -> Self {
        let look = Look::Json(Some(Data::new()));
        Self {
            look,
            outputs: Outputs::default(),
            detail: Detail::Quiet,
            tells_questions: true,
        }
    }

    /// Shows new events.
    pub(crate) fn show(
        &mut self,
        follower: &Follower,
        news: &[RunUpdate],
        now: Timestamp,
    ) -> Result<(), Failure> {
        match &mut self.look {
            Look::Json(data) => print(data, follower, news),
            _ => {
                self.tell(follower, news, now);
                Ok(())
            }
        }
    }

    /// Shows new events to people; programs receive nothing here.
    pub(crate) fn tell(&mut self, runs_view: &dyn RunsView, news: &[RunUpdate], now: Timestamp) {
        if matches!(self.look, Look::Nothing | Look::Json(_)) {
            return;
        }
        for item in news {
            self.tell_one(runs_view, item, news);
        }
        if let Look::Bars(bars) = &mut self.look {
            bars.draw(runs_view, &self.outputs, now);
        }
    }

    /// Shows the message of an event, and output that belongs to it.
    fn tell_one(&mut self, runs_view: &dyn RunsView, item: &RunUpdate, news: &[RunUpdate]) {
        for line in self.outputs.take(item) {
            if self.detail == Detail::Output {
                let name = name(runs_view, line.of, line.node.as_str());
                talk::say(format!(
                    "       {} {}",
                    style::dim(format!("{name} |")),
                    line.text
                ));
            }
        }
        let is_drawn = matches!(self.look, Look::Bars(_));
        if is_start(&item.event) && (is_drawn || ends_at_once(item, news)) {
            return;
        }
        if is_question(&item.event) && !self.tells_questions {
            return;
        }
        if let Some(sentence) = sentence(runs_view, item) {
            talk::say(format!("{}  {sentence}", stamp(runs_view, item)));
        }
    }

    /// Removes temporary rows.
    pub(crate) fn end(&mut self) {
        if let Look::Bars(bars) = &mut self.look {
            bars.end();
        }
    }
}

/// On a terminal a started node is shown as a row.
fn is_start(event: &Event) -> bool {
    matches!(event.body, RunEvent::NodeStarted { .. })
}

/// Whether a node's question is not about its failure.
fn is_question(event: &Event) -> bool {
    match &event.body {
        RunEvent::InterruptRequested { data, .. } => data.get("error").is_none(),
        _ => false,
    }
}

/// Whether a started node has already ended: then only its end is shown.
fn ends_at_once(start: &RunUpdate, news: &[RunUpdate]) -> bool {
    let RunEvent::NodeStarted {
        node_id: started, ..
    } = &start.event.body
    else {
        return false;
    };
    news.iter().any(|later| {
        later.of == start.of
            && later.event.seq > start.event.seq
            && matches!(&later.event.body, RunEvent::NodeCompleted { node_id, .. } if node_id == started)
    })
}

/// Time since the run began.
fn stamp(runs_view: &dyn RunsView, news: &RunUpdate) -> String {
    let began = began(runs_view, news.of, &news.event);
    style::dim(text::clock(Duration::from_millis(
        news.event.at.ms_since(began),
    )))
}

fn print(data: &mut Option<Data>, follower: &Follower, news: &[RunUpdate]) -> Result<(), Failure> {
    let Some(open) = data else { return Ok(()) };
    let mut print = || {
        for RunUpdate { of, cause, event } in news {
            let run = &follower.runs()[*of].run;
            let mask = Mask::from_plan(&run.plan);
            open.json_line(&openwop::v1::event_caused_by(
                &run.header,
                mask,
                event,
                *cause,
            ))?;
        }
        open.flush()
    };
    match print() {
        Err(Failure::Unread) => {
            *data = None;
            Ok(())
        }
        done => done,
    }
}
