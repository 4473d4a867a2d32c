//! A document as the text that a client sent.
//!
//! A client sends its whole run each time, most of it unchanged. Known events are not parsed again:
//! where the text of the events begins as it did the last time, those events are reused, and only
//! the rest is parsed.

use std::ops::Range;
use std::sync::Arc;

use super::Body;

/// A document with the text it was parsed from.
#[derive(Clone, Debug)]
pub struct Sent {
    body: Arc<Body>,
    text: Arc<Vec<u8>>,
    /// The range of the events in the text, from the first byte of the first to the last of the
    /// last.
    events: Range<usize>,
}

/// A text whose events begin like those of another.
pub struct Shared<'a> {
    /// The document that those events were parsed from.
    pub known: &'a Arc<Body>,
    /// Their range in the text.
    pub events: Range<usize>,
    /// The text with `null` in place of all of those events.
    pub rest: Vec<u8>,
}

impl Sent {
    /// Keeps a text with the document parsed from it. `None` if no events can be reused later.
    /// `shared` is the known range of its first events, which need not be scanned again.
    pub fn keep(body: Arc<Body>, text: Vec<u8>, shared: Option<Range<usize>>) -> Option<Self> {
        let (start, from) = match shared {
            Some(shared) => (shared.start, shared.end),
            None => events(&text).map(|start| (start, start))?,
        };
        let end = skip(&text, from, 1)? - 1;
        let end = start + text[start..end].trim_ascii_end().len();
        let has_events = end > start && !body.trace.is_empty();
        has_events.then(|| Self {
            body,
            text: Arc::new(text),
            events: start..end,
        })
    }

    /// The document.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Number of bytes kept for it.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Finds the events of this document at the beginning of those of another text.
    pub fn shared_by(&self, text: &[u8]) -> Option<Shared<'_>> {
        let start = events(text)?;
        let rest = self.begins(text, start)?;
        let mut out = Vec::with_capacity(start + 4 + rest.len());
        out.extend_from_slice(&text[..start]);
        // The parser sees the following text, so a surplus comma is still found.
        out.extend_from_slice(b"null");
        out.extend_from_slice(rest);
        Some(Shared {
            known: &self.body,
            events: start..text.len() - rest.len(),
            rest: out,
        })
    }

    /// The text after our events in another text, if they begin at `start` and end there.
    fn begins<'t>(&self, text: &'t [u8], start: usize) -> Option<&'t [u8]> {
        let ours = &self.text[self.events.clone()];
        let rest = text[start..].strip_prefix(ours)?;
        matches!(rest.first(), Some(b',' | b']')).then_some(rest)
    }
}

/// The place of the first event of a document's text, after the bracket of its trace. `None` if the
/// text has no trace, or differs from the form that clients write.
fn events(text: &[u8]) -> Option<usize> {
    let mut at = blank(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        at = blank(text, at + 1);
        let key = at;
        at = string(text, at)?;
        let is_trace = &text[key..at] == b"\"trace\"";
        at = blank(text, at);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = blank(text, at + 1);
        match text.get(at)? {
            b'[' if is_trace => return Some(blank(text, at + 1)),
            b'[' | b'{' => at = skip(text, at + 1, 1)?,
            b'"' => at = string(text, at)?,
            _ => {
                let rest = text[at..].iter();
                at += rest.take_while(|byte| !b",}]".contains(byte)).count();
            }
        }
        at = blank(text, at);
        if text.get(at) != Some(&b',') {
            return None;
        }
    }
}

pub(super) fn blank(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .take_while(|it| it.is_ascii_whitespace())
        .count()
}

/// The position after a string that begins here.
pub(super) fn string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        let rest = text.get(at..)?;
        at += rest
            .iter()
            .position(|byte| *byte == b'"' || *byte == b'\\')?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// The position after the bracket that closes `open` open ones.
pub(super) fn skip(text: &[u8], mut at: usize, mut open: usize) -> Option<usize> {
    while open > 0 {
        match text.get(at)? {
            b'"' => {
                at = string(text, at)?;
                continue;
            }
            b'[' | b'{' => open += 1,
            b']' | b'}' => open -= 1,
            _ => {}
        }
        at += 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn body(text: &str) -> Arc<Body> {
        Arc::new(Body::from_value(serde_json::from_str(text).unwrap()).unwrap())
    }

    fn kept(text: &str) -> Option<Sent> {
        Sent::keep(body(text), text.as_bytes().to_vec(), None)
    }

    /// The part of another text that is left to parse.
    fn rest(first: &str, next: &str) -> Option<String> {
        let kept = kept(first).expect("there are events");
        let shared = kept.shared_by(next.as_bytes())?;
        Some(String::from_utf8(shared.rest).unwrap())
    }

    const ONE: &str =
        r#"{"a\"]":[{"trace":["]"]}],"run":{},"n":-1.5e3,"t":true,"trace":[{"id":"\"]}"}],"z":1}"#;

    #[test]
    fn events_that_were_sent_before_are_not_read_again() {
        let more = ONE.replace("}],\"z\":1", "},{\"id\":\"2\"}],\"z\":2");
        let left = rest(ONE, &more).unwrap();
        assert!(
            left.contains(r#""trace":[null,{"id":"2"}],"z":2"#),
            "{left}"
        );
        assert!(rest(ONE, ONE).unwrap().contains(r#""trace":[null],"z":1"#));
        let spaced = r#" { "run" : {} , "trace" : [ {"id":1} , {"id":2} ] } "#;
        let left = rest(spaced, &spaced.replace(" ] }", ",3 ] }")).unwrap();
        assert_eq!(left, r#" { "run" : {} , "trace" : [ null,3 ] } "#);
    }

    #[test]
    fn the_part_kept_after_a_shared_prefix_is_complete() {
        let first = kept(ONE).unwrap();
        assert_eq!(first.size(), ONE.len());
        let more = ONE.replace("}],\"z\"", "},{\"id\":\"2\"} ],\"z\"");
        let shared = first.shared_by(more.as_bytes()).unwrap().events;
        let next = Sent::keep(body(&more), more.clone().into_bytes(), Some(shared)).unwrap();
        let text = String::from_utf8(next.text[next.events.clone()].to_vec()).unwrap();
        let again: Value = serde_json::from_str(&format!("[{text}]")).unwrap();
        assert_eq!(again, json!([{ "id": "\"]}" }, { "id": "2" }]));
        assert_eq!(text.as_bytes().last(), Some(&b'}'));
    }

    #[test]
    fn a_text_that_goes_another_way_is_read_as_a_whole() {
        for other in [
            "",
            "[]",
            "{",
            r#"{"trace"#,
            r#"{"run":{},"trace":[]}"#,
            r#"{"run":{},"trace":[{"id":"other"}]}"#,
            r#"{"run":{},"trace":[{"id":"\"]}"}"#,
            r#"{"run":{},"trace":[{"id":"\"]}"} ,1]}"#,
            r#"{"run":{},"trace":{"id":"\"]}"}}"#,
            r#"{"run":{}}"#,
        ] {
            assert_eq!(rest(ONE, other), None, "{other}");
        }
        assert!(kept(r#"{"run":{},"trace":[]}"#).is_none());
        // The parser handles the rest: it finds the comma, the second trace, the garbage.
        for wrong in [
            r#"{"run":{},"trace":[{"id":"\"]}"},]}"#,
            r#"{"run":{},"trace":[{"id":"\"]}"}]]}"#,
        ] {
            let left = rest(ONE, wrong).unwrap();
            assert!(serde_json::from_str::<Value>(&left).is_err(), "{left}");
        }
        let twice = r#"{"run":{},"trace":[{"id":"\"]}"}],"trace":[]}"#;
        assert_eq!(rest(ONE, twice).unwrap().matches("trace").count(), 2);
    }
}
