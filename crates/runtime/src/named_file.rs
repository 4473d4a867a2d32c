//! Files that a user names, for example in an argument or a configuration file: a regular file, or
//! a pipe as the shell's `<(command)` makes one.
//!
//! A device may be endless and a pipe may never get a writer, so the first is refused and the
//! second is waited for briefly.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Maximum bytes of a configuration file or a key.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;
/// How long a pipe may be without a writer.
const WRITER_WAIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// A file that a user named, open for reading.
#[derive(Debug)]
pub struct NamedFile {
    file: File,
    size: Option<u64>,
    may_lack_writer: bool,
}

impl NamedFile {
    /// Opens a regular file or a pipe. Links are followed.
    ///
    /// # Errors
    /// For folders, devices and sockets, and when it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Without it, opening a pipe waits for its writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        let facts = file.metadata()?;
        let is_pipe = facts.file_type().is_fifo();
        match () {
            () if facts.is_dir() => Err(Errno::ISDIR.into()),
            () if facts.is_file() || is_pipe => Ok(Self {
                file,
                size: facts.is_file().then_some(facts.len()),
                may_lack_writer: is_pipe,
            }),
            () => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "this is a device or a socket, not a file",
            )),
        }
    }

    /// The bytes of a regular file; `None` for a pipe.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The whole content.
    ///
    /// # Errors
    /// When it is longer than `max_bytes`, or cannot be read.
    pub fn read_bounded(self, max_bytes: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let is_known_longer = self.size.is_some_and(|size| size > max_bytes as u64);
        if !is_known_longer {
            self.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
        }
        if is_known_longer || bytes.len() > max_bytes {
            Err(io::Error::new(
                ErrorKind::FileTooLarge,
                format!("this has more than {max_bytes} bytes, the maximum"),
            ))
        } else {
            Ok(bytes)
        }
    }
}

impl Read for NamedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(into) {
                Ok(0) if self.may_lack_writer && !into.is_empty() => {
                    self.may_lack_writer = false;
                    if !has_news(&self.file, Some(&WRITER_WAIT))? {
                        return Err(io::Error::new(
                            ErrorKind::InvalidInput,
                            "this is a pipe, and no program writes to it",
                        ));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.may_lack_writer = false;
                    has_news(&self.file, None)?;
                }
                read => {
                    self.may_lack_writer = false;
                    return read;
                }
            }
        }
    }
}

/// Waits until a pipe has data or lost its writer.
fn has_news(pipe: &File, wait: Option<&Timespec>) -> io::Result<bool> {
    loop {
        let mut polled = [PollFd::new(pipe, PollFlags::IN)];
        match poll(&mut polled, wait) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// The content of a file that a user named.
///
/// # Errors
/// As for [`NamedFile::open`] and [`NamedFile::read_bounded`].
pub fn read(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    NamedFile::open(path)?.read_bounded(max_bytes)
}

/// The same as text.
///
/// # Errors
/// As for [`read`], and when it is not UTF-8.
pub fn read_to_string(path: &Path, max_bytes: usize) -> io::Result<String> {
    String::from_utf8(read(path, max_bytes)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "this is not UTF-8 text"))
}

/// As [`read_to_string`], without blocking the other tasks of the thread.
///
/// # Errors
/// As for [`read_to_string`].
pub async fn read_to_string_async(path: &Path, max_bytes: usize) -> io::Result<String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_to_string(&path, max_bytes));
    read.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    #[test]
    fn files_are_read_through_links_and_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "four").unwrap();
        symlink("a", &link).unwrap();
        assert_eq!(read_to_string(&link, 4).unwrap(), "four");
        let refused = read(&link, 3).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
        let refused = read(folder.path(), 3).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("zero");
        symlink("/dev/zero", &link).unwrap();
        let refused = read(&link, 1 << 20).unwrap_err().to_string();
        assert_eq!(refused, "this is a device or a socket, not a file");
    }

    #[test]
    fn pipes_are_read_to_their_end_within_the_bound() {
        for (max, expected) in [(1 << 20, Some(1 << 20)), (1 << 19, None)] {
            let folder = tempfile::tempdir().unwrap();
            let path = pipe(folder.path());
            let to = path.clone();
            let writer = std::thread::spawn(move || {
                let mut to = OpenOptions::new().write(true).open(to)?;
                to.write_all(&vec![b'x'; 1 << 20])
            });
            let read = read(&path, max);
            assert_eq!(read.map(|bytes| bytes.len()).ok(), expected);
            assert_eq!(writer.join().unwrap().is_ok(), expected.is_some());
        }
    }

    #[test]
    fn a_pipe_without_a_writer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = read(&pipe(folder.path()), 9).unwrap_err().to_string();
        assert_eq!(refused, "this is a pipe, and no program writes to it");
    }
}
