//! Both outputs of a process in one redacted file, written as they arrive, for people who watch.

use std::io::Write;
use std::path::Path;

use super::super::Secrets;
use crate::redact::RedactedStream;
use crate::supervisor::Stream;

/// A file that receives everything a process writes. Write errors are ignored: the file is for
/// people, the log and the supervisor keep the real output.
pub(in crate::nodes) struct Tee {
    file: std::fs::File,
    stdout: RedactedStream,
    stderr: RedactedStream,
    last: Option<Stream>,
    is_at_line_start: bool,
}

impl Tee {
    /// Opens the file. The part of an earlier attempt is kept, that of an earlier life of the same
    /// attempt is replaced.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(in crate::nodes) fn open(
        path: &Path,
        attempt: u32,
        secrets: &dyn Secrets,
    ) -> std::io::Result<Self> {
        let mut options = crate::private::file();
        options.create(true).write(true);
        let mut file = match attempt {
            0 => options.truncate(true).open(path)?,
            _ => options.append(true).open(path)?,
        };
        if attempt > 0 {
            writeln!(file, "--- attempt {} ---", attempt + 1)?;
        }
        Ok(Self {
            file,
            stdout: secrets.stream(),
            stderr: secrets.stream(),
            last: None,
            is_at_line_start: true,
        })
    }

    /// Writes bytes. If the other output ended within a line, a new line begins.
    pub(in crate::nodes) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let bytes = self.of(stream).push_bytes(bytes);
        self.write(stream, &bytes);
    }

    /// Writes the part held back as the possible beginning of a secret.
    pub(in crate::nodes) fn finish(&mut self) {
        for stream in Stream::ALL {
            let bytes = self.of(stream).finish_bytes();
            self.write(stream, &bytes);
        }
    }

    fn of(&mut self, stream: Stream) -> &mut RedactedStream {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        if self.last.is_some_and(|before| before != stream) && !self.is_at_line_start {
            let _ = self.file.write_all(b"\n");
        }
        // At most 64 KiB to a file: not worth a thread.
        let _ = self.file.write_all(bytes);
        self.last = Some(stream);
        self.is_at_line_start = *last == b'\n';
    }
}
