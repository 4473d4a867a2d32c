//! Server-sent events, read from chunks of bytes that may end anywhere.

/// The largest event in bytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its name; may be empty.
    pub name: String,
    /// Its data, lines joined by a line feed.
    pub data: String,
}

/// An event exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Reads a stream of events (WHATWG HTML, 9.2).
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_cr: bool,
    is_past_start: bool,
}

impl SseReader {
    /// Reads bytes and returns the events they complete.
    ///
    /// # Errors
    /// If an event exceeds the limit.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\n' | b'\r' => events.extend(self.end_of_line()),
                byte => self.line.push(byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line).into_owned();
        if !std::mem::replace(&mut self.is_past_start, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned();
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, ids and reconnection times are ignored.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\u{feff}: hello\r\ndata: a\n\nevent: e\rdata:b\rdata: c ü\r\r\nid: 7\n\n\
                        event: none\n\ndata\n\ndata: [DONE]\n\ndata: cut";

    #[test]
    fn pieces_may_end_anywhere() {
        let event = |name: &str, data: &str| SseEvent {
            name: name.to_owned(),
            data: data.to_owned(),
        };
        let expected = [
            event("", "a"),
            event("e", "b\nc ü"),
            event("", ""),
            event("", "[DONE]"),
        ];
        let bytes = TEXT.as_bytes();
        for cut in 0..=bytes.len() {
            let mut reader = SseReader::default();
            let mut events = reader.take(&bytes[..cut]).unwrap();
            events.extend(reader.take(&bytes[cut..]).unwrap());
            assert_eq!(events, expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; MAX_EVENT_BYTES / 4];
        let taken: Vec<_> = (0..5).map(|_| reader.take(&piece)).collect();
        assert_eq!(taken[3], Ok(Vec::new()));
        assert_eq!(taken[4], Err(TooLong));
    }
}
