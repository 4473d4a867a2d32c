//! From a JSON pointer to the place in the text.

use serde_json::Value;

use super::position;
use crate::problem::Problem;

/// Maximum bytes read again to find the places of problems; the remaining problems get none.
const MAX_READ: usize = 64 << 20;

/// Adds the place in the text to every problem. A missing field is located at its object.
pub fn locate(text: &[u8], problems: &mut [Problem]) {
    let most = MAX_READ / text.len().max(1);
    let unplaced = problems.iter_mut().filter(|problem| problem.at.is_none());
    for problem in unplaced.take(most) {
        problem.at = Some(position(text, offset(text, &problem.path)));
    }
}

/// The JSON text with another value at a pointer; everything else stays byte for byte. `None` if
/// the pointer has no value.
pub fn replaced(text: &str, pointer: &str, value: &Value) -> Option<String> {
    serde_json::from_str::<Value>(text).ok()?.pointer(pointer)?;
    let from = offset(text.as_bytes(), pointer);
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: from,
    };
    scan.skip();
    let behind = text[from..scan.at].trim_end().len() + from;
    Some(format!("{}{value}{}", &text[..from], &text[behind..]))
}

/// The beginning of the value at a pointer, or of the innermost existing value around it.
fn offset(text: &[u8], pointer: &str) -> usize {
    let mut scan = Scan { bytes: text, at: 0 };
    scan.space();
    let mut found = scan.at;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        match scan.enter(&token) {
            Some(at) => found = at,
            None => break,
        }
    }
    found
}

/// Reads text that is known to be JSON.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Enters a member of the current value; returns its beginning.
    fn enter(&mut self, token: &str) -> Option<usize> {
        let is_object = match self.peek()? {
            b'{' => true,
            b'[' => false,
            _ => return None,
        };
        self.at += 1;
        for index in 0.. {
            self.space();
            if matches!(self.peek()?, b'}' | b']') {
                return None;
            }
            let is_it = if is_object {
                let from = self.at;
                self.skip();
                let key = self.bytes.get(from..self.at)?;
                self.space();
                self.at += 1;
                self.space();
                serde_json::from_slice::<String>(key).is_ok_and(|key| key == token)
            } else {
                token.parse() == Ok(index)
            };
            if is_it {
                return Some(self.at);
            }
            self.skip();
            self.space();
            if self.peek()? == b',' {
                self.at += 1;
            }
        }
        None
    }

    /// Moves past the current value.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_text(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' | b':' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                return;
            }
        }
    }

    fn skip_text(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += match byte {
                b'\\' => 2,
                _ => 1,
            };
            if byte == b'"' {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pointer: &str, line: usize, column: usize) {
        let text = b"{\n  \"a\": [1, {\"x\\\"/y\": \"]}\"},\n    true],\n  \"b\": {\"c\": null}\n}";
        let at = position(text, offset(text, pointer));
        assert_eq!((at.line, at.column), (line, column), "{pointer}");
    }

    #[test]
    fn a_pointer_leads_to_its_line_and_column() {
        check("", 1, 1);
        check("/a", 2, 8);
        check("/a/0", 2, 9);
        check("/a/1", 2, 12);
        check("/a/1/x\"~1y", 2, 22);
        check("/a/2", 3, 5);
        check("/b/c", 4, 14);
    }

    #[test]
    fn one_value_is_replaced_and_the_rest_stays() {
        let text = "{ \"b\": \"x\",\n  \"a\": {\"c\": null , \"d\": [1, 2]}}";
        let changed = |pointer, value| replaced(text, pointer, &value);
        assert_eq!(
            changed("/b", Value::from("y")).unwrap(),
            text.replace("\"x\"", "\"y\"")
        );
        assert_eq!(
            changed("/a/c", Value::from(7)).unwrap(),
            text.replace("null", "7")
        );
        assert_eq!(
            changed("/a/d/1", Value::from("z")).unwrap(),
            text.replace("2", "\"z\"")
        );
        assert_eq!(changed("/a/e", Value::Null), None);
    }

    #[test]
    fn a_missing_value_is_located_at_its_parent() {
        check("/b/d", 4, 8);
        check("/z", 1, 1);
        check("/a/7", 2, 8);
        check("/a/0/x", 2, 9);
    }
}
