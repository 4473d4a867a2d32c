//! Copies one output of a process to its file and to the engine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::attempt::Tally;
use super::room::Room;
use super::watch::Event;
use super::wire::{self, FRAME_HEADER, MAX_FRAME_BYTES, Report, Stream, Written};

/// How long an output may stay silent after the last process is gone before it is given up.
const SILENCE: Duration = Duration::from_secs(1);

/// The pipe to the engine. Once the engine is gone everything is dropped.
pub(super) struct EngineEnd(Mutex<Option<File>>);

impl EngineEnd {
    pub(super) fn new(pipe: File) -> Self {
        Self(Mutex::new(Some(pipe)))
    }

    pub(super) fn report(&self, report: &Report) {
        self.send(|pipe| wire::write_report(pipe, report));
    }

    fn send(&self, write: impl FnOnce(&mut File) -> io::Result<()>) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = pipe.as_mut()
            && write(open).is_err()
        {
            *pipe = None;
        }
    }
}

/// An output in progress, as seen by others.
#[derive(Default)]
pub(super) struct Pump {
    tally: Mutex<Tally>,
    reads: AtomicU64,
    is_reading: AtomicBool,
    end: OnceLock<Result<(), String>>,
}

impl Pump {
    /// The amount written so far.
    pub(super) fn written(&self) -> Written {
        self.tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .written()
    }

    fn finish(&self, stream: Stream, result: io::Result<()>, events: &Sender<Event>) {
        let text =
            |error: &io::Error| format!("its {} could not be stored: {error}", stream.as_str());
        let _ = self.end.set(result.as_ref().copied().map_err(text));
        let _ = events.send(Event::OutputEnded(result));
    }

    /// Whether it copies nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// The number of reads before the one it waits in; `None` while it is writing.
    fn waits_in_read(&self) -> Option<u64> {
        self.is_reading
            .load(Ordering::Acquire)
            .then(|| self.reads.load(Ordering::Acquire))
    }
}

/// Copies `from` to `file`, if there is one, and to the engine on a thread of its own, until it ends, cannot be
/// written or exceeds `limit` bytes.
pub(super) fn start(
    stream: Stream,
    from: Option<OwnedFd>,
    mut file: Option<File>,
    (engine, room): (&Arc<EngineEnd>, &Room),
    limit: u64,
    events: Sender<Event>,
) -> Arc<Pump> {
    let pump = Arc::new(Pump::default());
    let (engine, room, seen) = (engine.clone(), room.clone(), pump.clone());
    let ended = events.clone();
    let copy = move || {
        let result = match from {
            Some(from) => carry(
                stream,
                &mut File::from(from),
                file.as_mut(),
                (&engine, &room),
                &seen,
                limit,
            ),
            None => Err(io::Error::other("the output has no pipe")),
        };
        seen.finish(stream, result, &ended);
    };
    if let Err(error) = thread::Builder::new().spawn(copy) {
        pump.finish(stream, Err(error), &events);
    }
    pump
}

/// Waits for the slower of file and engine, so that memory stays bounded and a fast process is
/// slowed down.
fn carry(
    stream: Stream,
    from: &mut File,
    mut file: Option<&mut File>,
    (engine, room): (&EngineEnd, &Room),
    pump: &Pump,
    limit: u64,
) -> io::Result<()> {
    let mut frame = vec![0; FRAME_HEADER + MAX_FRAME_BYTES];
    loop {
        pump.is_reading.store(true, Ordering::Release);
        let length = match from.read(&mut frame[FRAME_HEADER..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        pump.reads.fetch_add(1, Ordering::AcqRel);
        pump.is_reading.store(false, Ordering::Release);
        if length == 0 {
            return Ok(());
        }
        let frame = &mut frame[..FRAME_HEADER + length];
        let total = {
            let mut tally = pump.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(&frame[FRAME_HEADER..]);
            tally.bytes()
        };
        if total > limit {
            let text = format!("it is longer than the limit of {limit} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        if let Some(file) = &mut file {
            let mut left = &frame[FRAME_HEADER..];
            room.for_io(|| write_on(file, &mut left))?;
        }
        wire::seal(frame, stream.tag());
        engine.send(|pipe| pipe.write_all(frame));
    }
}

/// Writes the rest of some bytes, and removes what is written from it.
fn write_on(file: &mut File, left: &mut &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match file.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until an output is complete, however slow the engine is and however full the disk; returns
/// the error, if any. An output that another process holds open without writing is accepted as it
/// is.
pub(super) fn drain(pump: &Pump, inbox: &Receiver<Event>) -> Option<String> {
    let mut silent = (None, Instant::now());
    loop {
        if let Some(end) = pump.end.get() {
            return end.as_ref().err().cloned();
        }
        let waits = pump.waits_in_read();
        if waits.is_none() || waits != silent.0 {
            silent = (waits, Instant::now());
        } else if silent.1.elapsed() >= SILENCE {
            return None;
        }
        // Every event triggers a check; none is required.
        let _ = inbox.recv_timeout(Duration::from_millis(50));
    }
}
