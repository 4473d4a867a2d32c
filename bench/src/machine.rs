//! The environment that a figure depends on in addition to the code.

use std::path::Path;

use serde::Serialize;

/// The machine at the moment of measuring. Facts that cannot be determined are `unknown`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    /// The processor's own name.
    pub(crate) cpu: String,
    /// How many threads can run at once.
    pub(crate) cores: usize,
    /// Main memory in MiB.
    pub(crate) memory_mib: Option<u64>,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The type of the measured file system.
    pub(crate) filesystem: String,
    /// Runnable processes, averaged over the last minute: above 1 the machine was not idle.
    pub(crate) load: Option<f64>,
    /// The build profile of this program.
    pub(crate) profile: &'static str,
}

impl Machine {
    /// Inspects this machine; `dir` is where the benchmarks write.
    pub(crate) fn observe(dir: &Path) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
                .map(|kib| kib / 1024),
            kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned())
                .filter(|release| !release.is_empty())
                .unwrap_or_else(unknown),
            filesystem: filesystem(&read("/proc/self/mountinfo"), dir).unwrap_or_else(unknown),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|text| text.parse().ok()),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "optimised"
            },
        }
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The type of the file system with the longest mount point above `dir`.
fn filesystem(mountinfo: &str, dir: &Path) -> Option<String> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let point = Path::new(mount.split(' ').nth(4)?);
            dir.starts_with(point)
                .then_some((point.as_os_str().len(), kind.split(' ').next()?))
        })
        // Among mounts over the same point the last one counts, which `max_by_key` takes.
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "\
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /data rw shared:9 - xfs /dev/sdb1 rw
31 22 0:26 / /data/fast rw - tmpfs tmpfs rw
";
        let kind = |dir| filesystem(mounts, Path::new(dir));
        assert_eq!(kind("/var/lib").as_deref(), Some("ext4"));
        assert_eq!(kind("/data/bench").as_deref(), Some("xfs"));
        assert_eq!(kind("/data/fast/bench").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/database").as_deref(), Some("ext4"));
    }

    #[test]
    fn a_field_is_read_by_its_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(
            field(text, "model name").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(field(text, "model"), None);
    }
}
