//! Scripts that Python and Node load before a captured program. They record readings of the clock
//! and of randomness, repeat them in a replay, and redirect other connections to the proxy.
//!
//! Each process claims a file in `made`, named by its command line and a counter for equal ones. A
//! replay puts the files of its recording into `recorded`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::call::Keep;
use crate::clean::Cleaner;

/// The variable with the scripts' folder.
pub(crate) const FOLDER: &str = "RUNWRIGHT_PRELOAD";
/// The variable that fixes the hashes of texts in Python.
const HASH_SEED: &str = "PYTHONHASHSEED";
const MADE: &str = "made";
const RECORDED: &str = "recorded";
/// A file of this name enables redirection to the proxy.
const REDIRECT: &str = "redirect";
const PYTHON: &str = include_str!("preload/sitecustomize.py");
const NODE: &str = include_str!("preload/node.cjs");
/// Maximum bytes of all files read.
const MAX_READINGS: usize = 64 << 20;

/// Readings of the clock and of randomness in the processes of a command: the lines of each
/// process, by its name.
pub type Readings = BTreeMap<String, String>;

/// The scripts' report on the processes of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptReport {
    /// Readings of the clock and of randomness.
    pub readings: Readings,
    /// Functions that drew random bytes, which are not kept.
    pub secret: BTreeSet<String>,
    /// Functions that could not be replaced.
    pub problems: BTreeSet<String>,
}

/// The folder of the scripts.
pub(crate) struct Preload {
    folder: PathBuf,
}

impl Preload {
    /// Writes the scripts into an empty or new folder, with the readings to repeat. Blocks.
    pub(crate) fn begin(folder: &Path, recorded: &Readings) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for name in [MADE, RECORDED, "python"] {
            fs::create_dir(folder.join(name))?;
        }
        fs::write(folder.join("python/sitecustomize.py"), PYTHON)?;
        fs::write(folder.join("node.cjs"), NODE)?;
        for (name, lines) in recorded {
            fs::write(folder.join(RECORDED).join(name), lines)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Redirects connections to the proxy.
    pub(crate) fn redirect(&self) -> io::Result<()> {
        fs::write(self.folder.join(REDIRECT), "")
    }

    /// The variables by which Python and Node load the scripts first.
    pub(crate) fn environment(
        &self,
        environment: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let folder = self.folder.to_string_lossy();
        let node = format!("--require \"{folder}/node.cjs\"");
        let before = |name: &str, first: String, between: &str| {
            let then = environment.get(name).filter(|then| !then.is_empty());
            let value = match then {
                Some(then) => format!("{first}{between}{then}"),
                None => first,
            };
            (name.to_owned(), value)
        };
        // Without it the order of a Python set of texts differs from process to process.
        let seed = environment.get(HASH_SEED).map_or("0", String::as_str);
        BTreeMap::from([
            (FOLDER.to_owned(), folder.to_string()),
            (HASH_SEED.to_owned(), seed.to_owned()),
            before("PYTHONPATH", format!("{folder}/python"), ":"),
            before("NODE_OPTIONS", node, " "),
        ])
    }

    /// Reads the files of the scripts. Blocks.
    pub(crate) fn told(&self, cleaner: &Cleaner) -> io::Result<ScriptReport> {
        let mut told = ScriptReport::default();
        let mut left = MAX_READINGS;
        for entry in fs::read_dir(self.folder.join(MADE))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(text) = read_made(&entry.path(), left) else {
                continue;
            };
            left -= text.len();
            let mut readings = String::new();
            for line in text.lines() {
                let (word, rest) = line.split_once(' ').unwrap_or_default();
                let set = match word {
                    "secret" => &mut told.secret,
                    "problem" => &mut told.problems,
                    _ => {
                        readings.push_str(line);
                        readings.push('\n');
                        continue;
                    }
                };
                set.insert(cleaner.text(rest));
            }
            if is_name(&name) && !readings.is_empty() {
                told.readings.insert(name, cleaner.text(&readings));
            }
        }
        Ok(told)
    }
}

/// The text of a file that a process wrote. `None` for a file of another kind, which the program
/// may have put in its place, and for one of more than `most` bytes.
fn read_made(path: &Path, most: usize) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.len() > most as u64 {
        return None;
    }
    let mut text = String::new();
    file.take(most as u64).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether a file name is valid: names also come from snapshots.
fn is_name(name: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.');
    name.len() <= 64 && !name.starts_with('.') && name.chars().all(is_plain)
}

/// The readings listed in a snapshot.
///
/// # Errors
/// The name of one whose content is not kept.
pub fn read(listed: &BTreeMap<String, String>, keep: &dyn Keep) -> Result<Readings, String> {
    let read = listed.iter().map(|(name, hash)| {
        let digest = faces::provenance::hash::digest(hash).filter(|_| is_name(name));
        let bytes = digest.and_then(|digest| keep.get(digest).ok().flatten());
        let lines = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok((name.clone(), lines.ok_or_else(|| name.clone())?))
    });
    read.collect()
}
