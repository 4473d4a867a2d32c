//! The lower bound of every durable append: records written to a file, then `fdatasync`.
//!
//! With n waiting writers, n records share a sync: no log that acknowledges only synced records can
//! do better. The file is filled with zeros and synced first. A file that grows, or whose blocks
//! are only reserved, makes each sync write file-system metadata too, and would measure that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::series::Series;
use crate::{Benchmark, Settings};

/// A typical event.
pub(crate) const RECORD_BYTES: usize = 300;
/// Longer than any repetition needs; a faster disk wraps around inside it.
const FILE_BYTES: usize = 64 << 20;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "raw-log",
    about: "append 300 bytes and fdatasync, preallocated file, by waiting writers",
    run,
};

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let mut all = Vec::new();
    for writers in settings.writers() {
        let log = RawLog::create(&settings.dir)?;
        all.push(Series {
            name: format!("raw-log/{writers}-writers"),
            unit: "events/s",
            samples: settings.sample(|| log.append(writers, RECORD_BYTES, settings.duration))?,
        });
    }
    Ok(all)
}

/// A preallocated file, removed when it is dropped.
pub(crate) struct RawLog {
    file: File,
    path: PathBuf,
}

impl RawLog {
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        let path = dir.join("raw-log.bin");
        let file = File::create(&path)?;
        let log = Self { file, path };
        let zeros = vec![0; 1 << 20];
        for chunk in 0..FILE_BYTES / zeros.len() {
            log.file
                .write_all_at(&zeros, (chunk * zeros.len()) as u64)?;
        }
        log.file.sync_all()?;
        Ok(log)
    }

    /// Durable records per second when `writers` records of `bytes` each share a sync.
    pub(crate) fn append(
        &self,
        writers: usize,
        bytes: usize,
        duration: Duration,
    ) -> io::Result<f64> {
        let records = vec![0x5a; writers * bytes];
        let (mut offset, mut syncs) = (0, 0_u32);
        let begun = Instant::now();
        while begun.elapsed() < duration {
            self.file.write_all_at(&records, offset as u64)?;
            self.file.sync_data()?;
            syncs += 1;
            offset += records.len();
            if offset + records.len() > FILE_BYTES {
                offset = 0;
            }
        }
        Ok(f64::from(syncs) * writers as f64 / begun.elapsed().as_secs_f64())
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        // A leftover file lies in the benchmark's own folder.
        let _ = std::fs::remove_file(&self.path);
    }
}
