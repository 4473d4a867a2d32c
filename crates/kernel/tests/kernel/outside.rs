//! Input from outside breaks no reader: the fuzz targets' functions run over randomly damaged
//! golden logs and documents.

use crate::scenarios;
use kernel::json;
use serde_json::{Map, Value};

#[expect(unreachable_pub, reason = "it is a crate of its own for cargo-fuzz")]
#[path = "../../fuzz/src/lib.rs"]
mod entries;

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }
}

/// Each scene as a golden log.
fn logs() -> Vec<Vec<Value>> {
    let log = |scene: scenarios::Scenario| {
        let header = serde_json::to_value(&*scene.world.run.header).expect("JSON");
        let first = serde_json::json!({ "header": header, "definition": scene.document });
        let events = scene
            .world
            .events
            .iter()
            .map(|event| serde_json::to_value(event).expect("JSON"));
        std::iter::once(first).chain(events).collect()
    };
    scenarios::all().into_iter().map(log).collect()
}

/// Number of values within a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the `at`-th value within a value.
fn change(value: &mut Value, at: &mut usize, dice: &mut Dice) {
    if *at == 0 {
        *value = other(value, dice);
        *at = usize::MAX;
        return;
    }
    if *at == usize::MAX {
        return;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, at, dice)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| change(field, at, dice)),
        _ => {}
    }
}

fn other(value: &Value, dice: &mut Dice) -> Value {
    match (dice.below(12), value) {
        (0, _) => Value::Null,
        (1, _) => Value::from(dice.roll()),
        (2, _) => Value::from(-1),
        (3, _) => Value::from(1e300),
        (4, _) => Value::from(""),
        (5, _) => Value::from("a"),
        (6, _) => Value::from("a > b && nodes['x'].outputs[0] == {}"),
        (7, _) => Value::Object(Map::new()),
        (8, _) => Value::Array(vec![value.clone(), value.clone()]),
        (9, Value::Object(fields)) if !fields.is_empty() => {
            let mut fields = fields.clone();
            let gone = fields.keys().nth(dice.below(fields.len())).cloned();
            fields.remove(&gone.expect("a field"));
            Value::Object(fields)
        }
        (9, Value::Array(items)) if !items.is_empty() => {
            let mut items = items.clone();
            items.remove(dice.below(items.len()));
            Value::Array(items)
        }
        (10, Value::Array(items)) if items.len() > 1 => {
            let mut items = items.clone();
            let (x, y) = (dice.below(items.len()), dice.below(items.len()));
            items[x] = items[y].clone();
            Value::Array(items)
        }
        (_, Value::Number(n)) => Value::from(n.as_i64().unwrap_or(0).wrapping_add(1)),
        (_, Value::String(text)) => Value::from(format!("{text}{text}")),
        (_, Value::Bool(is)) => Value::from(!is),
        _ => Value::from(true),
    }
}

fn damaged(value: &Value, dice: &mut Dice) -> Value {
    let mut value = value.clone();
    for _ in 0..=dice.below(3) {
        let mut at = dice.below(count(&value));
        change(&mut value, &mut at, dice);
    }
    value
}

fn damage_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(4) {
        0 => bytes.truncate(at),
        1 => bytes[at] = dice.roll() as u8,
        2 => bytes.insert(at, dice.roll() as u8),
        _ => drop(bytes.remove(at)),
    }
}

#[test]
fn soak_damaged_definitions() {
    let logs = logs();
    for seed in testkit::seeds(1_000, 50_000) {
        let dice = &mut Dice(seed);
        let document = &logs[dice.below(logs.len())][0]["definition"];
        let mut bytes = json::canonical(&damaged(document, dice));
        if dice.below(4) == 0 {
            damage_bytes(&mut bytes, dice);
        }
        entries::definition(&bytes);
    }
}

#[test]
fn soak_damaged_logs() {
    let logs = logs();
    let mut folded = 0;
    for seed in testkit::seeds(1_000, 50_000) {
        let dice = &mut Dice(seed);
        let mut log = logs[dice.below(logs.len())].clone();
        // The first line only sometimes: without a header the rest is not reached.
        let at = match dice.below(8) {
            0 => 0,
            _ => 1 + dice.below(log.len() - 1),
        };
        match dice.below(5) {
            0 => drop(log.remove(at)),
            1 => {
                let to = 1 + dice.below(log.len() - 1);
                log.swap(at.max(1), to);
            }
            2 => {
                let other = &logs[dice.below(logs.len())];
                let mut event = other[dice.below(other.len())].clone();
                event["seq"] = Value::from(at as u64 - u64::from(at > 0));
                log[at] = event;
            }
            _ => log[at] = damaged(&log[at], dice),
        }
        let mut lines: Vec<Vec<u8>> = log.iter().map(json::canonical).collect();
        if dice.below(6) == 0 {
            let at = dice.below(lines.len());
            damage_bytes(&mut lines[at], dice);
        }
        folded += lines.len();
        entries::log(&lines.join(&b'\n'));
    }
    assert!(folded > 0);
}

/// Undamaged, all of them are read to their end, so damaging them is a useful test.
#[test]
fn undamaged_input_is_read() {
    for log in logs() {
        entries::definition(&json::canonical(&log[0]["definition"]));
        let lines: Vec<Vec<u8>> = log.iter().map(json::canonical).collect();
        entries::log(&lines.join(&b'\n'));
    }
}
