//! Chained lines of a file: each has a `link`, the hash of the line and of the previous link, so
//! that any change before the last line is detected.

use serde::Serialize;
use serde_json::{Value, json};

use super::hash::hash_json;

/// The member of a line with its link.
pub const LINK: &str = "link";

fn without_link(line: &impl Serialize) -> (Value, Option<Value>) {
    let mut value = serde_json::to_value(line).expect("a line is always JSON");
    let members = value.as_object_mut();
    let link = members.and_then(|members| members.remove(LINK));
    (value, link)
}

/// The link of a line after another link.
fn link(before: &str, line: &Value) -> String {
    hash_json(&json!([before, line]))
}

/// The links of lines. The first one follows `seed`.
pub fn links(seed: &str, lines: &[impl Serialize]) -> Vec<String> {
    let mut before = seed.to_owned();
    let links = lines.iter().map(|line| {
        before = link(&before, &without_link(line).0);
        before.clone()
    });
    links.collect()
}

/// Lines with their links.
pub fn linked(seed: &str, lines: &[impl Serialize]) -> Vec<Value> {
    let links = links(seed, lines).into_iter();
    let linked = lines.iter().zip(links).map(|(line, link)| {
        let (mut value, _) = without_link(line);
        value[LINK] = link.into();
        value
    });
    linked.collect()
}

/// The first line, counted from 1, whose link does not match: it was changed, or follows another
/// line than before.
pub fn broken_at(seed: &str, lines: &[impl Serialize]) -> Option<usize> {
    let mut before = seed.to_owned();
    let place = lines.iter().position(|line| {
        let (value, stored) = without_link(line);
        before = link(&before, &value);
        stored.as_ref().and_then(Value::as_str) != Some(&*before)
    });
    place.map(|place| place + 1)
}
