//! Redaction of text in chunks.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::Cache;
use regex_automata::{Anchored, Input};
use serde::{Deserialize, Serialize};

use super::{Ahead, Finder, Openers, Redactor};

/// Redacts a text in chunks as if it were whole.
#[derive(Clone)]
pub struct RedactedStream {
    redactor: Redactor,
    /// The output of each stage is the input of the next.
    stages: Vec<Stage>,
}

/// The state of one finder.
#[derive(Clone)]
struct Stage {
    finder: Arc<Finder>,
    cache: Cache,
    /// The bytes held back, after at most one byte that was already returned: word boundaries
    /// depend on it.
    buffer: Vec<u8>,
    /// Where in `buffer` the bytes held back begin.
    begin: usize,
}

/// The bytes a stream holds back, to continue in another process: the buffer of each stage. They
/// may be most of a secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tail(Vec<StageTail>);

#[derive(Serialize, Deserialize)]
struct StageTail {
    /// The buffer in base64, as it need not be text.
    buffer: String,
    begin: usize,
}

impl RedactedStream {
    pub(super) fn new(redactor: &Redactor) -> Self {
        let stages = redactor.0.finders.iter().map(|finder| Stage {
            cache: finder.prefixes.create_cache(),
            finder: finder.clone(),
            buffer: Vec::new(),
            begin: 0,
        });
        Self {
            stages: stages.collect(),
            redactor: redactor.clone(),
        }
    }

    /// Continues another stream of the same secrets. `None` if the tail is invalid.
    pub(super) fn from_tail(redactor: &Redactor, tail: &Tail) -> Option<Self> {
        let mut stream = Self::new(redactor);
        if stream.stages.len() != tail.0.len() {
            return None;
        }
        for (stage, tail) in stream.stages.iter_mut().zip(&tail.0) {
            stage.buffer = STANDARD.decode(&tail.buffer).ok()?;
            stage.begin = Some(tail.begin).filter(|begin| *begin <= stage.buffer.len())?;
        }
        Some(stream)
    }

    /// The bytes held back, if any.
    pub(crate) fn tail(&self) -> Option<Tail> {
        let tail = |stage: &Stage| StageTail {
            buffer: STANDARD.encode(&stage.buffer),
            begin: stage.begin,
        };
        let holds = self
            .stages
            .iter()
            .any(|stage| !stage.held_back().is_empty());
        holds.then(|| Tail(self.stages.iter().map(tail).collect()))
    }

    /// Whether the bytes held back are part of a known secret long enough to count as one, but not
    /// a whole one. A possible beginning of a shape is mostly an ordinary word.
    pub(crate) fn is_partial(&self) -> bool {
        let knows = !self.redactor.0.secrets.is_empty();
        let Some(stage) = self.stages.first().filter(|_| knows) else {
            return false;
        };
        let held = stage.held_back();
        let is_long = String::from_utf8_lossy(held).chars().count() >= super::MIN_SECRET_CHARS;
        is_long && stage.clone().finish() == held
    }

    /// As [`Redactor::resumed`].
    pub(crate) fn resumed<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.redactor.resumed(text)
    }

    /// Adds a chunk; returns the text that can no longer become part of a secret.
    pub fn push(&mut self, piece: &str) -> String {
        into_text(self.push_bytes(piece.as_bytes()))
    }

    /// Returns the text held back. The stream starts anew.
    pub fn finish(&mut self) -> String {
        into_text(self.finish_bytes())
    }

    /// As [`push`](Self::push), for bytes that need not be text.
    pub fn push_bytes(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut stages = self.stages.iter_mut();
        let first = stages.next().map(|stage| stage.push(piece));
        let first = first.unwrap_or_else(|| piece.to_owned());
        stages.fold(first, |given, stage| stage.push(&given))
    }

    /// As [`finish`](Self::finish), for bytes.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        self.stages.iter_mut().fold(Vec::new(), |given, stage| {
            let mut rest = stage.push(&given);
            rest.extend(stage.finish());
            rest
        })
    }

    /// Bytes that are held back.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.stages.iter().map(|stage| stage.buffer.len()).sum()
    }
}

impl Stage {
    fn held_back(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(piece);
        let length = self.buffer.len();
        let limit = self.finder.hold_limit;
        let mut given = Vec::new();
        let mut at = self.begin;
        loop {
            let open = self.first_open(at).unwrap_or(length);
            // Above the limit the bytes held back are processed as if the text ended.
            let is_forced = length - open > limit;
            at = self.give_out(at, open + usize::from(is_forced), &mut given);
            if !is_forced && at <= open {
                break;
            }
        }
        let context = at.saturating_sub(1);
        self.buffer.drain(..context);
        self.begin = at - context;
        given
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut given = Vec::new();
        self.give_out(self.begin, self.buffer.len(), &mut given);
        self.buffer.clear();
        self.begin = 0;
        given
    }

    /// Returns the text before `open`, with every match that begins there replaced, and the
    /// position reached, which is past `open` if a match extends further.
    fn give_out(&self, from: usize, open: usize, given: &mut Vec<u8>) -> usize {
        let finder = &*self.finder;
        let mut at = from;
        while at < open {
            let found = finder.regex.search(&Input::new(&self.buffer).range(at..));
            let Some(found) = found.filter(|found| found.start() < open) else {
                given.extend_from_slice(&self.buffer[at..open]);
                return open;
            };
            given.extend_from_slice(&self.buffer[at..found.start()]);
            finder.replace(&self.buffer, &found, given);
            at = found.end();
        }
        at
    }

    /// The first position from `from` at which later text decides whether a secret begins there, or
    /// its length.
    fn first_open(&mut self, from: usize) -> Option<usize> {
        (from..self.buffer.len()).find(|&at| self.is_open(at))
    }

    fn is_open(&mut self, at: usize) -> bool {
        let finder = &*self.finder;
        finder.openers.may_open(&self.buffer, at)
            && finder.is_open(&mut self.cache, &self.buffer, at)
    }
}

impl Default for Openers {
    /// Empty.
    fn default() -> Self {
        Self {
            of_line: [false; 256],
            within: [false; 256],
            pairs: vec![0; (1 << 16) / 64],
        }
    }
}

impl Openers {
    /// Computed from the automaton: after the beginning of a line, a letter and another character,
    /// the only contexts that patterns distinguish.
    pub(super) fn new(finder: &Finder, ahead: Ahead) -> Self {
        let mut openers = Self::default();
        let mut cache = finder.prefixes.create_cache();
        let mut elsewhere = |bytes: &[u8]| {
            let behind = |before: &[u8]| {
                let text = [before, bytes].concat();
                finder.is_open(&mut cache, &text, before.len())
            };
            b"a ".chunks(1).any(behind)
        };
        for first in 0..=u8::MAX {
            openers.within[usize::from(first)] = elsewhere(&[first]);
            if !openers.within[usize::from(first)] {
                continue;
            }
            for second in 0..=u8::MAX {
                if ahead == Ahead::One || elsewhere(&[first, second]) {
                    let (word, bit) = place(first, second);
                    openers.pairs[word] |= bit;
                }
            }
        }
        for first in 0..=u8::MAX {
            openers.of_line[usize::from(first)] = finder.is_open(&mut cache, &[first], 0);
        }
        openers
    }

    /// Whether the automaton is needed to decide if a secret begins at a position.
    fn may_open(&self, text: &[u8], at: usize) -> bool {
        let first = text[at];
        if at == 0 || text[at - 1] == b'\n' {
            return self.of_line[usize::from(first)];
        }
        match text.get(at + 1) {
            Some(&second) => {
                let (word, bit) = place(first, second);
                self.pairs[word] & bit != 0
            }
            None => self.within[usize::from(first)],
        }
    }
}

/// The index of the bit of two bytes.
fn place(first: u8, second: u8) -> (usize, u64) {
    let pair = usize::from(first) << 8 | usize::from(second);
    (pair / 64, 1 << (pair % 64))
}

impl Finder {
    /// Whether a match at a position of a text may still begin or grow with more text.
    pub(super) fn is_open(&self, cache: &mut Cache, text: &[u8], at: usize) -> bool {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        // The automaton never gives up: none of the possible reasons is configured.
        let Ok(mut state) = self.prefixes.start_state_forward(cache, &input) else {
            return false;
        };
        for &byte in &text[at..] {
            match self.next(cache, state, byte) {
                Some(next) => state = next,
                None => return false,
            }
        }
        if !state.is_match() {
            return true;
        }
        // The automaton reports the end of a match one byte late; it may be over nevertheless. Once
        // it has dropped its states, `state` is invalid.
        let dropped = cache.clear_count();
        (0..=u8::MAX)
            .any(|byte| self.next(cache, state, byte).is_some() || cache.clear_count() != dropped)
    }

    fn next(&self, cache: &mut Cache, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
        let next = self.prefixes.next_state(cache, state, byte).ok()?;
        (!next.is_dead() && !next.is_quit()).then_some(next)
    }
}

/// Replacing parts of text by text yields text.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
