//! Compressed tar archives whose bytes depend on their contents only.

use std::collections::BTreeSet;
use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// The time of each file, in seconds: the one that npm also uses. Programs warn about zero.
const MODIFIED: u64 = 499_162_500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Program,
}

impl Kind {
    /// The permissions of the file.
    pub(super) fn mode(self) -> u32 {
        match self {
            Self::Text => 0o644,
            Self::Program => 0o755,
        }
    }
}

/// A file in an archive.
pub(super) struct File<'a> {
    pub path: String,
    pub kind: Kind,
    pub bytes: &'a [u8],
}

impl<'a> File<'a> {
    pub(super) fn text(path: impl Into<String>, bytes: &'a [u8]) -> Self {
        Self {
            path: path.into(),
            kind: Kind::Text,
            bytes,
        }
    }

    pub(super) fn program(path: impl Into<String>, bytes: &'a [u8]) -> Self {
        Self {
            path: path.into(),
            kind: Kind::Program,
            bytes,
        }
    }
}

/// The files with their folders; root owns everything.
pub(super) fn tar_gz(files: &[File<'_>]) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for folder in folders(files) {
        let mut header = header(EntryType::Directory, 0o755, 0);
        tar.append_data(&mut header, folder, io::empty())?;
    }
    for file in files {
        let mut header = header(EntryType::Regular, file.kind.mode(), file.bytes.len());
        tar.append_data(&mut header, &file.path, file.bytes)?;
    }
    tar.into_inner()?.finish()
}

/// Every folder above a file, outer folders first.
fn folders<'a>(files: &'a [File<'_>]) -> BTreeSet<&'a str> {
    let mut folders = BTreeSet::new();
    for file in files {
        let ends = file.path.match_indices('/').map(|(end, _)| end);
        folders.extend(ends.map(|end| &file.path[..end]));
    }
    folders
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_mtime(MODIFIED);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;

    /// Path to permissions and text, in the order of the archive for paths that end with `/`.
    pub(in crate::package) fn read(archive: &[u8]) -> BTreeMap<String, (u32, String)> {
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
        let mut entries = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mode = entry.header().mode().unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            entries.insert(path, (mode, text));
        }
        entries
    }

    #[test]
    fn folders_precede_their_files() {
        let files = [File::program("a/b/run", b"x"), File::text("a/c", b"yy")];
        let archive = tar_gz(&files).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&archive[..]));
        let entries = tar.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            (path, entry.header().mode().unwrap())
        });
        let expected = [
            ("a", 0o755),
            ("a/b", 0o755),
            ("a/b/run", 0o755),
            ("a/c", 0o644),
        ];
        assert_eq!(
            entries.collect::<Vec<_>>(),
            expected.map(|(path, mode)| (path.to_owned(), mode))
        );
    }
}
