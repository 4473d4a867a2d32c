//! Writing the outputs of a process to the log and to the node's outputs.

use std::collections::VecDeque;
use std::time::Duration;

use kernel::limits::MAX_CHUNK_BYTES;
use kernel::run::event::OutputChannel;
use serde_json::json;
use tokio::time::Instant;

use super::super::NodeContext;
use crate::supervisor::Stream;

/// How long output may wait for more before it is logged.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// Bytes of the end of an output kept for an error.
const TAIL_BYTES: usize = 2 << 10;

/// The attempt must stop: it was asked to, or its holder lost the run.
#[derive(Debug)]
pub(in crate::nodes) struct Interrupted;

/// One output of a process.
pub(super) struct Output {
    channel: OutputChannel,
    total: u64,
    head: Vec<u8>,
    capture: usize,
    tail: VecDeque<u8>,
    text: Utf8,
    log: u64,
    waiting_since: Option<Instant>,
    has_logged: bool,
}

impl Output {
    /// An output whose first `capture` bytes are kept and `log` bytes are logged.
    pub(super) fn new(stream: Stream, capture: usize, log: u64) -> Self {
        let channel = match stream {
            Stream::Stdout => OutputChannel::Stdout,
            Stream::Stderr => OutputChannel::Stderr,
        };
        Self {
            channel,
            total: 0,
            head: Vec::new(),
            capture,
            tail: VecDeque::new(),
            text: Utf8::default(),
            log,
            waiting_since: None,
            has_logged: false,
        }
    }

    /// Adds bytes; full chunks are logged at once.
    pub(super) async fn take(&mut self, bytes: &[u8], cx: &NodeContext) -> Result<(), Interrupted> {
        let log_left = usize::try_from(self.log.saturating_sub(self.total)).unwrap_or(usize::MAX);
        self.total += bytes.len() as u64;
        let room = self.capture - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.tail
            .extend(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        self.tail
            .drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        self.text.push(&bytes[..log_left.min(bytes.len())]);
        while self.text.ready.len() >= MAX_CHUNK_BYTES {
            self.emit(cx).await?;
        }
        if self.text.ready.is_empty() {
            self.waiting_since = None
        } else {
            self.waiting_since = self.waiting_since.or(Some(Instant::now()))
        }
        Ok(())
    }

    /// When the waiting bytes must be logged.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + MAX_DELAY)
    }

    /// Logs the bytes that are due.
    pub(super) async fn send_due(&mut self, cx: &NodeContext) -> Result<(), Interrupted> {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.waiting_since = None;
            self.emit(cx).await?;
        }
        Ok(())
    }

    /// Ends the output. An output that never began is not logged.
    pub(super) async fn finish(&mut self, cx: &NodeContext) -> Result<(), Interrupted> {
        self.text.finish();
        while self.text.ready.len() > MAX_CHUNK_BYTES {
            self.emit(cx).await?;
        }
        if self.text.ready.is_empty() && !self.has_logged {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.text.ready);
        let is_cut = self.total > self.log;
        let meta = is_cut.then(|| json!({ "totalBytes": self.total }));
        send(cx, self.channel, chunk, true, meta).await
    }

    async fn emit(&mut self, cx: &NodeContext) -> Result<(), Interrupted> {
        let at = self.text.ready.floor_char_boundary(MAX_CHUNK_BYTES);
        let rest = self.text.ready.split_off(at);
        let chunk = std::mem::replace(&mut self.text.ready, rest);
        self.has_logged = true;
        send(cx, self.channel, chunk, false, None).await
    }

    /// Whether it is longer than the kept part.
    pub(super) fn is_truncated(&self) -> bool {
        self.total > self.head.len() as u64
    }

    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The beginning, as text.
    pub(super) fn captured(&self) -> String {
        let whole = match std::str::from_utf8(&self.head) {
            // The cut may split a character: drop its first half.
            Err(error) if self.is_truncated() && error.error_len().is_none() => {
                &self.head[..error.valid_up_to()]
            }
            _ => &self.head,
        };
        String::from_utf8_lossy(whole).into_owned()
    }

    /// The last lines, as text, at most `lines` of them.
    pub(super) fn last_lines(&self, lines: usize) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        let from = text
            .rmatch_indices('\n')
            .nth(lines - 1)
            .map_or(0, |(at, _)| at + 1);
        text[from..].to_owned()
    }
}

async fn send(
    cx: &NodeContext,
    channel: OutputChannel,
    chunk: String,
    is_last: bool,
    meta: Option<serde_json::Value>,
) -> Result<(), Interrupted> {
    tokio::select! {
        biased;
        () = cx.stop.cancelled() => Err(Interrupted),
        sent = cx.output.chunk(channel, chunk, is_last, meta) => sent.map_err(|_| Interrupted),
    }
}

/// Decodes UTF-8 that arrives in chunks; invalid bytes become U+FFFD.
#[derive(Default)]
struct Utf8 {
    ready: String,
    incomplete: Vec<u8>,
}

impl Utf8 {
    fn push(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.incomplete);
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.ready.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && may_be_completed(invalid) {
                self.incomplete = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.ready.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// An incomplete character at the end is invalid.
    fn finish(&mut self) {
        if !std::mem::take(&mut self.incomplete).is_empty() {
            self.ready.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn may_be_completed(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_however_its_bytes_are_cut() {
        let bytes = "aé€😀\u{fffd}"
            .bytes()
            .chain([0xff, b'b', 0xe2, 0x82, b'c', 0xf0, 0x9f]);
        let bytes: Vec<u8> = bytes.collect();
        let expected = String::from_utf8_lossy(&bytes).into_owned();
        for size in 1..=bytes.len() {
            let mut text = Utf8::default();
            bytes.chunks(size).for_each(|piece| text.push(piece));
            text.finish();
            assert_eq!(text.ready, expected, "pieces of {size}");
        }
    }

    #[test]
    fn the_last_lines_are_the_last() {
        let mut output = Output::new(Stream::Stderr, 0, 0);
        output.tail.extend(b"one\ntwo\nthree\n");
        assert_eq!(output.last_lines(2), "two\nthree");
        assert_eq!(output.last_lines(9), "one\ntwo\nthree");
        assert_eq!(Output::new(Stream::Stderr, 0, 0).last_lines(3), "");
    }
}
