//! Changes one entry of a long JSON file without parsing the others: the files are ours, so the
//! beginning and end of an entry are known to the byte.

use serde::Serialize;

/// A value as indented pretty JSON.
pub(super) fn pretty(value: &impl Serialize, indent: usize) -> String {
    let text = serde_json::to_string_pretty(value).expect("a view is always JSON");
    let margin = " ".repeat(indent);
    let mut moved = String::with_capacity(text.len() + 64);
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            moved.push('\n');
        }
        moved.push_str(&margin);
        moved.push_str(line);
    }
    moved
}

/// The beginning of a file of records.
const HEAD: &str = "{\n  \"records\": [\n";
const TAIL: &str = "\n  ]\n}";
/// The indentation of a record.
const INDENT: usize = 4;
/// The end of a record: its inner lines are indented further.
const RECORD_END: &str = "\n    }";

/// A file of records.
pub(super) struct RecordFile {
    text: String,
}

impl RecordFile {
    /// The file with all these records.
    pub(super) fn from_records<'a, T: Serialize + 'a>(
        records: impl Iterator<Item = &'a T>,
    ) -> Self {
        let records: Vec<String> = records.map(|record| pretty(record, INDENT)).collect();
        let text = match records.as_slice() {
            [] => "{\n  \"records\": []\n}".to_owned(),
            records => format!("{HEAD}{}{TAIL}", records.join(",\n")),
        };
        Self { text }
    }

    /// An existing file.
    pub(super) fn from(text: String) -> Self {
        Self { text }
    }

    /// The bytes to write.
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Appends a record. `None` when the file does not end as expected.
    pub(super) fn push(&mut self, record: &impl Serialize) -> Option<()> {
        let end = self.text.strip_suffix(TAIL)?.len();
        if !self.text.starts_with(HEAD) {
            return None;
        }
        self.text.truncate(end);
        self.text.push_str(",\n");
        self.text.push_str(&pretty(record, INDENT));
        self.text.push_str(TAIL);
        Some(())
    }

    /// The first record whose first field has this value, and its range.
    pub(super) fn find(&self, field: &str, value: &str) -> Option<(std::ops::Range<usize>, &str)> {
        let value = serde_json::to_string(value).ok()?;
        // Line ends within texts are escaped: this can only be the beginning of a record.
        let start = self
            .text
            .find(&format!("    {{\n      \"{field}\": {value},\n"))?;
        let length = self.text[start..].find(RECORD_END)? + RECORD_END.len();
        let range = start..start + length;
        Some((range.clone(), &self.text[range]))
    }

    /// Replaces a record.
    pub(super) fn put(&mut self, range: std::ops::Range<usize>, record: &impl Serialize) {
        self.text.replace_range(range, &pretty(record, INDENT));
    }
}

/// Inserts an id into a sorted list of ids, one on a line, between a head and a tail. `None` when a
/// line is malformed.
pub(super) fn insert_sorted(text: &mut String, head: &str, tail: &str, id: &str) -> Option<()> {
    let line = |id: &str| serde_json::to_string(id).ok();
    let fresh = line(id)?;
    let body = text.strip_prefix(head)?.strip_suffix(tail)?;
    let mut at = head.len();
    let mut before_any = None;
    for row in body.split_inclusive('\n') {
        let entry = row
            .trim_end_matches('\n')
            .trim_end_matches(',')
            .trim_start();
        // Ids are ordered as texts; their written form has the same order only without escapes.
        let is_before = if entry.contains('\\') {
            serde_json::from_str::<String>(entry).ok()?.as_str() < id
        } else {
            entry.get(1..entry.len().checked_sub(1)?)? < id
        };
        if !is_before {
            before_any = Some(at);
            break;
        }
        at += row.len();
    }
    match before_any {
        Some(at) => text.insert_str(at, &format!("    {fresh},\n")),
        None => {
            let end = text.len() - tail.len();
            text.insert_str(end, &format!(",\n    {fresh}"));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_record_is_found_and_changed_among_look_alikes() {
        let records = [
            json!({"id": "a", "note": "    {\n      \"id\": \"b\",\n"}),
            json!({"id": "b", "note": {"id": "c", "deep": {"x": 1}}}),
            json!({"id": "c\"\n", "note": null}),
        ];
        let mut file = RecordFile::from_records(records.iter());
        let (range, text) = file.find("id", "b").unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), records[1]);
        file.put(range, &json!({"id": "b", "note": 2}));
        assert!(file.find("id", "c\"\n").is_some());
        assert!(file.find("id", "x").is_none());
        file.push(&json!({"id": "d", "note": 3})).unwrap();
        let read: Value = serde_json::from_slice(file.bytes()).unwrap();
        let notes: Vec<&Value> = (read["records"].as_array().unwrap().iter())
            .map(|record| &record["note"])
            .collect();
        assert_eq!(
            notes,
            [&records[0]["note"], &json!(2), &json!(null), &json!(3)]
        );
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_changed() {
        let mut file = RecordFile::from("{\"records\":[]}".to_owned());
        assert!(file.push(&json!({"id": "a"})).is_none());
        assert!(file.find("id", "a").is_none());
    }

    #[test]
    fn ids_stay_sorted() {
        let (head, tail) = ("[\n", "\n]");
        let mut text = "[\n    \"b\"\n]".to_owned();
        for id in ["d", "a", "c\"", "c", "\n"] {
            insert_sorted(&mut text, head, tail, id).unwrap();
        }
        let read: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ["\n", "a", "b", "c", "c\"", "d"]);
    }
}
