//! The protocol of the engine and a supervisor, over the supervisor's two pipes.
//!
//! Engine to supervisor: the length of a [`Request`], the request as JSON, the bytes of the child's
//! stdin. Later bytes depend on the [`Service`]. The engine keeps the pipe open for as long as it
//! wants the process, and closing it, deliberately or by death, requests a stop. A request never
//! touches argv or a file, because it carries secrets.
//!
//! Supervisor to engine: frames of a kind (one byte), a length (`u32`, big endian) and a payload.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use bytes::{Buf, Bytes, BytesMut};
use kernel::digest::Digest;
use kernel::ids::AttemptKey;
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::programs::Confinement;

/// Bytes of output in one frame.
pub(super) const MAX_FRAME_BYTES: usize = 64 << 10;
/// The largest request, and the largest stdin of the child, in bytes.
pub(super) const MAX_REQUEST_BYTES: usize = 64 << 20;
/// Bytes before the payload of a frame.
pub(super) const FRAME_HEADER: usize = 5;

/// The process for a supervisor to run. Not `Debug`: its environment holds secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    /// The directory of the attempt.
    pub dir: PathBuf,
    pub key: AttemptKey,
    pub generation: u32,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin_bytes: usize,
    pub timeout_ms: Option<u64>,
    pub grace_ms: u64,
    pub output_limit: u64,
    pub service: Service,
    /// The confinement of the child.
    #[serde(default)]
    pub confinement: Option<Confinement>,
}

/// How a supervisor serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    /// One process. Its outputs and its exit record outlive the engine.
    Single,
    /// The same; later bytes go to its stdin.
    Interactive,
    /// One of several processes in turn: the next request follows the final report. It leaves
    /// neither outputs nor a record in its directory.
    Pooled,
}

impl Request {
    /// Reads a request and the child's stdin.
    pub(super) fn read(from: &mut impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let request = read_bounded(from, u32::from_be_bytes(length) as usize)?;
        let request: Self = serde_json::from_slice(&request)?;
        let stdin = read_bounded(from, request.stdin_bytes)?;
        Ok((request, stdin))
    }

    /// The bytes before the child's stdin.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, self)?;
        let length = bytes.len() - 4;
        if length > MAX_REQUEST_BYTES || self.stdin_bytes > MAX_REQUEST_BYTES {
            return Err(too_long());
        }
        bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(bytes)
    }
}

fn read_bounded(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_REQUEST_BYTES {
        return Err(too_long());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn too_long() -> io::Error {
    let limit = MAX_REQUEST_BYTES >> 20;
    let text = format!("a process takes at most {limit} MiB of arguments and of stdin");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

kernel::words! {
    /// One of the two outputs of a process.
    pub enum Stream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

impl Stream {
    pub(super) fn tag(self) -> u8 {
        match self {
            Self::Stdout => b'o',
            Self::Stderr => b'e',
        }
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum End {
    /// It exited.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// It was killed by a signal from outside.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It exceeded its timeout and was stopped.
    TimedOut {
        /// The timeout in milliseconds.
        after_ms: u64,
    },
    /// It exceeded a resource limit and was killed.
    BoundPassed {
        /// The exceeded limit, in words.
        used: String,
    },
}

/// The size of one output; the bytes are in the attempt directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The number of bytes.
    pub bytes: u64,
    /// Their SHA-256.
    pub digest: Digest,
}

/// The durable record of a process that exited by itself or by its timeout. A stop that the engine
/// requested, or that its death caused, leaves no record: it is not an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// How it ended.
    pub end: End,
    /// When it started.
    pub started_at: Timestamp,
    /// When its end was observed.
    pub ended_at: Timestamp,
    /// Its standard output.
    pub stdout: Written,
    /// Its standard error.
    pub stderr: Written,
    /// How many processes outlived it, all of which were ended.
    pub left_behind: u32,
}

impl ExitRecord {
    /// The size of an output.
    pub fn written(&self, stream: Stream) -> Written {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }
}

/// Why a process was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotStarted {
    /// The program does not exist.
    CommandNotFound,
    /// The program is not executable.
    NotExecutable,
    /// The working directory does not exist or cannot be entered.
    WorkingDirectory,
    /// A later holder of the run has this attempt, or it is settled.
    Superseded,
    /// An earlier instance of the attempt could not be ended.
    StillAlive,
    /// The kernel could not confine it.
    NotConfined,
    /// Anything else, such as too many arguments.
    Other,
}

/// A supervisor's reports, in addition to output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub(super) enum Report {
    /// The process runs.
    Started { pid: i32 },
    /// The disk is full: a file of the attempt waits for space.
    Stalled,
    /// A file that waited is written.
    Continues,
    /// It exited in an earlier life of the engine.
    Adopted { record: ExitRecord },
    /// It ended.
    Ended {
        record: ExitRecord,
        /// Whether the supervisor waits for the next request.
        is_free: bool,
    },
    /// It never ran.
    NotStarted { reason: NotStarted, message: String },
    /// It and all its descendants were stopped because the engine requested it.
    Stopped,
    /// It was stopped because its output could not be stored.
    OutputLost { message: String },
}

/// A frame from a supervisor.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// A chunk of output.
    Output(Stream, Bytes),
    /// Anything else.
    Report(Report),
}

/// Writes a report.
pub(super) fn write_report(to: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut frame = vec![0; FRAME_HEADER];
    serde_json::to_writer(&mut frame, report)?;
    seal(&mut frame, b'r');
    to.write_all(&frame)
}

/// Fills in the header of a frame whose payload is in place.
pub(super) fn seal(frame: &mut [u8], tag: u8) {
    let length = (frame.len() - FRAME_HEADER) as u32;
    frame[0] = tag;
    frame[1..FRAME_HEADER].copy_from_slice(&length.to_be_bytes());
}

/// Removes the next frame from `buffer`; `None` if it is incomplete.
pub(super) fn take_frame(buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    let Some(header) = buffer.first_chunk::<FRAME_HEADER>() else {
        return Ok(None);
    };
    let [tag, length @ ..] = *header;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return invalid("a supervisor sent a frame that is too long");
    }
    if buffer.len() < FRAME_HEADER + length {
        return Ok(None);
    }
    buffer.advance(FRAME_HEADER);
    let payload = buffer.split_to(length).freeze();
    match tag {
        b'o' => Ok(Some(Frame::Output(Stream::Stdout, payload))),
        b'e' => Ok(Some(Frame::Output(Stream::Stderr, payload))),
        b'r' => Ok(Some(Frame::Report(serde_json::from_slice(&payload)?))),
        _ => invalid("a supervisor sent a frame of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stdin_bytes: usize) -> Request {
        Request {
            dir: "/attempt".into(),
            key: "attempt-1".into(),
            generation: 3,
            argv: vec!["a".into()],
            env: BTreeMap::from([("A".into(), "b".into())]),
            cwd: "/".into(),
            stdin_bytes,
            timeout_ms: None,
            grace_ms: 1,
            output_limit: 1,
            service: Service::Single,
            confinement: None,
        }
    }

    #[test]
    fn a_request_is_read_back_with_its_stdin_and_nothing_more() {
        let mut bytes = request(3).encode().unwrap();
        bytes.extend_from_slice(b"abcdef");
        let mut from = bytes.as_slice();
        let (request, stdin) = Request::read(&mut from).unwrap();
        assert_eq!(
            (request.generation, stdin.as_slice(), from),
            (3, b"abc".as_slice(), &b"def"[..])
        );
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_on_both_sides() {
        assert!(request(MAX_REQUEST_BYTES + 1).encode().is_err());
        let mut claimed = &u32::MAX.to_be_bytes()[..];
        assert!(Request::read(&mut claimed).is_err());
    }

    #[test]
    fn frames_are_whole_for_any_split_of_reads() {
        let mut bytes = Vec::new();
        write_report(&mut bytes, &Report::Started { pid: 7 }).unwrap();
        let mut output = vec![0; FRAME_HEADER];
        output.extend_from_slice(b"hello");
        seal(&mut output, Stream::Stderr.tag());
        bytes.extend_from_slice(&output);
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for byte in bytes {
            buffer.extend_from_slice(&[byte]);
            while let Some(frame) = take_frame(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        let output = Frame::Output(Stream::Stderr, Bytes::from_static(b"hello"));
        assert_eq!(frames, [Frame::Report(Report::Started { pid: 7 }), output]);
    }

    #[test]
    fn a_frame_of_impossible_length_is_an_error() {
        let mut buffer = BytesMut::from(&[b'o', 0xff, 0, 0, 0][..]);
        assert!(take_frame(&mut buffer).is_err());
    }
}
