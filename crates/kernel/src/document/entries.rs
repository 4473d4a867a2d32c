//! A map in its wire form: pairs in the order of their keys' first occurrence.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Keys and values in order, with fast lookup. A copy shares the values.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    list: Vec<(String, Arc<Value>)>,
    places: BTreeMap<String, usize>,
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl FromIterator<(String, Value)> for Entries {
    /// For a repeated key the first place and the last value count, as in JavaScript.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        let mut entries = Self::default();
        for (key, value) in pairs {
            entries.set(key, value);
        }
        entries
    }
}

impl Entries {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.places.get(key).map(|&place| &*self.list[place].1)
    }

    /// The value of a key, for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let place = *self.places.get(key)?;
        Some(Arc::make_mut(&mut self.list[place].1))
    }

    /// Sets the value of a key; a new key goes to the end.
    pub fn set(&mut self, key: String, value: Value) {
        self.put(key, Arc::new(value));
    }

    fn put(&mut self, key: String, value: Arc<Value>) {
        match self.places.get(&key) {
            Some(&place) => self.list[place].1 = value,
            None => {
                self.places.insert(key.clone(), self.list.len());
                self.list.push((key, value));
            }
        }
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.list
            .iter()
            .map(|(key, value)| (key.as_str(), &**value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The difference that turns this into `target`.
    pub(super) fn delta(&self, target: &Self) -> Option<Delta> {
        if self == target {
            return None;
        }
        let changed = target
            .iter()
            .filter(|(key, value)| self.get(key) != Some(value));
        let gone = self
            .list
            .iter()
            .filter(|(key, _)| target.get(key).is_none());
        let mut delta = Delta {
            set: changed
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect(),
            unset: gone.map(|(key, _)| key.clone()).collect(),
            order: None,
        };
        let mut made = self.clone();
        made.apply(delta.clone());
        if made != *target {
            delta.order = Some(target.list.iter().map(|(key, _)| key.clone()).collect());
        }
        Some(delta)
    }

    pub(super) fn apply(&mut self, delta: Delta) {
        for (key, value) in delta.set {
            self.set(key, value);
        }
        if delta.unset.is_empty() && delta.order.is_none() {
            return;
        }
        let mut pairs: BTreeMap<String, Arc<Value>> = std::mem::take(&mut self.list)
            .into_iter()
            .filter(|(key, _)| !delta.unset.contains(key))
            .collect();
        let old = std::mem::take(&mut self.places);
        let order = delta.order.unwrap_or_else(|| {
            let mut keys: Vec<(usize, String)> = old
                .into_iter()
                .filter(|(key, _)| pairs.contains_key(key))
                .map(|(key, place)| (place, key))
                .collect();
            keys.sort();
            keys.into_iter().map(|(_, key)| key).collect()
        });
        for key in order {
            if let Some(value) = pairs.remove(&key) {
                self.put(key, value);
            }
        }
    }
}

/// The difference between two maps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delta {
    /// Pairs that are new or changed; new keys go to the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, Value)>,
    /// Removed keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// All keys, if setting and removing leaves them in another order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entries(text: &str) -> Entries {
        let pair = |pair: &str| (pair[..1].to_owned(), json!(pair[1..]));
        text.split_whitespace().map(pair).collect()
    }

    #[test]
    fn a_delta_makes_any_map_of_any_other() {
        let maps = [
            "",
            "a1",
            "a1 b2",
            "b2 a1",
            "b3 c1 a1",
            "c1",
            "a2 b2 c2 d2",
            "d1 c1 b1 a1",
        ];
        for from in maps {
            for to in maps {
                let (mut made, target) = (entries(from), entries(to));
                let Some(delta) = made.delta(&target) else {
                    assert_eq!(from, to);
                    continue;
                };
                let text = serde_json::to_string(&delta).unwrap();
                made.apply(serde_json::from_str(&text).unwrap());
                assert_eq!(made, target, "{from} -> {to}: {text}");
                for (key, value) in target.iter() {
                    assert_eq!(made.get(key), Some(value));
                }
            }
        }
    }

    #[test]
    fn a_duplicate_key_keeps_its_place_and_the_last_value() {
        assert_eq!(entries("a1 b2 a3"), entries("a3 b2"));
    }
}
