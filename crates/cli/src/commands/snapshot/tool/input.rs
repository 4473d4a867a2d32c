//! The standard input of a tool: passed on as it arrives, and recorded.

use std::io::{self, Read};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::as_output;

/// Maximum recorded bytes.
const MAX_INPUT: usize = 16 << 20;

/// The source of a tool's standard input.
pub(super) enum Given {
    /// None.
    Nothing,
    /// This program's own input, unrecorded.
    Own,
    /// The same, recorded.
    Recorded(Input),
}

/// A recorded standard input.
pub(super) struct Input {
    pieces: mpsc::Receiver<Vec<u8>>,
    /// The bytes so far, at most one piece more than is recorded.
    came: Vec<u8>,
}

impl Input {
    /// This program's input, read on its own thread, since a blocking read cannot be cancelled.
    pub(super) fn own() -> io::Result<Self> {
        let (sender, pieces) = mpsc::channel(4);
        let read = move || {
            let mut input = std::io::stdin().lock();
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = input.read(&mut piece) {
                if sender.blocking_send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(read)?;
        Ok(Self {
            pieces,
            came: Vec::new(),
        })
    }

    /// Reads up to the recorded limit, or to the end.
    pub(super) async fn read_ahead(&mut self) {
        while self.came.len() <= MAX_INPUT {
            let Some(piece) = self.pieces.recv().await else {
                return;
            };
            self.came.extend_from_slice(&piece);
        }
    }

    /// Passes it on to a tool while that runs, possibly only a part.
    pub(super) async fn pass_on_during<T>(
        &mut self,
        to: ChildStdin,
        tool: impl Future<Output = T>,
    ) -> T {
        let mut tool = std::pin::pin!(tool);
        tokio::select! {
            ran = &mut tool => return ran,
            () = self.pass_on(to) => {}
        }
        tool.await
    }

    async fn pass_on(&mut self, mut to: ChildStdin) {
        if to.write_all(&self.came).await.is_err() {
            return;
        }
        while let Some(piece) = self.pieces.recv().await {
            if self.came.len() <= MAX_INPUT {
                self.came.extend_from_slice(&piece);
            }
            // A tool that does not read all of it does not need the rest.
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    }

    /// Adds the received input to a call's input.
    pub(super) fn say(&self, input: &mut Value) {
        let kept = self.came.len().min(MAX_INPUT);
        input["stdin"] = as_output(&self.came[..kept]);
        if self.came.len() > kept {
            input["stdin_cut"] = json!(true);
        }
    }
}
