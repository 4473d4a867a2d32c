//! The program while it drives all runs, until it is killed at some moment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::book::Book;
use crate::support::*;

/// When an engine is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// After this many lines.
    Lines(u64),
    /// This long after its first line, during any work.
    After(Duration),
}

impl Moment {
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(2) {
            0 => Self::Lines(random.below(60)),
            _ => Self::After(Duration::from_millis(random.below(500))),
        }
    }
}

/// An engine that drives all runs.
pub(super) struct Resumed {
    child: Child,
    lines: Receiver<Value>,
    reader: JoinHandle<()>,
}

impl Resumed {
    pub(super) fn start(lab: &Lab) -> Self {
        let mut command = lab.command(&["resume", "--json"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).unwrap() > 0 {
                // Output that the kill truncated does not count.
                if line.ends_with('\n') {
                    let value = serde_json::from_str(&line);
                    let _ = sender.send(value.unwrap_or_else(|_| panic!("{line}")));
                }
                line.clear();
            }
        });
        Self {
            child,
            lines,
            reader,
        }
    }

    /// Watches until the moment comes. Returns whether the engine is still alive.
    pub(super) fn watch(&self, lab: &Lab, book: &mut Book, moment: Moment) -> bool {
        let Ok(first) = self.lines.recv() else {
            return false;
        };
        book.shown(lab, &first);
        match moment {
            Moment::Lines(count) => (0..count).all(|_| match self.lines.recv() {
                Ok(line) => {
                    book.shown(lab, &line);
                    true
                }
                Err(_) => false,
            }),
            Moment::After(patience) => {
                let end = Instant::now() + patience;
                loop {
                    let left = end.saturating_duration_since(Instant::now());
                    match self.lines.recv_timeout(left) {
                        Ok(line) => book.shown(lab, &line),
                        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return true,
                        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return false,
                    }
                }
            }
        }
    }

    /// SIGKILL; output still in the pipe was written before it.
    pub(super) fn kill(mut self, lab: &Lab, book: &mut Book) {
        self.child.kill().unwrap();
        self.finish(lab, book);
    }

    /// Watches until it ends by itself.
    pub(super) fn finish(mut self, lab: &Lab, book: &mut Book) {
        while let Ok(line) = self.lines.recv() {
            book.shown(lab, &line);
        }
        self.reader.join().unwrap();
        self.child.wait().unwrap();
    }
}
