//! The holder of a run: a name by which the same machine can find out whether the holder still
//! lives.

use kernel::ids::{HolderId, StreamId};
use store::{Store, StoreError};

/// The name of this process: machine, boot, process id and start time. On a system without `/proc`
/// the boot and start time are unknown and no holder is ever presumed dead.
pub fn this_process() -> HolderId {
    let pid = std::process::id();
    let started = start_time(pid).map_or_else(|| "?".to_owned(), |time| time.to_string());
    HolderId::new(format!("{}/{}/{pid}/{started}", machine(), boot()))
}

/// Releases the lease of a stream if its holder was a process of this machine that is gone. Safe at
/// any time: a holder that lives after all is fenced by the next claim's epoch.
///
/// # Errors
/// The store's.
pub async fn release_if_dead(store: &dyn Store, stream: &StreamId) -> Result<(), StoreError> {
    let loaded = store.load_head(stream).await?;
    match loaded.lease {
        Some(lease) if is_dead(&lease.holder) => store.release(&lease).await,
        _ => Ok(()),
    }
}

/// Whether a holder is known to be dead. `false` if that cannot be determined from here: machines and
/// containers may share an id, so only processes of this boot and namespace can be seen.
pub fn is_dead(holder: &HolderId) -> bool {
    let mut parts = holder.as_str().split('/');
    let (Some(machine_of), Some(boot_of), Some(pid), Some(started)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Ok(pid), Ok(started)) = (pid.parse::<u32>(), started.parse::<u64>()) else {
        return false;
    };
    if machine_of != machine() || boot_of == "?" {
        return false;
    }
    boot_of == boot() && start_time(pid) != Some(started)
}

/// The start time of a process in clock ticks since boot: it distinguishes reused process ids.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses: fields are counted after the last parenthesis.
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn machine() -> String {
    let read = |path| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    read("/etc/machine-id")
        .filter(|id| !id.is_empty())
        .or_else(|| read("/proc/sys/kernel/hostname"))
        .unwrap_or_else(|| "?".into())
        .replace('/', "_")
}

/// The boot of the machine and the namespace of process ids.
fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    match (boot, namespace) {
        (Ok(boot), Ok(namespace)) => format!("{}.{}", boot.trim(), namespace.display()),
        _ => "?".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_name_with_another_start_does_not() {
        let me = this_process();
        assert!(!is_dead(&me));
        let (rest, _) = me.as_str().rsplit_once('/').expect("four parts");
        assert!(is_dead(&HolderId::new(format!("{rest}/1"))));
        // A machine or container with the same id.
        let other = me.as_str().replace(&boot(), "another-boot");
        assert!(!is_dead(&HolderId::new(format!("{other}1"))));
    }

    #[test]
    fn remote_or_malformed_holders_are_not_presumed_dead() {
        assert!(!is_dead(&HolderId::new("elsewhere/boot/1/1")));
        assert!(!is_dead(&HolderId::new("worker-7")));
    }
}
