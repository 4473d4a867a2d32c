//! The event format and its description change together: `docs/design/event-format.md` quotes a
//! hash of the files that define events.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::Finding;
use super::tree::Tree;

const SOURCES: &str = "crates/kernel/src/";
const DOCUMENT: &str = "docs/design/event-format.md";
const PREFIX: &str = "event.rs hash: ";

/// The quoted hash is the hash of the current files.
pub(super) fn quoted(tree: &Tree) -> Vec<Finding> {
    let fail = |path: &str, message: &str| vec![Finding::fail(path, None, message)];
    match (hash(tree), tree.file(DOCUMENT)) {
        (None, None) => Vec::new(),
        (Some(_), None) => fail(DOCUMENT, "missing; describe there what event.rs defines"),
        (None, Some(_)) => fail(
            DOCUMENT,
            "describes events that no event.rs defines; remove it",
        ),
        (Some(hash), Some(text)) => {
            let quoted = text.lines().find_map(|line| line.strip_prefix(PREFIX));
            if quoted == Some(hash.as_str()) {
                return Vec::new();
            }
            fail(
                DOCUMENT,
                "quotes another hash of event.rs; an event-format change stands alone: bring this \
                 page up to date, add golden logs, then run `cargo xtask tidy --bless`",
            )
        }
    }
}

/// Writes the current hash into the document.
pub(super) fn bless(root: &Path, tree: &Tree) -> Result<(), String> {
    let (Some(hash), Some(text)) = (hash(tree), tree.file(DOCUMENT)) else {
        return Ok(());
    };
    let blessed = with_hash(text, &hash);
    std::fs::write(root.join(DOCUMENT), blessed)
        .map_err(|error| format!("cannot write {DOCUMENT}: {error}"))
}

fn with_hash(text: &str, hash: &str) -> String {
    let line = format!("{PREFIX}{hash}\n");
    if !text.lines().any(|line| line.starts_with(PREFIX)) {
        return format!("{text}\n{line}");
    }
    text.split_inclusive('\n')
        .map(|old| {
            if old.starts_with(PREFIX) {
                line.as_str()
            } else {
                old
            }
        })
        .collect()
}

/// SHA-256 over path and text of every `event.rs` of the kernel and of files in folders of that
/// name; `None` without such files.
fn hash(tree: &Tree) -> Option<String> {
    let mut sources = tree
        .rust()
        .filter(|(path, _)| path.starts_with(SOURCES))
        .filter(|(path, _)| path.ends_with("/event.rs") || path.contains("/event/"))
        .peekable();
    sources.peek()?;
    let mut hasher = Sha256::new();
    for (path, text) in sources {
        hasher.update(path);
        hasher.update([0]);
        hasher.update(text);
        hasher.update([0]);
    }
    Some(
        hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: (&str, &str) = ("crates/kernel/src/run/event.rs", "enum Event {}\n");

    #[test]
    fn the_page_and_the_code_exist_together() {
        assert_eq!(quoted(&Tree::from([])), []);
        assert_eq!(quoted(&Tree::from([EVENT])).len(), 1);
        assert_eq!(quoted(&Tree::from([(DOCUMENT, "# Events\n")])).len(), 1);
    }

    #[test]
    fn a_changed_event_file_makes_the_page_stale_until_blessed() {
        let hash = hash(&Tree::from([EVENT])).unwrap();
        assert_eq!(hash.len(), 64);
        let page = with_hash("# Events\n\nevent.rs hash: old\nmore\n", &hash);
        assert_eq!(page, format!("# Events\n\nevent.rs hash: {hash}\nmore\n"));
        assert_eq!(quoted(&Tree::from([EVENT, (DOCUMENT, page.as_str())])), []);
        let changed = (EVENT.0, "enum Event { New }\n");
        assert_eq!(
            quoted(&Tree::from([changed, (DOCUMENT, page.as_str())])).len(),
            1
        );
        let split = ("crates/kernel/src/run/event/node.rs", "enum NodeEvent {}\n");
        assert_eq!(
            quoted(&Tree::from([EVENT, split, (DOCUMENT, page.as_str())])).len(),
            1
        );
    }

    #[test]
    fn blessing_adds_a_missing_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("docs/design")).unwrap();
        let tree = Tree::from([EVENT, (DOCUMENT, "# Events\n")]);
        bless(dir.path(), &tree).unwrap();
        let page = std::fs::read_to_string(dir.path().join(DOCUMENT)).unwrap();
        assert_eq!(quoted(&Tree::from([EVENT, (DOCUMENT, page.as_str())])), []);
    }
}
