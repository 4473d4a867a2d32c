//! `snapshot`: the runtime's state.

use faces::coordinator::{SnapshotJson, snapshot_line};
use kernel::coordinator::{Coordinator, CoordinatorStatus};
use kernel::time::Timestamp;
use rustix::fs::FlockOperation;

use super::folder::{ENGINE_LOCK, Folder, NAME, TENANT, lock};
use super::options::Options;
use super::{Refused, pretty};

/// The snapshot. `--json` counts only as the first or second word after the command.
pub(super) fn text(words: &[String], options: &Options) -> Result<String, Refused> {
    let snapshot = SnapshotJson::from(&standing(options)?);
    if words.iter().take(2).any(|word| word == "--json") {
        Ok(pretty(&snapshot))
    } else {
        Ok(format!("{}\n", snapshot_line(&snapshot)))
    }
}

/// The state of the runtime in the state directory; without a directory, that of an empty runtime.
fn standing(options: &Options) -> Result<CoordinatorStatus, Refused> {
    let Some(dir) = &options.state_dir else {
        let now = Timestamp(jiff::Timestamp::now().as_millisecond());
        let empty = Coordinator::unborn(&TENANT.into(), NAME, options.first_contract(), now);
        return Ok(empty.standing(now, options.rule));
    };
    let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
    let _reading = lock(dir, ENGINE_LOCK, FlockOperation::LockShared).map_err(fail)?;
    let folder = Folder::read(dir, options)?;
    let coordinator = folder.standing_now()?;
    Ok(coordinator.standing(folder.door().store().now(), options.rule))
}
