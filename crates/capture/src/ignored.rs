//! What of a tool's input does not count: times and ids that are others each time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// JSON pointers into the inputs of tools, by the tool's name. What they name is taken out before
/// the input is kept, hashed and matched; the snapshot lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ignored(BTreeMap<String, Vec<String>>);

impl Ignored {
    /// Reads `TOOL=/pointer`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(typed: &str) -> Result<(String, String), &'static str> {
        match typed.split_once('=') {
            Some((tool, pointer)) if !tool.is_empty() && pointer.starts_with('/') => {
                Ok((tool.to_owned(), pointer.to_owned()))
            }
            _ => Err("write TOOL=/pointer, as search=/time or fetch=/argv/2"),
        }
    }

    /// Whether everything counts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out of an input of a tool what does not count. A place in a list keeps the places
    /// behind it where they are.
    pub fn take_out(&self, tool: &str, input: &mut Value) {
        for pointer in self.0.get(tool).into_iter().flatten() {
            let Some((parent, last)) = pointer.rsplit_once('/') else {
                continue;
            };
            let name = last.replace("~1", "/").replace("~0", "~");
            match input.pointer_mut(parent) {
                Some(Value::Object(members)) => drop(members.remove(&name)),
                Some(Value::Array(items)) => {
                    let place = name.parse::<usize>().ok();
                    if let Some(item) = place.and_then(|place| items.get_mut(place)) {
                        *item = Value::Null;
                    }
                }
                _ => {}
            }
        }
    }
}

impl FromIterator<(String, String)> for Ignored {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut ignored = Self::default();
        for (tool, pointer) in pairs {
            ignored.0.entry(tool).or_default().push(pointer);
        }
        ignored
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_named_is_taken_out_and_nothing_else() {
        let typed = [
            "a=/at",
            "a=/deep/x~1y",
            "a=/argv/1",
            "a=/none/1",
            "a=/argv/9",
        ];
        let ignored: Ignored = typed
            .iter()
            .map(|typed| Ignored::parse(typed).unwrap())
            .collect();
        let input = json!({ "at": 1, "deep": { "x/y": 2, "z": 3 }, "argv": ["x", "y", "z"] });
        let mut of_a = input.clone();
        ignored.take_out("a", &mut of_a);
        assert_eq!(
            of_a,
            json!({ "deep": { "z": 3 }, "argv": ["x", null, "z"] })
        );
        let mut of_b = input.clone();
        ignored.take_out("b", &mut of_b);
        assert_eq!(of_b, input);
        for wrong in ["a", "a=b", "=/x", "a="] {
            assert!(Ignored::parse(wrong).is_err(), "{wrong}");
        }
    }
}
