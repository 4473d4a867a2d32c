//! The text files of a checkout.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folders without source, for a checkout without version control.
const NOT_SOURCE: &[&str] = &[".git", ".runwright", "node_modules", "target"];

/// Path (with `/`, from the root) to text. Binary files are left out.
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads the files that are or would be under version control; in an unpacked archive, all
    /// files.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let paths = match tracked(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut files = BTreeMap::new();
        for path in paths {
            match std::fs::read(root.join(&path)) {
                Ok(bytes) => {
                    if let Ok(text) = String::from_utf8(bytes) {
                        files.insert(path, text);
                    }
                }
                // Deleted and not committed yet, or a link to a folder.
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory
                    ) => {}
                Err(error) => return Err(format!("cannot read {path}: {error}")),
            }
        }
        Ok(Self(files))
    }

    /// A file's text.
    pub(super) fn file(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Every file, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file, by path.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Whether a file, or a folder with a text file in it, exists.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.0.contains_key(path) || self.0.keys().any(|file| file.starts_with(&folder))
    }

    /// Number of files.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(
            files
                .into_iter()
                .map(|(path, text)| (path.to_owned(), text.to_owned()))
                .collect(),
        )
    }
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success() && !output.stdout.is_empty())?;
    let paths = String::from_utf8_lossy(&output.stdout);
    Some(paths.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot list {}: {error}", root.display());
    for entry in std::fs::read_dir(root.join(below)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !NOT_SOURCE.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_archive_is_walked_without_build_output() {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            ("README.md", &b"text"[..]),
            ("crates/a/src/lib.rs", b"//! A."),
            ("target/debug/out.rs", b"built"),
            ("logo.png", &[0xff, 0xd8, 0x00]),
        ] {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        }
        let tree = Tree::read(dir.path()).unwrap();
        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(paths, ["README.md", "crates/a/src/lib.rs"]);
        assert!(tree.has("crates/a") && tree.has("README.md") && !tree.has("crates/b"));
    }
}
