//! Comparing, where whoever reads the report takes his time.

use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::Bench;
use super::peer::says;

#[test]
fn a_signal_is_heard_while_the_report_is_written() {
    let bench = Bench::new(|_, _| says("x"));
    for (name, first) in [("one", "a"), ("other", "b")] {
        let script = format!("seq -f '{first} %.0f, and what belongs to it, goes on' 2000");
        let args = ["snapshot", "capture", "--root", "shop", "--name", name];
        let args = [&args[..], &["--", "sh", "-c", &script]].concat();
        bench.call(&args).with(0);
    }
    for signal in [Signal::INT, Signal::TERM] {
        let args = ["snapshot", "compare", "one", "other", "--root", "shop"];
        let mut child = bench
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It is longer than the pipe: once some of it came, the rest waits for somebody to read it.
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(told.contains("interrupted"), "{told}");
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        assert!(!rest.ends_with(b"fail\n"), "the report came to its end");
    }
}
