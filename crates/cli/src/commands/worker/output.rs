//! The output of a task's program: gathered into chunks, and kept as a possible result up to its
//! limit.

use std::time::Duration;

use kernel::limits::MAX_TASK_RESULT_BYTES;
use kernel::run::event::OutputChannel;
use tokio::time::Instant;

/// Bytes gathered before they are sent.
const CHUNK: usize = 32 << 10;
/// Maximum delay of a smaller chunk.
const GATHER: Duration = Duration::from_millis(200);
/// Bytes of each output that are sent. The rest is not sent.
const MAX_SENT: usize = 1 << 20;

/// One output of a program.
pub(super) struct Output {
    channel: OutputChannel,
    /// Unsent bytes, possibly with an incomplete character at their end.
    unsent: Vec<u8>,
    since: Option<Instant>,
    seq: u64,
    sent: usize,
    /// The beginning of it.
    pub(super) kept: Vec<u8>,
    /// Whether there was more.
    pub(super) is_cut: bool,
}

impl Output {
    pub(super) fn new(channel: OutputChannel) -> Self {
        Self {
            channel,
            unsent: Vec::new(),
            since: None,
            seq: 0,
            sent: 0,
            kept: Vec::new(),
            is_cut: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = MAX_TASK_RESULT_BYTES - self.kept.len();
        self.is_cut |= bytes.len() > room;
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.sent + self.unsent.len() < MAX_SENT {
            self.unsent.extend_from_slice(bytes);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// The time of the next chunk.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        if self.unsent.len() >= CHUNK {
            Some(since)
        } else {
            Some(since + GATHER)
        }
    }

    /// The next chunk, and its place. At the end an incomplete character is included.
    pub(super) fn chunk(&mut self, is_end: bool) -> Option<(OutputChannel, u64, String)> {
        let most = self.unsent.len().min(CHUNK);
        let end = match std::str::from_utf8(&self.unsent[..most]) {
            Ok(_) => most,
            // An incomplete character at the end waits for its rest.
            Err(error) if error.error_len().is_none() && !(is_end && most < CHUNK) => {
                error.valid_up_to()
            }
            Err(_) => most,
        };
        if end == 0 {
            self.since = None;
            return None;
        }
        let rest = self.unsent.split_off(end);
        let bytes = std::mem::replace(&mut self.unsent, rest);
        self.since = (!self.unsent.is_empty()).then(Instant::now);
        self.sent += bytes.len();
        let seq = self.seq;
        self.seq += 1;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some((self.channel, seq, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(output: &mut Output, is_end: bool) -> Vec<(u64, String)> {
        let next = || output.chunk(is_end).map(|(_, seq, text)| (seq, text));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn characters_are_not_cut_and_chunks_are_counted() {
        let mut output = Output::new(OutputChannel::Stdout);
        output.push("a\u{e4}".as_bytes().split_last().unwrap().1);
        assert_eq!(chunks(&mut output, false), [(0, "a".to_owned())]);
        assert!(
            output.due().is_none(),
            "half a character is no reason to wake"
        );
        output.push(&[0xa4, b'b']);
        assert_eq!(chunks(&mut output, false), [(1, "\u{e4}b".to_owned())]);
        output.push(&[0xc3]);
        assert_eq!(chunks(&mut output, true), [(2, "\u{fffd}".to_owned())]);
    }

    #[test]
    fn kept_and_sent_output_is_bounded() {
        let mut output = Output::new(OutputChannel::Stdout);
        for _ in 0..64 {
            output.push(&[b'x'; 64 << 10]);
            chunks(&mut output, false);
        }
        assert_eq!(output.kept.len(), MAX_TASK_RESULT_BYTES);
        assert!(output.is_cut);
        assert!(output.sent <= MAX_SENT + (64 << 10), "{}", output.sent);
    }
}
