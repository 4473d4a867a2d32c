//! The text of a document, with the members of its objects in the received order.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::sent::{blank, skip, string};

/// The members of a document, in the order that clients write. Each with the text of an absent one.
const MEMBERS: [(&str, &str); 8] = [
    ("revision", "0"),
    ("run", "{}"),
    ("trace", "[]"),
    ("artifactsByKey", "[]"),
    ("ruleSetsById", "[]"),
    ("stepStatus", "[]"),
    ("gateState", "[]"),
    ("idempotency", "[]"),
];
/// Bytes compared at once.
const CHUNK: usize = 4 << 10;

/// A document's text: its eight members as received, concatenated.
#[derive(Clone, Debug)]
pub struct Text {
    bytes: Vec<u8>,
    members: Members,
}

/// The places of the members' values.
pub(super) type Members = [Range<usize>; MEMBERS.len()];

/// A change of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// Bytes to keep after the previous edit.
    pub keep: u64,
    /// Bytes to remove after those.
    pub skip: u64,
    /// The text inserted in their place.
    pub insert: String,
}

impl Text {
    /// The text of a received document. `shared` is the range of its first events, if known. `None`
    /// if the members cannot be found without parsing all of it.
    pub fn of_sent(sent: &[u8], shared: Option<&Range<usize>>) -> Option<Self> {
        let found = members(sent, shared)?;
        let mut bytes = Vec::with_capacity(sent.len() + 64);
        let mut places = Members::default();
        for (at, (name, absent)) in MEMBERS.iter().enumerate() {
            bytes.extend_from_slice(if at == 0 { b"{\"" } else { b",\"" });
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b"\":");
            let start = bytes.len();
            match &found[at] {
                Some(range) => bytes.extend_from_slice(&sent[range.clone()]),
                None => bytes.extend_from_slice(absent.as_bytes()),
            }
            places[at] = start..bytes.len();
        }
        bytes.push(b'}');
        std::str::from_utf8(&bytes).ok()?;
        Some(Self {
            bytes,
            members: places,
        })
    }

    pub(super) fn into_parts(self) -> (Vec<u8>, Members) {
        (self.bytes, self.members)
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a text has its members in the received order. In canonical JSON another member is the
/// first.
pub(super) fn is_as_it_came(text: &[u8]) -> bool {
    text.starts_with(b"{\"revision\":")
}

/// The place of each member's value in a text. `None` if the text is not an object of them in the
/// usual form.
fn members(
    text: &[u8],
    shared: Option<&Range<usize>>,
) -> Option<[Option<Range<usize>>; MEMBERS.len()]> {
    let mut found = [const { None }; MEMBERS.len()];
    let mut at = blank(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        at = blank(text, at + 1);
        let key = at + 1;
        at = string(text, at)?;
        let name = &text[key..at - 1];
        if name.contains(&b'\\') {
            return None;
        }
        at = blank(text, at);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = blank(text, at + 1);
        let start = at;
        at = match text.get(at)? {
            b'[' if name == b"trace" => skip(text, shared.map_or(at + 1, |shared| shared.end), 1)?,
            b'[' | b'{' => skip(text, at + 1, 1)?,
            b'"' => string(text, at)?,
            _ => {
                let rest = text[at..].iter();
                let is_of_it = |byte: &&u8| !b",}] \t\r\n".contains(byte);
                at + rest.take_while(is_of_it).count()
            }
        };
        if let Some(place) = MEMBERS
            .iter()
            .position(|(known, _)| known.as_bytes() == name)
        {
            found[place] = Some(start..at);
        }
        at = blank(text, at);
        match text.get(at)? {
            b',' => {}
            b'}' => return Some(found),
            _ => return None,
        }
    }
}

/// The places of the members in a text that was made here. `None` for another one.
pub(super) fn places(text: &[u8]) -> Option<Members> {
    let found = members(text, None)?;
    let mut places = Members::default();
    for (place, found) in places.iter_mut().zip(found) {
        *place = found?;
    }
    Some(places)
}

/// The edits that turn one text into another with the same order of members: at most one for each.
/// `None` if the order differs.
pub(super) fn edits(
    (old, old_places): (&[u8], &Members),
    (new, new_places): (&[u8], &Members),
) -> Option<Vec<Edit>> {
    let is_ordered = |places: &Members| places.windows(2).all(|two| two[0].end <= two[1].start);
    if !is_ordered(old_places) || !is_ordered(new_places) {
        return None;
    }
    let mut edits = Vec::new();
    let mut done = 0;
    for (old_place, new_place) in old_places.iter().zip(new_places) {
        let (ours, theirs) = (&old[old_place.clone()], &new[new_place.clone()]);
        if ours == theirs {
            continue;
        }
        let mut start = common(ours, theirs);
        while !is_boundary(ours, start) || !is_boundary(theirs, start) {
            start -= 1;
        }
        let most = ours.len().min(theirs.len()) - start;
        let pairs = ours.iter().rev().zip(theirs.iter().rev()).take(most);
        let mut end = pairs.take_while(|(a, b)| a == b).count();
        while !is_boundary(theirs, theirs.len() - end) {
            end -= 1;
        }
        let insert = theirs[start..theirs.len() - end].to_vec();
        edits.push(Edit {
            keep: (old_place.start + start - done) as u64,
            skip: (ours.len() - end - start) as u64,
            insert: String::from_utf8(insert).ok()?,
        });
        done = old_place.end - end;
    }
    Some(edits)
}

/// Number of equal bytes at the beginning of two texts.
fn common(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK));
    let whole = CHUNK * chunks.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

/// A text after its edits. `None` if they do not fit it.
pub(super) fn edited(mut text: Vec<u8>, edits: &[Edit]) -> Option<Vec<u8>> {
    let mut ranges = Vec::with_capacity(edits.len());
    let mut at = 0_usize;
    for edit in edits {
        let start = at.checked_add(usize::try_from(edit.keep).ok()?)?;
        at = start.checked_add(usize::try_from(edit.skip).ok()?)?;
        ranges.push(start..at);
    }
    if at > text.len() {
        return None;
    }
    // The last one first, so that the places before it stay valid.
    for (range, edit) in ranges.into_iter().zip(edits).rev() {
        text.splice(range, edit.insert.bytes());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sent: &str) -> Text {
        Text::of_sent(sent.as_bytes(), None).expect("its members are plain")
    }

    #[test]
    fn members_stay_as_they_were_sent() {
        let sent =
            r#" {"trace": [ {"z":1,"a":[2.0]} ], "own": {"b":1}, "run": {"id":"r","b":"]"} }"#;
        let text = text(sent);
        assert_eq!(
            std::str::from_utf8(text.as_ref()).unwrap(),
            r#"{"revision":0,"run":{"id":"r","b":"]"},"trace":[ {"z":1,"a":[2.0]} ],"artifactsByKey":[],"ruleSetsById":[],"stepStatus":[],"gateState":[],"idempotency":[]}"#
        );
        assert_eq!(places(text.as_ref()), Some(text.members));
        for odd in ["", "[]", "{", r#"{"r\u0075n":{}}"#, r#"{"run":{}"#] {
            assert!(Text::of_sent(odd.as_bytes(), None).is_none(), "{odd}");
        }
    }

    #[test]
    fn edits_make_any_text_of_any_other() {
        let texts = [
            r#"{"run":{"id":"r"}}"#,
            r#"{"revision":12,"run":{"id":"r","t":"ä"},"trace":[{"b":1},{"a":"ö"}]}"#,
            r#"{"revision":13,"run":{"id":"r","t":"ö"},"trace":[{"b":1},{"a":"ö"},{"b":1}]}"#,
            r#"{"run":{"t":"ö","id":"r"},"stepStatus":[["a","pending"]],"trace":[{"b":1}]}"#,
        ]
        .map(text);
        for old in &texts {
            for new in &texts {
                let parts = |text: &Text| text.clone().into_parts();
                let ((a, at), (b, bt)) = (parts(old), parts(new));
                let edits = edits((&a, &at), (&b, &bt)).unwrap();
                assert_eq!(edits.is_empty(), a == b);
                assert_eq!(edited(a, &edits), Some(b), "{edits:?}");
            }
        }
        let far = Edit {
            keep: 1_000,
            skip: 0,
            insert: String::new(),
        };
        assert_eq!(edited(b"{}".to_vec(), &[far]), None);
    }
}
