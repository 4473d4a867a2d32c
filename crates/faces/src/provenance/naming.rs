//! What the file of a snapshot is called: `{workflow_id}-{timestamp}.json`.
//!
//! The name is for people. Nothing is ever read from it: ids may hold hyphens.

use kernel::digest::Digest;
use kernel::time::Timestamp;

/// Characters of a workflow's id that a file name has at most.
const MAX_CHARS: usize = 100;
/// Names that some system keeps for itself, and what is no name.
const RESERVED: [&str; 8] = ["", "con", "prn", "aux", "nul", "com1", "lpt1", "latest"];

/// The name of a file without its ending.
pub fn stem(workflow_id: &str, captured: Timestamp) -> String {
    let at = captured.to_string().replace([':', '.'], "-");
    format!("{}-{at}", part(workflow_id))
}

/// A workflow's id as part of a file name. Where anything had to be changed, the beginning of its
/// hash tells it from others that came to the same.
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
        let hash = Digest::of(workflow_id.as_bytes()).to_string();
        shown = format!("{shown}~{}", &hash[..8]);
    }
    shown
}
