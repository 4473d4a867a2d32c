//! The file name of a snapshot: `{workflow_id}-{timestamp}.json`.
//!
//! The name is for people and never parsed: ids may contain hyphens.

use kernel::digest::Digest;
use kernel::time::Timestamp;

/// Maximum characters of a workflow's id in a file name.
const MAX_CHARS: usize = 100;
/// Names reserved by some system, and the empty name.
const RESERVED: [&str; 8] = ["", "con", "prn", "aux", "nul", "com1", "lpt1", "latest"];

/// The name of a file without its ending.
pub fn stem(workflow_id: &str, captured: Timestamp) -> String {
    let at = captured.to_string().replace([':', '.'], "-");
    format!("{}-{at}", part(workflow_id))
}

/// A workflow's id as part of a file name. If any character was replaced, the first digits of its
/// hash distinguish it from other ids with the same result.
pub fn part(workflow_id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let shown = workflow_id.chars().map(|c| if plain(c) { c } else { '_' });
    let shown: String = shown.collect();
    let mut shown = shown.trim_start_matches('.').to_owned();
    shown.truncate(MAX_CHARS);
    if RESERVED.contains(&shown.to_ascii_lowercase().as_str()) {
        shown = "workflow".to_owned();
    }
    if shown != workflow_id {
        let hash = Digest::compute(workflow_id.as_bytes()).to_string();
        shown = format!("{shown}~{}", &hash[..8]);
    }
    shown
}
