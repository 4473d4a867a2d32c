//! Scans the working folder and its changes.
//!
//! Compares a manifest before with a manifest after. Git is only used to list tracked files, so
//! that uncommitted files are covered as well.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};
use ignore::DirEntry;
use kernel::digest::{Digest, Hasher};
use parking_lot::Mutex;
use runtime::named_file::NamedFile;

use crate::call::{Change, FolderChange, FolderMetadata, Keep, ModeChange, Operation};
use crate::clean::{Cleaner, Content};

mod walk;

pub(crate) use walk::is_gone;

/// Maximum files of a working folder.
pub const MAX_FILES: usize = 100_000;
/// Maximum bytes of a working folder.
pub const MAX_BYTES: u64 = 2 << 30;
/// Maximum size of a file whose content is kept.
pub const MAX_CONTENT: u64 = 1 << 20;
/// Maximum bytes of contents that are held in memory, in case their files change.
const MAX_HELD: u64 = 256 << 20;
/// Maximum size of a file that is cleaned before it is hashed; a larger one is hashed raw, in
/// pieces.
pub(crate) const MAX_WHOLE: u64 = 8 << 20;
/// A file that changed this shortly before a scan may change again with the same times.
const RACY_NS: i128 = 2_000_000_000;
/// Marks escaped bytes: those that are not UTF-8, and `%` itself.
const ESCAPED: u8 = b'%';

/// Excluded by default.
const DEFAULT_EXCLUDED: [&str; 5] = [
    "**/*.log",
    "**/node_modules/**",
    "**/target/**",
    "**/*.timestamp",
    "**/__pycache__/**",
];

/// Why a folder is not scanned.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// It exceeds the limits.
    #[error(
        "{path} has more than {MAX_FILES} files or 2 GiB to watch; choose a smaller folder with \
         --root, or exclude parts of it with --exclude"
    )]
    TooLarge {
        /// The folder.
        path: PathBuf,
    },
    /// A pattern is invalid.
    #[error("`{pattern}` is not a path pattern: {reason}")]
    BadPattern {
        /// As given.
        pattern: String,
        /// The reason why it is invalid.
        reason: String,
    },
    /// The system's.
    #[error("{path}: {error}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// Which files of a folder are watched.
#[derive(Clone, Debug)]
pub struct Filter {
    exclude: GlobSet,
    /// Folders that are excluded as a whole.
    shut: GlobSet,
    include: GlobSet,
    has_includes: bool,
    patterns: (Vec<String>, Vec<String>),
}

impl Filter {
    /// The default filter, without paths in `exclude` and with those in `include`, which may be
    /// excluded by default.
    ///
    /// # Errors
    /// When a pattern is invalid.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, ScanError> {
        let defaults = DEFAULT_EXCLUDED.iter().map(|pattern| (*pattern).to_owned());
        let left_out: Vec<String> = defaults.chain(exclude.iter().cloned()).collect();
        let shut = left_out.iter().filter_map(|glob| glob.strip_suffix("/**"));
        Ok(Self {
            shut: globs(shut.map(str::to_owned))?,
            exclude: globs(left_out.iter().cloned())?,
            include: globs(include.iter().cloned())?,
            has_includes: !include.is_empty(),
            patterns: (include.to_vec(), exclude.to_vec()),
        })
    }

    /// Whether a path is watched, if its parent folders are.
    fn wants(&self, relative: &Path) -> bool {
        self.include.is_match(relative) || !self.exclude.is_match(relative)
    }

    /// Whether a path is watched, even inside an excluded folder.
    fn wants_deep(&self, relative: &Path) -> bool {
        let above = relative.ancestors().skip(1);
        let mut above = above.filter(|folder| !folder.as_os_str().is_empty());
        self.include.is_match(relative)
            || self.wants(relative) && !above.any(|folder| self.leaves_out(folder))
    }

    /// Whether a folder is excluded, except for explicitly included paths.
    fn leaves_out(&self, folder: &Path) -> bool {
        self.exclude.is_match(folder) || self.shut.is_match(folder)
    }

    /// The given patterns: included and excluded ones.
    pub fn patterns(&self) -> (&[String], &[String]) {
        (&self.patterns.0, &self.patterns.1)
    }
}

fn globs(patterns: impl Iterator<Item = String>) -> Result<GlobSet, ScanError> {
    let bad = |pattern: &str, error: globset::Error| ScanError::BadPattern {
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(&pattern).map_err(|error| bad(&pattern, error))?);
    }
    set.build().map_err(|error| bad("", error))
}

/// A file at the time of a scan.
#[derive(Clone, Debug)]
struct Entry {
    /// Digest of its raw bytes: whether it changed.
    raw: Digest,
    /// Digest of its clean bytes: the form that is written.
    clean: Digest,
    size: u64,
    mode: u32,
    link: bool,
    stamp: Stamp,
    /// Its clean bytes, while they are held in memory.
    content: Option<Arc<[u8]>>,
    /// The values removed from them, by kind.
    taken: BTreeMap<String, u64>,
    /// Whether these are literal values of variables.
    is_verbatim: bool,
}

impl Entry {
    fn redacted(&self) -> u64 {
        self.taken.values().sum()
    }
}

/// Shows without reading that a file has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    mtime_ns: i128,
    ctime_ns: i128,
    inode: u64,
}

impl Stamp {
    fn from_metadata(meta: &std::fs::Metadata) -> Self {
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Self {
            size: meta.len(),
            mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Manifest {
    files: BTreeMap<String, Entry>,
    /// Folders with their permission bits.
    folders: BTreeMap<String, u32>,
    unreadable: BTreeSet<String>,
    begun_ns: i128,
    held: u64,
}

/// A watched working folder.
pub struct Folder {
    root: PathBuf,
    filter: Filter,
    cleaner: Cleaner,
    keep: Arc<dyn Keep>,
    first: Manifest,
    last: Mutex<Manifest>,
    /// Contents whose removed values are already counted.
    tallied: Mutex<BTreeSet<Digest>>,
}

impl Manifest {
    /// Notes an existing path that cannot be read.
    fn unread(&mut self, name: String) {
        self.unreadable.insert(name);
    }

    /// Notes a path that the walk could not enter. Files that vanished meanwhile, and excluded
    /// ones, are skipped.
    fn not_walked(
        &mut self,
        root: &Path,
        error: ignore::Error,
        is_missed: impl Fn(&Path) -> bool,
    ) -> Result<(), ScanError> {
        match walk::unread(root, error)? {
            Some(path) if is_missed(&path) => self.unread(shown(&path)),
            _ => {}
        }
        Ok(())
    }

    /// Whether a path or one of its parents could not be read.
    fn has_not_read(&self, name: &str) -> bool {
        let mut above = Path::new(name).ancestors().filter_map(Path::to_str);
        above.any(|path| self.unreadable.contains(path))
    }

    /// Copies the previous state of unreadable paths, whose changes are unknown.
    fn take_over(&mut self, previous: &Self) {
        if self.unreadable.is_empty() {
            return;
        }
        for (name, entry) in &previous.files {
            if self.has_not_read(name) && !self.files.contains_key(name) {
                self.files.insert(name.clone(), entry.clone());
            }
        }
        for (name, mode) in &previous.folders {
            if self.has_not_read(name) && !self.folders.contains_key(name) {
                self.folders.insert(name.clone(), *mode);
            }
        }
    }
}

impl Folder {
    /// Scans a folder for the first time. Blocks.
    ///
    /// # Errors
    /// When it exceeds the limits, or cannot be read.
    pub fn open(
        root: &Path,
        filter: Filter,
        cleaner: Cleaner,
        keep: Arc<dyn Keep>,
    ) -> Result<Self, ScanError> {
        let first = scan(root, &filter, &cleaner, &Manifest::default())?;
        Ok(Self {
            root: root.to_owned(),
            filter,
            cleaner,
            keep,
            last: Mutex::new(first.clone()),
            first,
            tallied: Mutex::default(),
        })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The changes since the last scan. Contents are kept. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a content cannot be kept.
    pub fn step(&self) -> Result<(Vec<Change>, FolderMetadata), ScanError> {
        let mut last = self.last.lock();
        let now = scan(&self.root, &self.filter, &self.cleaner, &last)?;
        let metadata = metadata(&last, &now, &self.cleaner);
        let changes = (self.difference(&last, &now)?, metadata);
        *last = now;
        Ok(changes)
    }

    /// The changes since the beginning, without those that were undone. Blocks.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn net(&self) -> Result<(Vec<Change>, FolderMetadata), ScanError> {
        let mut last = self.last.lock();
        let now = scan(&self.root, &self.filter, &self.cleaner, &last)?;
        let changes = (
            self.difference(&self.first, &now)?,
            metadata(&self.first, &now, &self.cleaner),
        );
        *last = now;
        Ok(changes)
    }

    /// Paths that could not be read in the first or the last scan.
    pub fn unreadable(&self) -> Vec<String> {
        let last = self.last.lock();
        let all = self.first.unreadable.union(&last.unreadable);
        all.cloned().collect()
    }

    fn difference(&self, from: &Manifest, to: &Manifest) -> Result<Vec<Change>, ScanError> {
        let mut changes = Vec::new();
        for (path, new) in &to.files {
            let old = from.files.get(path);
            if old.is_some_and(|old| old.raw == new.raw && old.link == new.link) {
                continue;
            }
            let operation = match old {
                Some(_) => Operation::Modified,
                // It may have existed unread before.
                None if from.has_not_read(path) => continue,
                None => Operation::Created,
            };
            let kept = self.keep_content(path, new)?;
            let before = old.map(|old| self.keep_content(path, old).map(|kept| (old.clean, kept)));
            let before = before.transpose()?;
            changes.push(Change {
                path: self.cleaner.text(path),
                operation,
                hash: new.clean,
                before: before.map(|(hash, _)| hash),
                size: new.size,
                mode: new.mode,
                link: new.link,
                not_kept: !kept || before.is_some_and(|(_, kept)| !kept),
                redacted: new.redacted(),
                redacted_before: old.map_or(0, Entry::redacted),
                verbatim: new.is_verbatim,
                verbatim_before: old.is_some_and(|old| old.is_verbatim),
            });
        }
        for (path, old) in &from.files {
            if !to.files.contains_key(path) {
                let kept = self.keep_content(path, old)?;
                changes.push(Change {
                    path: self.cleaner.text(path),
                    operation: Operation::Deleted,
                    hash: old.clean,
                    before: None,
                    size: old.size,
                    mode: old.mode,
                    link: old.link,
                    not_kept: !kept,
                    redacted: old.redacted(),
                    redacted_before: 0,
                    verbatim: old.is_verbatim,
                    verbatim_before: false,
                });
            }
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    fn keep_content(&self, path: &str, entry: &Entry) -> Result<bool, ScanError> {
        let Some(content) = &entry.content else {
            return Ok(false);
        };
        if self.tallied.lock().insert(entry.clean) {
            self.cleaner.tally(&entry.taken);
        }
        let kept = self.keep.put(content);
        kept.map(|_| true).map_err(|error| ScanError::Io {
            path: self.root.join(path),
            error,
        })
    }
}

/// Changes other than contents of files.
fn metadata(from: &Manifest, to: &Manifest, cleaner: &Cleaner) -> FolderMetadata {
    let change = |(path, mode): (&String, &u32), operation| FolderChange {
        path: cleaner.text(path),
        operation,
        mode: *mode,
    };
    let created = to.folders.iter();
    let created =
        created.filter(|(path, _)| !from.folders.contains_key(*path) && !from.has_not_read(path));
    let deleted = from.folders.iter();
    let deleted = deleted.filter(|(path, _)| !to.folders.contains_key(*path));
    let created = created.map(|folder| change(folder, Operation::Created));
    let deleted = deleted.map(|folder| change(folder, Operation::Deleted));
    let mut folders: Vec<FolderChange> = created.chain(deleted).collect();
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    let modes = to.files.iter().filter_map(|(path, new)| {
        let old = from.files.get(path)?;
        let is_mode_only = old.raw == new.raw && old.link == new.link && old.mode != new.mode;
        (is_mode_only && !new.link).then(|| ModeChange {
            path: cleaner.text(path),
            before: old.mode,
            mode: new.mode,
        })
    });
    FolderMetadata {
        folders,
        modes: modes.collect(),
    }
}

fn now_ns() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().cast_signed())
}

fn scan(
    root: &Path,
    filter: &Filter,
    cleaner: &Cleaner,
    previous: &Manifest,
) -> Result<Manifest, ScanError> {
    let mut manifest = Manifest {
        begun_ns: now_ns(),
        ..Manifest::default()
    };
    let mut bytes = 0;
    let mut add = |path: &Path, manifest: &mut Manifest| -> Result<(), ScanError> {
        let Ok(relative) = path.strip_prefix(root) else {
            return Ok(());
        };
        let name = shown(relative);
        if manifest.files.contains_key(&name) {
            return Ok(());
        }
        match entry(path, &name, cleaner, previous, &mut manifest.held) {
            Ok(Some(entry)) => {
                bytes += entry.size;
                manifest.files.insert(name, entry);
            }
            Ok(None) => {}
            Err(error) if walk::is_gone(&error) => {}
            Err(_) => manifest.unread(name),
        }
        if manifest.files.len() > MAX_FILES || bytes > MAX_BYTES {
            Err(ScanError::TooLarge {
                path: root.to_owned(),
            })
        } else {
            Ok(())
        }
    };
    let keep_folder = |found: &DirEntry, relative: &Path, manifest: &mut Manifest| {
        let mode = found.metadata().map_or(0o755, |meta| meta.mode() & 0o777);
        manifest.folders.insert(shown(relative), mode);
    };
    for found in walk::usual(root, filter) {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                manifest.not_walked(root, error, |path| {
                    filter.wants(path) && !filter.leaves_out(path)
                })?;
                continue;
            }
        };
        let relative = found.path().strip_prefix(root).unwrap_or(found.path());
        if relative.as_os_str().is_empty() || !filter.wants(relative) {
            continue;
        }
        match found.file_type() {
            Some(kind) if kind.is_dir() => keep_folder(&found, relative, &mut manifest),
            Some(_) => add(found.path(), &mut manifest)?,
            None => {}
        }
    }
    for path in walk::tracked_and_ignored(root) {
        let relative = path.strip_prefix(root).unwrap_or(&path);
        if !walk::is_never(relative) && filter.wants_deep(relative) {
            add(&path, &mut manifest)?;
        }
    }
    if filter.has_includes {
        for found in walk::everything(root) {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    manifest.not_walked(root, error, |path| filter.include.is_match(path))?;
                    continue;
                }
            };
            let relative = found.path().strip_prefix(root).unwrap_or(found.path());
            if !filter.include.is_match(relative) {
                continue;
            }
            if found.file_type().is_some_and(|kind| kind.is_dir()) {
                keep_folder(&found, relative, &mut manifest)
            } else {
                add(found.path(), &mut manifest)?
            }
        }
    }
    manifest.take_over(previous);
    Ok(manifest)
}

fn entry(
    path: &Path,
    name: &str,
    cleaner: &Cleaner,
    previous: &Manifest,
    held: &mut u64,
) -> io::Result<Option<Entry>> {
    let meta = std::fs::symlink_metadata(path)?;
    let link = meta.file_type().is_symlink();
    if !link && !meta.is_file() {
        return Ok(None);
    }
    let stamp = Stamp::from_metadata(&meta);
    let mode = meta.mode() & 0o7777;
    if let Some(old) = previous.files.get(name)
        && old.stamp == stamp
        && stamp.mtime_ns.max(stamp.ctime_ns) + RACY_NS < previous.begun_ns
    {
        *held += old
            .content
            .as_ref()
            .map_or(0, |content| content.len() as u64);
        return Ok(Some(Entry {
            mode,
            ..old.clone()
        }));
    }
    if !link && meta.len() > MAX_WHOLE {
        let (raw, size) = digest(path)?;
        return Ok(Some(Entry {
            raw,
            clean: raw,
            size,
            mode,
            link,
            stamp,
            content: None,
            taken: BTreeMap::new(),
            is_verbatim: false,
        }));
    }
    let bytes = if link {
        std::fs::read_link(path)?.as_os_str().as_bytes().to_vec()
    } else {
        std::fs::read(path)?
    };
    let (raw, size) = (Digest::compute(&bytes), bytes.len() as u64);
    // Not written since: its content is held already.
    if let Some(old) = previous.files.get(name)
        && old.raw == raw
        && old.link == link
    {
        *held += old
            .content
            .as_ref()
            .map_or(0, |content| content.len() as u64);
        return Ok(Some(Entry {
            mode,
            stamp,
            ..old.clone()
        }));
    }
    let Content {
        bytes,
        taken,
        is_verbatim,
    } = cleaner.content(bytes);
    let clean = Digest::compute(&bytes);
    let is_held = size <= MAX_CONTENT && *held + (bytes.len() as u64) <= MAX_HELD;
    let content: Option<Arc<[u8]>> = is_held.then(|| bytes.into());
    *held += content.as_ref().map_or(0, |content| content.len() as u64);
    Ok(Some(Entry {
        raw,
        clean,
        size,
        mode,
        link,
        stamp,
        content,
        taken,
        is_verbatim,
    }))
}

/// The digest of a large file and its size. A file this large cannot be guessed from its digest.
pub(crate) fn digest(path: &Path) -> io::Result<(Digest, u64)> {
    digest_of(std::fs::File::open(path)?)
}

fn digest_of(mut file: impl Read) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut size) = (Hasher::default(), 0);
    let mut piece = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((hasher.finish(), size));
        }
        size += read as u64;
        hasher.update(&piece[..read]);
    }
}

/// The digest and size of a declared context file, cleaned; its content is kept if it is small
/// enough.
///
/// # Errors
/// When it cannot be read.
pub fn context(path: &Path, cleaner: &Cleaner, keep: &dyn Keep) -> io::Result<(Digest, u64)> {
    let file = NamedFile::open(path)?;
    if file.size().is_some_and(|size| size > MAX_WHOLE) {
        return digest_of(file);
    }
    let bytes = file.read_bounded(MAX_WHOLE as usize)?;
    let size = bytes.len() as u64;
    let clean = cleaner.bytes(bytes);
    if size <= MAX_CONTENT {
        Ok((keep.put(&clean)?, size))
    } else {
        Ok((Digest::compute(&clean), size))
    }
}

/// A path in its recorded form: with `/`, percent-escaped where it is not UTF-8.
pub fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(char::from(ESCAPED)) => text.to_owned(),
        _ => {
            let mut text = String::new();
            for chunk in path.as_os_str().as_bytes().utf8_chunks() {
                text.push_str(&chunk.valid().replace('%', "%25"));
                for byte in chunk.invalid() {
                    text.push_str(&format!("%{byte:02X}"));
                }
            }
            text
        }
    }
}

/// Whether the recorded form of a path differs from its name.
pub fn is_escaped(text: &str) -> bool {
    text.contains(char::from(ESCAPED))
}

/// The path of an escaped text.
pub fn meant(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3);
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if bytes[at] == ESCAPED => {
                path.push(byte);
                at += 3;
            }
            _ => {
                path.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

#[cfg(test)]
mod tests;
