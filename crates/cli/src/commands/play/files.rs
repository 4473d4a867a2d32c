//! The files of a session on disk. They follow the log: their content is durable there.
//!
//! Each file is replaced as a whole: a new file is written and synced in the same folder, then
//! renamed. A state never replaces a later one, for any writing process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use faces::player::names;
use faces::player::projection::{Change, Projection};
use faces::player::state::{NodeState, NodeStates, SessionState, Snapshot, Status};
use kernel::ids::StreamId;
use kernel::run::Event;
use runtime::door::Door;
use runtime::nodes::play_paths::{present, session_folder};
use runtime::private;
use serde::Serialize;
use serde_json::Value;
use store::{FeedEvent, Position};

use crate::exit::Failure;
use crate::follow::{Follower, Look};

/// The files of one session.
pub(crate) struct Files {
    project: PathBuf,
    projection: Projection,
    snapshots: Vec<Snapshot>,
    is_dirty: bool,
}

impl Files {
    /// The files of a followed run, before its first event. `None` for a run that is not a session.
    pub(crate) fn for_follower(project: &Path, follower: &Follower) -> Option<Self> {
        let run = &follower.runs().first()?.run;
        let projection = Projection::new(run.header.clone(), run.plan.clone())?;
        let is_archived = archive_folder(project, run.header.stream.as_str()).is_dir();
        Some(Self {
            project: project.to_owned(),
            projection: if is_archived {
                projection.archived()
            } else {
                projection
            },
            snapshots: Vec::new(),
            is_dirty: false,
        })
    }

    /// Folds an event in.
    pub(crate) fn take(&mut self, event: &Event) -> Change {
        let change = self.projection.apply(event);
        if change != Change::Nothing {
            self.is_dirty = true;
        }
        if let Change::Checkpoint(snapshot) = &change {
            self.snapshots.push(Snapshot::clone(snapshot));
        }
        change
    }

    /// The state to write. Its paths lead to the archive once the session is archived.
    pub(crate) fn state(&self) -> SessionState {
        let mut state = self.projection.state();
        bring_paths_up_to_date(&self.project, &mut state.node_states);
        state
    }

    /// The folded log.
    pub(crate) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The folder of the session.
    pub(crate) fn folder(&self) -> PathBuf {
        self.project.join(self.projection.folder())
    }

    /// Writes all changes since the last successful write.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        if self.is_dirty {
            self.write_all()?;
            self.snapshots.clear();
            self.is_dirty = false;
        }
        Ok(())
    }

    fn write_all(&self) -> Result<(), Failure> {
        let folder = self.folder();
        let fail = |error: io::Error| Failure::file(&folder, &error);
        session_folder(&folder).map_err(fail)?;
        private::folder(&folder.join("artifacts")).map_err(fail)?;
        let lock = lock(&folder).map_err(fail)?;
        lock.lock().map_err(fail)?;
        for snapshot in &self.snapshots {
            let mut snapshot = snapshot.clone();
            bring_paths_up_to_date(&self.project, &mut snapshot.node_states_snapshot);
            let checkpoints = folder.join("checkpoints");
            private::folder(&checkpoints).map_err(fail)?;
            let name = kernel::ids::file_name(&snapshot.checkpoint_id);
            let path = checkpoints.join(format!("{name}.json"));
            let text = pretty(&snapshot).map_err(fail)?;
            if fs::read(&path).ok().as_deref() != Some(&*text) {
                replace(&path, &text, For::Owner).map_err(fail)?;
            }
        }
        let path = folder.join(names::STATE);
        if written_seq(&path).is_none_or(|written| written <= self.projection.seq()) {
            let text = pretty(&self.state()).map_err(fail)?;
            if fs::read(&path).ok().as_deref() != Some(&*text) {
                replace(&path, &text, For::Owner).map_err(fail)?;
            }
        }
        Ok(())
    }
}

fn bring_paths_up_to_date(project: &Path, nodes: &mut NodeStates) {
    for (_, node) in &mut nodes.0 {
        let NodeState::Work(node) = node else {
            continue;
        };
        for path in node.output_path.iter_mut().chain(&mut node.artifacts) {
            *path = present(project, path);
        }
    }
}

/// Whether the files of an ended session still show it as running: its player was killed before it
/// wrote them. Missing files are not outdated.
pub(super) fn are_behind(project: &Path, id: &str) -> bool {
    let archive = archive_folder(project, id);
    let (folder, is_archived) = if archive.is_dir() {
        (archive, true)
    } else {
        (project.join(names::SESSIONS).join(id), false)
    };
    if !folder.is_dir() {
        return false;
    }
    let text = fs::read(folder.join(names::STATE)).unwrap_or_default();
    let state: Value = serde_json::from_slice(&text).unwrap_or_default();
    let says_archived = state["status"] == Status::Archived.as_str();
    !state["completed_at"].is_string() || says_archived != is_archived
}

/// Updates the files of a session from its log.
pub(super) async fn bring_up_to_date(
    door: &Door,
    project: &Path,
    run: &StreamId,
) -> Result<Option<Files>, Failure> {
    let mut follower = Follower::new(door.clone());
    follower.read_from_start(run).await?;
    let Some(mut files) = Files::for_follower(project, &follower) else {
        return Ok(None);
    };
    for news in follower.catch_up(Look::Everywhere).await? {
        if news.of == 0 {
            files.take(&news.event);
        }
    }
    files.write()?;
    Ok(Some(files))
}

/// Keeps the files of every session of a store up to date, for any driver, as long as this process
/// lives.
pub(crate) async fn keep(door: Door, project: PathBuf) {
    const PAGE: usize = 1_000;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);
    let mut after = Position::default();
    let mut touched: Vec<StreamId> = Vec::new();
    loop {
        let page: Vec<FeedEvent> = match door.store().feed(after, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "session files cannot be brought up to date");
                Vec::new()
            }
        };
        for event in &page {
            after = after.max(event.position);
            if names::is_session_id(event.stream.as_str()) && !touched.contains(&event.stream) {
                touched.push(event.stream.clone());
            }
        }
        if page.len() == PAGE {
            continue;
        }
        for run in touched.drain(..) {
            if let Err(failure) = bring_up_to_date(&door, &project, &run).await {
                tracing::warn!(%run, %failure, "the files of a session cannot be brought up to date");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The archive folder of a session.
pub(super) fn archive_folder(project: &Path, id: &str) -> PathBuf {
    project.join(names::ARCHIVE).join(id)
}

fn pretty(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// The sequence of a state file; `None` if it has none.
fn written_seq(path: &Path) -> Option<u64> {
    let state: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    state["x_play"]["seq"].as_u64()
}

fn lock(folder: &Path) -> io::Result<File> {
    let mut how = private::file();
    let how = how.write(true).create(true).truncate(true);
    how.open(folder.join(".lock"))
}

/// The users that may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Its owner: it belongs to a session.
    Owner,
    /// Every user: it belongs to the project.
    Everyone,
}

/// Replaces a file as a whole; durable when this returns.
pub(super) fn replace(path: &Path, bytes: &[u8], readers: For) -> io::Result<()> {
    let mode = match readers {
        For::Owner => 0o600,
        For::Everyone => 0o644,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_atomically_and_leaves_no_extra_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, b"one", For::Owner).unwrap();
        replace(&path, b"two", For::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
