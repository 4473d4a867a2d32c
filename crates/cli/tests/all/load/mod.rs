//! Repeated `kill -9` of an engine with many runs in flight, on one store.
//!
//! The parent, which is never killed, records everything that was acknowledged to it: runs it
//! created, signals and cancellations it sent, and every event that an engine has shown, which is
//! durable by then. In the end this book, the logs and the ledger of the processes must agree.

mod book;
mod engine;
mod works;

use serde_json::Value;

use crate::support::*;
use book::{Book, Figures};
use engine::{Moment, Resumed};

pub(crate) use chained::{chained, check_chained};

/// Kills of one store.
const KILLS: usize = 10;
/// Runs that a store begins with, and that are added when all are finished.
const RUNS: usize = 8;

#[test]
fn soak_kills_under_load() {
    let started = std::time::Instant::now();
    let mut all = Figures::default();
    for seed in testkit::seeds(1, 20) {
        all.add(&survive_kills(seed));
    }
    let Figures {
        kills,
        runs,
        events,
        shown,
        starts,
        restarts,
    } = all;
    testkit::figures(
        "soak_kills_under_load",
        &format!(
            "{kills} kills, {runs} runs, {events} events of which {shown} were shown before \
             the end, {starts} processes started, {restarts} attempts restarted, {} s",
            started.elapsed().as_secs()
        ),
    );
}

fn survive_kills(seed: u64) -> Figures {
    let mut load = Load {
        lab: works::lab(),
        random: Random::from_seed(seed),
        book: Book::default(),
    };
    load.create(RUNS);
    let mut idle = 0;
    while load.book.kills < KILLS {
        let engine = Resumed::start(&load.lab);
        load.act();
        let moment = Moment::draw(&mut load.random);
        if engine.watch(&load.lab, &mut load.book, moment) {
            load.book.kills += 1;
            engine.kill(&load.lab, &mut load.book);
        } else {
            engine.finish(&load.lab, &mut load.book);
            idle += 1;
            assert!(idle < 10 * KILLS, "seed {seed}: nothing is ever in flight");
            load.create(RUNS);
        }
        // Mostly the next engine starts while the processes of the last one are still dying.
        if load.random.below(3) == 0 {
            load.lab.wait_until_quiet();
        }
    }
    load.end(seed);
    load.book.check(&load.lab)
}

struct Load {
    lab: Lab,
    random: Random,
    book: Book,
}

impl Load {
    fn create(&mut self, runs: usize) {
        for _ in 0..runs {
            let name = format!("w-{}", self.book.created.len());
            let file = works::any(&self.lab, &mut self.random, &name);
            let made = self
                .lab
                .call(&["run", &file, "--detach", "--with", "child.json"]);
            let run = made.with(0).stdout.trim().to_owned();
            self.book.created.insert(run);
        }
    }

    /// Performs actions from outside while the engine is at work.
    fn act(&mut self) {
        for _ in 0..self.random.below(3) {
            let runs: Vec<&String> = self.book.created.iter().collect();
            let run = runs[self.random.below(runs.len() as u64) as usize].clone();
            match self.random.below(8) {
                0 => {
                    if self.lab.call(&["runs", "cancel", &run]).code == 0 {
                        self.book.cancelled.insert(run);
                    }
                }
                1 => drop(self.lab.call(&["runs", "pause", &run])),
                2 => drop(self.lab.call(&["runs", "unpause", &run])),
                3 => self.create(1),
                _ => self.signal(&run),
            }
        }
    }

    fn signal(&mut self, run: &str) {
        let id = format!("signal-{}", self.book.signals.len());
        let args = [
            "runs",
            "signal",
            run,
            works::QUESTION,
            "{}",
            "--id",
            id.as_str(),
        ];
        if self.lab.call(&args).code == 0 {
            self.book.signals.insert((run.to_owned(), id));
        }
    }

    /// Without further kills, everything finishes.
    fn end(&mut self, seed: u64) {
        for _ in 0..20 {
            let listed = self
                .lab
                .call(&["runs", "list", "--limit", "5000", "--json"]);
            let rows = listed.with(0).json_lines();
            let open = |row: &&Value| row["settled"] == false && row["parentRunId"].is_null();
            let open: Vec<&Value> = rows.iter().filter(open).collect();
            if open.is_empty() {
                return;
            }
            for row in open {
                let run = row["runId"].as_str().unwrap();
                if row["status"] == "paused" {
                    self.lab.call(&["runs", "unpause", run]).with(0);
                }
                self.signal(run);
            }
            Resumed::start(&self.lab).finish(&self.lab, &mut self.book);
        }
        panic!("seed {seed}: some runs never end");
    }
}

mod chained {
    //! Many equal runs for several engines, and their final invariants.

    use super::*;

    /// Creates `runs` runs of `steps` steps each.
    pub(crate) fn chained(runs: usize, steps: usize) -> Lab {
        let lab = works::lab();
        let file = works::chain(&lab, "chain", steps);
        for _ in 0..runs {
            lab.call(&["run", &file, "--detach"]).with(0);
        }
        lab
    }

    /// Every run has ended and each of its steps ran exactly once.
    pub(crate) fn check_chained(lab: &Lab, shown: &[Value], runs: usize, steps: usize) {
        let mut book = Book::default();
        for event in shown {
            book.shown(lab, event);
        }
        let figures = book.check(lab);
        assert_eq!(figures.runs, runs);
        assert_eq!(figures.starts, runs * steps, "each step ran once");
        assert_eq!(figures.restarts, 0);
    }
}
