//! Systems whose process table is not read; the parent module describes the consequences.

use std::io;
use std::path::Path;

use rustix::process::Signal;

use super::Process;
use crate::programs::Crowd;

pub(in super::super) fn boot() -> String {
    String::new()
}

pub(in super::super) fn find(_pid: i32) -> Option<Process> {
    None
}

pub(in super::super) fn is_alive(_process: Process) -> bool {
    false
}

pub(in super::super) fn signal(_process: Process, _signal: Signal) -> io::Result<()> {
    Ok(())
}

pub(in super::super) fn collect_orphans() -> io::Result<()> {
    Ok(())
}

pub(in super::super) fn descendants(_except: &[Process]) -> Vec<Process> {
    Vec::new()
}

pub(in super::super) fn zombies() -> Vec<i32> {
    Vec::new()
}

pub(in super::super) fn used(_processes: &[Process]) -> Crowd {
    Crowd::default()
}

pub(in super::super) fn holders(_dir: &Path, _lock: &Path, _key: &str) -> Vec<Process> {
    Vec::new()
}
