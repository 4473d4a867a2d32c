//! Which player attends a session. The driver of a run holds its lease; a player that waits for an
//! answer or a callback holds none. It writes a file in the session's folder, with a name by which
//! other processes detect whether it is alive.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kernel::ids::HolderId;
use runtime::{holder, private};

/// The file, in the folder of a session.
const FILE: &str = ".player";
/// Maximum length of a holder's name.
const LONGEST: u64 = 1_000;

/// Registers this process as the player of a session, as long as this value lives.
pub(super) struct Presence {
    path: PathBuf,
    name: HolderId,
}

impl Presence {
    /// Registers the player at a session. If that cannot be written, only other processes miss it.
    pub(super) fn at(folder: &Path) -> Self {
        let (path, name) = (folder.join(FILE), holder::this_process());
        let mut how = private::file();
        let opened = how.write(true).create(true).truncate(true).open(&path);
        let _ = opened.and_then(|mut file| file.write_all(name.as_str().as_bytes()));
        Self { path, name }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // Another player may have registered since.
        if read(&self.path).as_ref() == Some(&self.name) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The player that attends a session, unless it is this process or known to be dead.
pub(super) fn player(folder: &Path) -> Option<HolderId> {
    let name = read(&folder.join(FILE))?;
    (name != holder::this_process() && !holder::is_dead(&name)).then_some(name)
}

fn read(path: &Path) -> Option<HolderId> {
    let is_short = fs::metadata(path).ok()?.len() <= LONGEST;
    let name = fs::read_to_string(path).ok().filter(|_| is_short)?;
    (!name.is_empty()).then(|| HolderId::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_is_seen_while_it_lives_and_is_not_ourselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let own = Presence::at(folder.path());
        assert_eq!(read(&path), Some(holder::this_process()));
        assert_eq!(player(folder.path()), None, "this process asks");
        drop(own);
        assert!(!path.exists());

        fs::write(&path, "elsewhere/boot/1/1").unwrap();
        assert_eq!(
            player(folder.path()),
            Some(HolderId::new("elsewhere/boot/1/1"))
        );
        let gone = holder::this_process()
            .as_str()
            .rsplit_once('/')
            .map(|(of, _)| format!("{of}/1"));
        fs::write(&path, gone.unwrap()).unwrap();
        assert_eq!(player(folder.path()), None, "that process is gone");
    }

    #[test]
    fn who_sat_down_later_stays_seen() {
        let folder = tempfile::tempdir().unwrap();
        let own = Presence::at(folder.path());
        fs::write(folder.path().join(FILE), "elsewhere/boot/1/1").unwrap();
        drop(own);
        assert!(player(folder.path()).is_some());
    }
}
