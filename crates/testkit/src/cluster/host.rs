//! A server's process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::send;

/// A signal that tests send to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends it at once.
    Kill,
    /// Freezes it.
    Stop,
    /// Thaws it.
    Continue,
}

impl Signal {
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Kill => "-KILL",
            Self::Stop => "-STOP",
            Self::Continue => "-CONT",
        }
    }
}

/// A process of `runwright serve`. It is killed on drop.
pub struct Host {
    child: Child,
    address: String,
}

impl Host {
    /// Starts it; its first line of output is its URL. The command should contain
    /// `--until-stdin-ends`, so that the process does not outlive its test.
    ///
    /// # Panics
    /// When it cannot be started or prints no URL.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a server can be started");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("its output is text");
        let address = line.trim().strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("the server ended early: {line:?}"));
        Self {
            child,
            address: address.to_owned(),
        }
    }

    /// Its host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send(signal, &[self.child.id()]);
    }

    /// Ends it in order. Returns whether it ended well.
    ///
    /// # Panics
    /// When its end cannot be waited for.
    pub fn stop(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().expect("a child ends").success()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
