//! The output of processes line by line, assembled from chunks.

use std::collections::BTreeMap;

use kernel::ids::NodeId;
use kernel::run::RunEvent;
use kernel::run::event::OutputChannel;

use crate::follow::RunUpdate;
use crate::text;

/// Maximum length of an unfinished line.
const LONGEST: usize = 4_096;

/// The unfinished lines and the last one of each node.
#[derive(Default)]
pub(crate) struct Outputs {
    open: BTreeMap<(usize, NodeId, OutputChannel), String>,
    last: BTreeMap<(usize, NodeId), String>,
}

/// A line a process wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputLine {
    /// The place of its run among the followed ones.
    pub of: usize,
    /// Its node.
    pub node: NodeId,
    /// The line, printable.
    pub text: String,
}

impl Outputs {
    /// Adds output; returns the completed lines.
    pub(crate) fn take(&mut self, RunUpdate { of, event, .. }: &RunUpdate) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        match &event.body {
            RunEvent::OutputChunk {
                node_id,
                channel,
                chunk,
                is_last,
                ..
            } => {
                let key = (*of, node_id.clone(), *channel);
                let mut open = self.open.remove(&key).unwrap_or_default();
                open.push_str(chunk);
                while let Some(at) = open.find('\n') {
                    let rest = open.split_off(at + 1);
                    lines.push(line(*of, node_id, &open));
                    open = rest;
                }
                if (*is_last && !open.is_empty()) || open.len() > LONGEST {
                    lines.push(line(*of, node_id, &open));
                } else if !open.is_empty() {
                    self.open.insert(key, open);
                }
            }
            // The process begins anew, with new output.
            RunEvent::NodeStarted { node_id, .. } | RunEvent::AttemptRestarted { node_id, .. } => {
                self.open
                    .retain(|(run, node, _), _| (*run, node) != (*of, node_id));
                self.last.remove(&(*of, node_id.clone()));
            }
            _ => {}
        }
        let last = lines.iter().rev().find(|line| !line.text.trim().is_empty());
        if let Some(last) = last {
            self.last
                .insert((last.of, last.node.clone()), last.text.clone());
        }
        lines
    }

    /// The last line of a node's process.
    pub(crate) fn last(&self, of: usize, node: &NodeId) -> Option<&str> {
        self.last.get(&(of, node.clone())).map(String::as_str)
    }
}

fn line(of: usize, node: &NodeId, raw: &str) -> OutputLine {
    // Text before a carriage return was overwritten.
    let shown = raw.trim_end_matches(['\n', '\r']);
    let shown = shown.rsplit('\r').next().unwrap_or(shown);
    OutputLine {
        of,
        node: node.clone(),
        text: text::plain(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::run::Event;
    use kernel::time::Timestamp;

    fn chunk(text: &str, is_last: bool) -> RunUpdate {
        let body = RunEvent::OutputChunk {
            node_id: "n".into(),
            visit: 0,
            attempt: 0,
            restart: 0,
            channel: OutputChannel::Stdout,
            chunk: text.into(),
            is_last,
            meta: None,
        };
        RunUpdate {
            of: 0,
            cause: None,
            event: Event {
                seq: 0,
                at: Timestamp(0),
                cause: None,
                body,
            },
        }
    }

    fn taken(chunks: &[RunUpdate]) -> Vec<String> {
        let mut outputs = Outputs::default();
        let lines = chunks.iter().flat_map(|chunk| outputs.take(chunk));
        lines.map(|line| line.text).collect()
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        let chunks = [
            chunk("one\ntw", false),
            chunk("o\nthree", false),
            chunk("", true),
        ];
        assert_eq!(taken(&chunks), ["one", "two", "three"]);
    }

    #[test]
    fn a_progress_line_shows_its_latest_state() {
        assert_eq!(taken(&[chunk(" 10 %\r 50 %\r100 %\r\n", false)]), ["100 %"]);
    }

    #[test]
    fn a_line_without_an_end_is_given_in_pieces() {
        assert_eq!(taken(&[chunk(&"x".repeat(LONGEST + 1), false)]).len(), 1);
    }
}
