//! The run according to its events, before the kill and after.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::outcome::Outcome;
use crate::exit::Failure;
use crate::{style, talk, text};

/// When to stop watching.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// One parallel node is finished, and others are not.
    HalfWay,
    /// The run has ended.
    Settled,
}

/// The events so far.
pub(super) struct Story {
    run: String,
    last: Option<u64>,
    began: Option<String>,
    /// The number of starts of each node by the scheduler.
    starts: BTreeMap<String, u32>,
    /// In order of arrival, like the others.
    finished: Vec<String>,
    in_flight: Vec<String>,
    restarted: Vec<String>,
    kill: Option<Kill>,
}

/// The state at the kill, as far as the server had reported it.
struct Kill {
    at: u64,
    finished: Vec<String>,
    starts: BTreeMap<String, u32>,
}

impl Story {
    pub(super) fn new(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            last: None,
            began: None,
            starts: BTreeMap::new(),
            finished: Vec::new(),
            in_flight: Vec::new(),
            restarted: Vec::new(),
            kill: None,
        }
    }

    pub(super) fn finished(&self) -> impl Iterator<Item = &str> {
        self.finished.iter().map(String::as_str)
    }

    pub(super) fn in_flight(&self) -> impl Iterator<Item = &str> {
        self.in_flight.iter().map(String::as_str)
    }

    /// Watches and prints, event by event.
    pub(super) async fn follow(&mut self, client: &Client, until: Until) -> Result<(), Failure> {
        loop {
            let page = client.poll(&self.run, self.last).await?;
            for event in &page.events {
                self.tell(event);
            }
            if !page.events.is_empty() {
                self.last = Some(page.last_event_seq);
            }
            // Two finished: the one before the parallel ones, and one of those.
            let is_half_way = self.finished.len() >= 2 && !self.in_flight.is_empty();
            match until {
                Until::HalfWay if is_half_way => return Ok(()),
                _ if !(page.is_terminal && page.is_complete) => {}
                Until::Settled => return Ok(()),
                Until::HalfWay => {
                    return Err(Failure::new("the run ended before it could be cut off"));
                }
            }
        }
    }

    /// Records the current state.
    pub(super) fn killed(&mut self) {
        self.kill = Some(Kill {
            at: self.last.unwrap_or(0),
            finished: self.finished.clone(),
            starts: self.starts.clone(),
        });
    }

    fn tell(&mut self, event: &Value) {
        let node = event["payload"]["nodeId"].as_str().map(str::to_owned);
        let node = node.unwrap_or_default();
        let name = style::strong(text::one_line(&node, 40));
        let sentence = match event["type"].as_str().unwrap_or_default() {
            "run.started" => {
                self.began = event["timestamp"].as_str().map(str::to_owned);
                return;
            }
            "node.started" => {
                *self.starts.entry(node.clone()).or_default() += 1;
                self.in_flight.push(node);
                format!("{} {name} started", mark("▶", ">", style::busy))
            }
            "node.completed" => {
                self.in_flight.retain(|other| *other != node);
                self.finished.push(node);
                let took = event["payload"]["durationMs"].as_u64().unwrap_or(0);
                let took = style::dim(format!("in {}", text::ms(took)));
                format!("{} {name} completed {took}", mark("✓", "+", style::good))
            }
            "node.failed" => {
                self.in_flight.retain(|other| *other != node);
                format!("{} {name} failed", mark("✗", "x", style::bad))
            }
            "run.resuming" => format!(
                "{} taken over: its server is gone",
                mark("↻", "~", style::warn)
            ),
            "runwright.attempt.restarted" => {
                self.restarted.push(node);
                format!(
                    "{} {name} was in flight and starts over with the same key",
                    mark("↻", "~", style::warn)
                )
            }
            "run.completed" => format!(
                "{} the run is {}",
                mark("✓", "+", style::good),
                style::good("completed")
            ),
            "run.failed" => format!(
                "{} the run has {}",
                mark("✗", "x", style::bad),
                style::bad("failed")
            ),
            _ => return,
        };
        let clock = self.clock(event);
        talk::say(format!("  {} {sentence}", style::dim(clock)));
    }

    /// The time of an event since the beginning of the run.
    fn clock(&self, event: &Value) -> String {
        let read = |text: Option<&str>| text?.parse::<jiff::Timestamp>().ok();
        let began = read(self.began.as_deref());
        let at = read(event["timestamp"].as_str());
        let since = began.zip(at).map(|(began, at)| at.duration_since(began));
        let since = since.and_then(|since| Duration::try_from(since).ok());
        text::clock(since.unwrap_or_default())
    }

    /// The overall outcome.
    pub(super) fn outcome(self, snapshot: &Value) -> Result<Outcome, Failure> {
        let Some(kill) = self.kill else {
            return Err(Failure::new("the server was not killed"));
        };
        if snapshot["status"] != "completed" {
            let status = snapshot["status"].as_str().unwrap_or("unknown");
            return Err(Failure::new(format!("the run ended as {status}"))
                .hint("run the demo with --keep and read `runwright events last`"));
        }
        let (before, after): (Vec<_>, Vec<_>) = self
            .finished
            .iter()
            .cloned()
            .partition(|node| kill.starts.contains_key(node));
        // Nodes that finished between the last poll and the kill are in the log as well.
        let is_kept = |node: &String| !self.restarted.contains(node);
        let kept = before.into_iter().filter(is_kept).collect();
        let repeated = kill.finished.iter().find(|node| {
            self.starts.get(*node) != kill.starts.get(*node) || self.restarted.contains(*node)
        });
        if let Some(node) = repeated {
            let node = text::one_line(node, 40);
            return Err(Failure::new(format!("{node} was finished but ran again")));
        }
        Ok(Outcome {
            killed_at: kill.at,
            after,
            kept,
            restarted: self.restarted,
            starts: self.starts,
        })
    }
}

fn mark(symbol: &'static str, word: &'static str, colour: fn(&'static str) -> String) -> String {
    colour(if talk::has_symbols() { symbol } else { word })
}
