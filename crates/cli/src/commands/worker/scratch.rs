//! The folder of a worker. The next worker clears it after a kill, but not while its processes are
//! still running.

use std::io;
use std::path::Path;

use runtime::supervisor::Supervisor;

use crate::scratch::Scratch;

/// The prefix of workers' folders.
const PREFIX: &str = "runwright-worker-";

/// Creates a folder, after clearing those of ended workers. Blocks.
pub(super) fn new_in(parent: &Path, supervisor: &Supervisor) -> io::Result<Scratch> {
    Scratch::new(parent, PREFIX, |left| {
        let left = Supervisor {
            dir: left.to_owned(),
            ..supervisor.clone()
        };
        left.is_at_work()
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::PathBuf;

    use super::*;

    fn supervisor(dir: &Path) -> Supervisor {
        Supervisor {
            program: PathBuf::new(),
            dir: dir.to_owned(),
        }
    }

    fn names(parent: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(parent).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_folders_of_dead_workers_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let supervisor = supervisor(parent);
        let living = new_in(parent, &supervisor).unwrap();
        let folder = |name: &str| {
            let path = parent.join(name);
            std::fs::create_dir_all(path.join("tasks/a-1")).unwrap();
            path
        };
        let dead = folder("runwright-worker-00000000000000de");
        let at_work = folder("runwright-worker-00000000000000a1");
        for path in [&dead, &at_work] {
            File::create(path.join("tasks/a-1/lock")).unwrap();
        }
        let program = File::open(at_work.join("tasks/a-1/lock")).unwrap();
        program.lock().unwrap();
        folder("runwright-worker-of-somebody");
        folder("somebody-elses");
        let outside = tempfile::tempdir().unwrap();
        let link = parent.join("runwright-worker-0000000000000011");
        File::create(outside.path().join("file")).unwrap();
        std::os::unix::fs::symlink(outside.path(), link).unwrap();

        let next = new_in(parent, &supervisor).unwrap();
        let name = |folder: &Scratch| {
            let name = folder.path().file_name().unwrap();
            name.to_str().unwrap().to_owned()
        };
        let stays = [
            "runwright-worker-00000000000000a1",
            "runwright-worker-0000000000000011",
            "runwright-worker-of-somebody",
            "somebody-elses",
        ];
        let mut kept: Vec<String> = stays.map(str::to_owned).into();
        kept.extend([name(&living), name(&next)]);
        kept.sort_unstable();
        assert_eq!(names(parent), kept);
        assert!(outside.path().join("file").exists());

        drop((program, living, next));
        let last = new_in(parent, &supervisor).unwrap();
        let mut kept: Vec<String> = stays[1..].iter().map(|name| (*name).to_owned()).collect();
        kept.push(name(&last));
        kept.sort_unstable();
        assert_eq!(names(parent), kept);
    }
}
