//! The demo's temporary folder, and the server process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::env;
use crate::exit::{Failure, io_text};

/// Maximum time until a server answers.
const START: Duration = Duration::from_secs(30);
/// Maximum time for an orderly end of a server.
const STOP: Duration = Duration::from_secs(10);
/// The interval and number of attempts to remove the folder: processes of the run may need a moment
/// to notice that their server has ended.
const CLEAR: (Duration, u32) = (Duration::from_millis(50), 100);
/// After this many consecutive polls without a folder, it is not created again.
const QUIET_LOOKS: u32 = 4;

/// The folder and the server.
pub(super) struct Stage {
    folder: TempDir,
    server: Option<Server>,
}

/// A server that answers.
pub(super) struct Server {
    child: Child,
    pid: u32,
    url: String,
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Stage {
    /// Makes the folder.
    pub(super) fn build() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("runwright-demo-").tempdir();
        let fail = |error: std::io::Error| {
            Failure::new(format!(
                "cannot create a temporary folder: {}",
                io_text(&error)
            ))
        };
        let folder = folder.map_err(fail)?;
        for part in ["project", "tmp"] {
            std::fs::create_dir(folder.path().join(part)).map_err(fail)?;
        }
        Ok(Self {
            folder,
            server: None,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// This program, restricted to the folder.
    fn program(&self, args: &[&str]) -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(format!(
                "the file of this program cannot be found: {}",
                io_text(&error)
            ))
        })?;
        let mut command = Command::new(program);
        // Settings for other servers do not apply to this one.
        for (name, _) in std::env::vars_os() {
            let is_ours = |name: &OsStr| name.to_string_lossy().starts_with("RUNWRIGHT_");
            if is_ours(&name) && name != env::LOG {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .arg("--data")
            .arg(self.folder().join("data"))
            .arg("--project")
            .arg(self.folder().join("project"))
            .current_dir(self.folder().join("project"))
            // Leftovers of the run's processes are removed with the folder.
            .env("TMPDIR", self.folder().join("tmp"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Creates a key with the ordinary command.
    pub(super) async fn key(&self) -> Result<String, Failure> {
        let mut command = self.program(&["keys", "create", "--principal", "demo"])?;
        let output = command
            .output()
            .await
            .map_err(|error| cannot_start(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!(
                "cannot create a key: {}",
                said.trim()
            )));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The folder of workflows for the server.
    fn workflows(&self) -> PathBuf {
        self.folder().join("workflows")
    }

    /// Writes the workflows for the server.
    pub(super) fn write_workflows(&self, documents: &[&str]) -> Result<(), Failure> {
        let folder = self.workflows();
        std::fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
        for (at, document) in documents.iter().enumerate() {
            let path = folder.join(format!("{at}.json"));
            std::fs::write(&path, document).map_err(|error| Failure::file(&path, &error))?;
        }
        Ok(())
    }

    /// Starts the server and waits until it answers.
    pub(super) async fn serve(&mut self) -> Result<&Server, Failure> {
        let log = self.folder().join("server.log");
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log);
        let file = file.map_err(|error| Failure::file(&log, &error))?;
        let serve = ["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"];
        let mut command = self.program(&serve)?;
        command.arg("--workflows").arg(self.workflows());
        // The pipe ends with this program, even if that is killed and cannot end the server.
        command.stdin(Stdio::piped());
        // In its own group: Ctrl-C is for this program, which ends the server itself.
        command.stdout(Stdio::piped()).stderr(file).process_group(0);
        let mut child = command.spawn().map_err(|error| cannot_start(&error))?;
        let silent = || Failure::new("the server ended before it answered").hint(said_in(&log));
        let pid = child.id().ok_or_else(silent)?;
        let stdout = child.stdout.take().ok_or_else(silent)?;
        let mut lines = BufReader::new(stdout).lines();
        // It prints its address when it is ready.
        let url = match tokio::time::timeout(START, lines.next_line()).await {
            Ok(Ok(Some(url))) => url,
            Ok(_) => return Err(silent()),
            Err(_) => return Err(Failure::new("the server does not answer").hint(said_in(&log))),
        };
        Ok(self.server.insert(Server { child, pid, url }))
    }

    /// SIGKILL: no handler, no flush.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let killed = server.child.kill().await;
        killed.map_err(|error| {
            Failure::new(format!("the server cannot be killed: {}", io_text(&error)))
        })
    }

    /// Stops the server in order.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let pid = i32::try_from(server.pid).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // An ended server needs no signal.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        match tokio::time::timeout(STOP, server.child.wait()).await {
            Ok(_) => {
                self.server = None;
                Ok(())
            }
            Err(_) => self.kill().await,
        }
    }

    /// Ends remaining processes and removes the folder, or keeps it.
    pub(super) async fn clear(mut self, keep: bool) {
        // Its processes end with it.
        let _ = self.kill().await;
        if keep {
            let _ = self.folder.keep();
            return;
        }
        let (pause, times) = CLEAR;
        let mut looks = 0;
        for _ in 0..times {
            // A remaining process may recreate it.
            match std::fs::remove_dir_all(self.folder.path()) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => looks += 1,
                _ => looks = 0,
            }
            if looks == QUIET_LOOKS {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "this program cannot be started again: {}",
        io_text(error)
    ))
}

/// The last line of the server's log.
fn said_in(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().last().unwrap_or("nothing");
    format!("it said: {}", crate::text::one_line(last, 300))
}

/// A key, shortened for display.
pub(super) fn shown(key: &str) -> String {
    let head: String = key.chars().take(11).collect();
    format!("{head}…")
}
