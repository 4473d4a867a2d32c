//! The floor under every durable append: a record written, then `fdatasync`, one at a time.
//!
//! The file is filled with zeros and synced first. A file that grows, or whose blocks are only
//! reserved, makes each sync write file-system metadata too, and would measure that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::series::Series;
use crate::{Benchmark, Settings};

/// A typical event.
const RECORD_BYTES: usize = 300;
/// Longer than any repetition needs; a faster disk wraps around inside it.
const FILE_BYTES: usize = 64 << 20;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "raw-log",
    about: "append 300 bytes and fdatasync, one writer, preallocated file",
    run,
};

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let path = settings.dir.join("raw-log.bin");
    let file = File::create(&path)?;
    let outcome = preallocate(&file).and_then(|()| settings.sample(|| append(&file, settings)));
    std::fs::remove_file(&path)?;
    Ok(vec![Series {
        name: "raw-log/1-writer".to_owned(),
        unit: "events/s",
        samples: outcome?,
    }])
}

fn preallocate(file: &File) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    for chunk in 0..FILE_BYTES / zeros.len() {
        file.write_all_at(&zeros, (chunk * zeros.len()) as u64)?;
    }
    file.sync_all()
}

/// Durable records per second.
fn append(file: &File, settings: &Settings) -> io::Result<f64> {
    let record = [0x5a; RECORD_BYTES];
    let mut offset = 0;
    let mut records = 0_u32;
    let begun = Instant::now();
    while begun.elapsed() < settings.duration {
        file.write_all_at(&record, offset as u64)?;
        file.sync_data()?;
        records += 1;
        offset += RECORD_BYTES;
        if offset + RECORD_BYTES > FILE_BYTES {
            offset = 0;
        }
    }
    Ok(f64::from(records) / begun.elapsed().as_secs_f64())
}
