//! Names of a run's things in other programs.

use super::AttemptKey;
use crate::digest::Digest;

/// A node id as a file name: unchanged if plain, else with every other byte as `%XX`.
pub fn file_name(node: &str) -> String {
    const MAX: usize = 100;
    let mut name = String::new();
    for (at, byte) in node.bytes().enumerate() {
        let is_plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || byte == b'.' && at > 0;
        if is_plain {
            name.push(byte as char)
        } else {
            name.push_str(&format!("%{byte:02X}"))
        }
    }
    if name.len() > MAX {
        let digest = Digest::compute(node.as_bytes()).to_string();
        name.truncate(MAX - 17);
        name.push('-');
        name.push_str(&digest[..16]);
    }
    name
}

/// The id of an attempt's task in another tool, known before its launch. It is derived from the
/// attempt, so readers of the log can compute it, and it stays the same after a crash.
pub fn task_id(tool: &str, key: &AttemptKey) -> String {
    const PREFIXES: [(&str, &str); 5] = [
        ("gemini", "gem"),
        ("qwen", "qwn"),
        ("codex", "cdx"),
        ("claude", "cld"),
        ("opencode", "opc"),
    ];
    let known = PREFIXES.iter().find(|(name, _)| *name == tool);
    let prefix = match known {
        Some((_, prefix)) => (*prefix).to_owned(),
        None => {
            let letters = tool.chars().filter(char::is_ascii_alphanumeric);
            let letters: String = letters.take(3).collect::<String>().to_ascii_lowercase();
            match letters.as_str() {
                "" => "run".to_owned(),
                _ => letters,
            }
        }
    };
    let bytes = Digest::compute(key.as_str().as_bytes()).0;
    let number = bytes[..4]
        .iter()
        .fold(0_u64, |sum, byte| sum * 256 + u64::from(*byte));
    let mut rest = bytes[4..8]
        .iter()
        .fold(0_u64, |sum, byte| sum * 256 + u64::from(*byte));
    let mut tail = String::new();
    for _ in 0..4 {
        tail.push(char::from_digit((rest % 36) as u32, 36).unwrap_or('0'));
        rest /= 36;
    }
    format!("{prefix}-{:06}-{tail}", number % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_node_id_leads_out_of_the_folder() {
        assert_eq!(file_name("N-003a"), "N-003a");
        assert_eq!(file_name("../x"), "%2E.%2Fx");
        assert_eq!(file_name("."), "%2E");
        assert_eq!(file_name("é"), "%C3%A9");
        assert!(file_name(&"x".repeat(300)).len() <= 100);
        assert_ne!(file_name(&"x".repeat(300)), file_name(&"x".repeat(301)));
    }

    #[test]
    fn a_task_has_the_shape_its_tool_gives() {
        let id = task_id("gemini", &"attempt-1".into());
        assert!(
            id.starts_with("gem-") && id.len() == "gem-143514-x7k2".len(),
            "{id}"
        );
        assert_eq!(id, task_id("gemini", &"attempt-1".into()));
        assert_ne!(id, task_id("gemini", &"attempt-2".into()));
        assert!(task_id("My Tool", &"a".into()).starts_with("myt-"));
        assert!(task_id("", &"a".into()).starts_with("run-"));
    }
}
