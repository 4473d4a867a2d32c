//! Much output of one process: kept completely, in bounded memory.

use std::fs;

use crate::support::*;

/// The allowed additional peak of the engine and of the supervisor, compared with the same program
/// with hardly any output.
const MORE_KIB: u64 = 96 << 10;

/// The peak resident size of a process so far, in KiB.
fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a process that writes `bytes` bytes; returns the peaks of engine and supervisor in KiB.
fn peaks(bytes: u64) -> (u64, u64) {
    let lab = Lab::new();
    // The last line waits, so that both can be measured once everything before it has passed.
    let text = format!(
        "echo ready; yes 'a line that is like every other line' | head -c {bytes}; \
         echo all >&2; read -r _ < gate"
    );
    let mut gate = lab.gate("gate");
    let file = lab.workflow(&one_script("much", &text));
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    let supervisors = lab.supervisors_alive();
    assert_eq!(supervisors.len(), 1);
    engine.wait_for(|event| {
        event["payload"]["channel"] == "stderr" && event["payload"]["chunk"] == "all\n"
    });
    let so_far = (peak(engine.pid()), peak(supervisors[0]));
    gate.open();
    // The artifact is created when the process has ended.
    let mut highest = so_far.0;
    let mut kept = None;
    while let Some(event) = engine.next() {
        highest = highest.max(peak(engine.pid()));
        if event["type"] == "artifact.created" {
            kept = event["payload"]["size"].as_u64().or(kept);
        }
    }
    assert_eq!(engine.end().0, 0);
    if bytes > 1 << 20 {
        assert_eq!(kept, Some(bytes + 6), "every byte is kept");
    }
    (highest, so_far.1)
}

/// A case is a mebibyte.
#[test]
fn soak_output_of_any_length_is_kept_in_bounded_memory() {
    let mebibytes = testkit::seeds(128, 1_024).count() as u64;
    let little = peaks(1_000);
    let much = peaks(mebibytes << 20);
    testkit::figures(
        "soak_output_of_any_length_is_kept_in_bounded_memory",
        &format!(
            "{mebibytes} MiB of output: engine {} MiB at its highest ({} for 1 kB), supervisor \
             {} MiB ({})",
            much.0 >> 10,
            little.0 >> 10,
            much.1 >> 10,
            little.1 >> 10
        ),
    );
    assert!(much.0 < little.0 + MORE_KIB, "engine {much:?} {little:?}");
    assert!(
        much.1 < little.1 + MORE_KIB,
        "supervisor {much:?} {little:?}"
    );
}
