//! Paths of files that nodes of sessions wrote.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::{ARCHIVE, SESSIONS};
use crate::private;

/// Creates the folder of a session, which only its owner can access, and those above it up to the
/// folder of all sessions.
///
/// # Errors
/// The system's.
pub fn session_folder(folder: &Path) -> io::Result<()> {
    let all = folder.ancestors().find(|above| above.ends_with(SESSIONS));
    let mut within: Vec<&Path> = folder.ancestors().collect();
    within.retain(|above| all.is_some_and(|all| above.starts_with(all)));
    within.into_iter().rev().try_for_each(private::folder)?;
    private::folder(folder)
}

/// The present form of a path. A path into the folder of a session that was archived since is
/// mapped to the archive; other paths are unchanged.
pub fn present(project: &Path, path: &str) -> String {
    archived(project, path).unwrap_or_else(|| path.to_owned())
}

fn archived(project: &Path, path: &str) -> Option<String> {
    let typed = Path::new(path);
    let inside = if typed.is_absolute() {
        let real = project.canonicalize().ok()?;
        let inside = typed.strip_prefix(project);
        inside.or_else(|_| typed.strip_prefix(real)).ok()?
    } else {
        typed.strip_prefix(".").unwrap_or(typed)
    };
    let rest = inside.strip_prefix(SESSIONS).ok()?;
    let mut parts = rest.components();
    let Some(Component::Normal(session)) = parts.next() else {
        return None;
    };
    let is_there = |folder: &str| project.join(folder).join(session).is_dir();
    if is_there(SESSIONS) || !is_there(ARCHIVE) {
        return None;
    }
    let now = Path::new(ARCHIVE).join(rest);
    let now: PathBuf = if typed.is_absolute() {
        project.join(now)
    } else {
        now
    };
    now.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_paths_into_archived_sessions_change() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let open = ".workflow/sessions/WFR-b/plan.md";
        fs::create_dir_all(project.join(".workflow/sessions/archive/WFR-a")).unwrap();
        fs::create_dir_all(project.join(".workflow/sessions/WFR-b")).unwrap();
        let gone = ".workflow/sessions/WFR-a/plan.md";
        let kept = ".workflow/sessions/archive/WFR-a/plan.md";
        assert_eq!(present(project, gone), kept);
        assert_eq!(present(project, &format!("./{gone}")), kept);
        let absolute = |path: &str| project.join(path).to_str().unwrap().to_owned();
        assert_eq!(present(project, &absolute(gone)), absolute(kept));
        for other in [
            open,
            kept,
            "plan.md",
            "",
            "/elsewhere/x",
            ".workflow/sessions",
        ] {
            assert_eq!(present(project, other), other);
        }
    }
}
