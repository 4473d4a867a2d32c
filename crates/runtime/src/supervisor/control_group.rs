//! A control group that limits the number of a program's processes. The kernel does not limit the
//! processes of root by user, and processes that start others faster than a supervisor looks cannot
//! be killed one by one.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

/// The beginning of a group's name; its supervisor's id follows.
const NAME: &str = "runwright-";
/// Processes above the limit that fit into the group, so that the supervisor sees the limit passed.
const ROOM: u64 = 8;
/// The control groups of version 1 that limit processes.
const VERSION_1: &str = "/sys/fs/cgroup/pids";
/// The control groups of version 2.
const VERSION_2: &str = "/sys/fs/cgroup";
/// The file of version 2 that takes a thread into a group.
const THREADS: &str = "cgroup.threads";

/// The limit on the number of a confined program's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLimit {
    /// The kernel counts the processes of the user.
    User,
    /// The kernel counts those of the program's control group.
    ControlGroup,
    /// The supervisor counts them, and stops and kills all of them when they are too many.
    Supervisor,
}

impl ProcessLimit {
    /// The limit that holds for programs of this process.
    pub fn here() -> Self {
        if !getuid().is_root() {
            return Self::User;
        }
        match ControlGroup::new(1) {
            Some(_) => Self::ControlGroup,
            None => Self::Supervisor,
        }
    }

    /// The limit in words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "the kernel, by user",
            Self::ControlGroup => "a control group",
            Self::Supervisor => "their supervisor alone",
        }
    }
}

/// A control group; removed at the end, when it is empty.
#[derive(Debug)]
pub(super) struct ControlGroup {
    folder: PathBuf,
    /// The file that takes a thread into a group.
    members: &'static str,
}

impl ControlGroup {
    /// A group for at most this many processes. `None` for other users than root, and where control
    /// groups cannot be made.
    pub(super) fn new(processes: u64) -> Option<Self> {
        if !getuid().is_root() {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |is_wanted: fn(&str) -> bool| {
            let lines = own.lines().filter_map(|line| line.split_once(':'));
            let mut lines = lines.filter_map(|(_, rest)| rest.split_once(':'));
            let (_, path) = lines.find(|(controllers, _)| is_wanted(controllers))?;
            Some(path.trim_start_matches('/').to_owned())
        };
        let counts = |controllers: &str| controllers.split(',').any(|one| one == "pids");
        let first = path(counts).and_then(|path| {
            Self::below(&Path::new(VERSION_1).join(path), "tasks", processes).ok()
        });
        first.or_else(|| {
            let parent = Path::new(VERSION_2).join(path(str::is_empty)?);
            Self::below(&parent, THREADS, processes).ok()
        })
    }

    fn below(parent: &Path, members: &'static str, processes: u64) -> io::Result<Self> {
        sweep(parent);
        let folder = parent.join(format!("{NAME}{}", std::process::id()));
        // A killed supervisor may have had this id.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder)?;
        // From here on a failure removes the folder.
        let group = Self { folder, members };
        if members == THREADS {
            // A threaded group may be below one with processes, and stays in its other limits.
            write(&group.folder.join("cgroup.type"), "threaded")?;
            write(&parent.join("cgroup.subtree_control"), "+pids")?;
        }
        group.limit(processes + ROOM)?;
        Ok(group)
    }

    fn limit(&self, processes: u64) -> io::Result<()> {
        write(&self.folder.join("pids.max"), &processes.to_string())
    }

    /// Moves the calling thread into the group. Programs that it starts are in the group, too.
    pub(super) fn enter(&self) -> io::Result<()> {
        write(&self.folder.join(self.members), "0")
    }

    /// Whether the group was full: the kernel refused a process. A process table that is read while
    /// processes start and end does not show all of them.
    pub(super) fn was_full(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("pids.events")).unwrap_or_default();
        let refused = events.lines().filter_map(|line| line.strip_prefix("max "));
        refused.into_iter().any(|count| count.trim() != "0")
    }

    /// Lets no process in the group start another one.
    pub(super) fn close(&self) {
        let _ = self.limit(0);
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Writes to a file that exists: on another file system a new one would limit nothing.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Removes the groups of supervisors that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let of = of.filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
        if of.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Fails while a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
