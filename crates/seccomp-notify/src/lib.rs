//! Notifications of system calls by seccomp, as a safe interface.
//!
//! A filter makes the kernel stop each matching call of a thread, and of everything it starts, until
//! the holder of the [`Listener`] has answered. The only crate with unsafe code: no maintained crate
//! offers this without a C library
//! (`docs/design/decisions/0036-refused-connections-are-observed.md`).

#![cfg(target_os = "linux")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};
use seccompiler::BpfProgramRef;

/// `BPF_RET | BPF_K`: the code of an instruction that returns a fixed action.
const RETURN: u16 = 0x06;

/// Filters the calls of the calling thread, of its later threads and of the programs it executes:
/// every [`seccompiler::SeccompAction::Trace`] of the filter becomes a notification. Irreversible.
/// The thread must have given up new privileges, as every filter of seccompiler makes it do.
///
/// A matching call of this thread blocks until it is answered, so another thread or process must
/// have the listener first. Without any listener such calls fail with `ENOSYS`.
///
/// # Errors
/// The kernel's; `EBUSY` if another filter of the thread has a listener.
pub fn install(filter: BpfProgramRef<'_>) -> io::Result<Listener> {
    let instructions = filter.iter().map(|instruction| {
        let is_trace =
            instruction.code == RETURN && instruction.k & !0xffff == libc::SECCOMP_RET_TRACE;
        libc::sock_filter {
            code: instruction.code,
            jt: instruction.jt,
            jf: instruction.jf,
            k: if is_trace {
                libc::SECCOMP_RET_USER_NOTIF
            } else {
                instruction.k
            },
        }
    });
    let mut instructions: Vec<libc::sock_filter> = instructions.collect();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
        filter: instructions.as_mut_ptr(),
    };
    // A received call is interrupted by a kill only: an answer is never for a call that started
    // again.
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: `program` and the `len` instructions that it points to live until the call has
    // returned; the kernel copies and checks them.
    #[allow(unsafe_code)]
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = c_int::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel just made this descriptor for this process; nothing else has it.
    #[allow(unsafe_code)]
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(Listener(owned))
}

/// Receives the calls that match a filter, and answers them.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl From<OwnedFd> for Listener {
    /// A listener that another process sent. With a descriptor of another kind each use fails.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A stopped call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Identifies it for the answer.
    pub id: u64,
    /// The thread that makes it, as this process sees it.
    pub thread: u32,
    /// The number of the call.
    pub call: i64,
    /// Its arguments, as they were in the registers.
    pub arguments: [u64; 6],
}

/// The outcome of a stopped call.
#[derive(Debug)]
pub enum Answer {
    /// The kernel makes it. Memory that its arguments point to may have changed since it was read,
    /// so this must not depend on such memory.
    Continue,
    /// It returns this value.
    Value(i64),
    /// It fails with this error number.
    Error(i32),
    /// It returns a new descriptor of this file.
    Descriptor {
        /// The file.
        file: OwnedFd,
        /// Whether the new descriptor is closed by `execve`.
        close_on_exec: bool,
    },
}

impl Listener {
    /// Waits for the next call. `None` if it ended before it was received, or if a signal ended the
    /// wait.
    ///
    /// # Errors
    /// The kernel's.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        let mut found = seccomp_notif {
            id: 0,
            pid: 0,
            flags: 0,
            data: libc::seccomp_data {
                nr: 0,
                arch: 0,
                instruction_pointer: 0,
                args: [0; 6],
            },
        };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut found) {
            Ok(()) => Ok(Some(Notification {
                id: found.id,
                thread: found.pid,
                call: found.data.nr.into(),
                arguments: found.data.args,
            })),
            Err(error) if is_gone(&error) || is_interrupted(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a call still waits. Memory that was read before is that of its thread only if so: the
    /// number of an ended thread may be used again.
    pub fn is_waiting(&self, id: u64) -> bool {
        let mut id = id;
        self.repeat(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id)
            .is_ok()
    }

    /// Answers a call. An answer to one that ended meanwhile has no effect.
    ///
    /// # Errors
    /// The kernel's.
    pub fn answer(&self, id: u64, answer: &Answer) -> io::Result<()> {
        let mut response = seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: 0,
        };
        match answer {
            Answer::Continue => response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Value(value) => response.val = *value,
            Answer::Error(number) => response.error = -number,
            Answer::Descriptor {
                file,
                close_on_exec,
            } => return self.answer_descriptor(id, file.as_fd(), *close_on_exec),
        }
        sent(self.repeat(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response))
    }

    fn answer_descriptor(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        let mut added = seccomp_notif_addfd {
            id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: flags.cast_unsigned(),
        };
        sent(self.repeat(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut added))
    }

    /// Makes a request again if a signal interrupted it.
    fn repeat<T: Request>(&self, request: c_ulong, data: &mut T) -> io::Result<()> {
        loop {
            match self.control(request, data) {
                Err(error) if is_interrupted(&error) => {}
                done => return done,
            }
        }
    }

    /// Makes an `ioctl` on the listener. `T` is the type of its request.
    fn control<T: Request>(&self, request: c_ulong, data: &mut T) -> io::Result<()> {
        debug_assert_eq!((request >> 16) as usize & 0x3fff, size_of::<T>());
        // SAFETY: each request of seccomp encodes the size of its structure, at which the kernel
        // stops to read and write: `data` has that size, is initialised and exclusively borrowed.
        // Any other kind of file rejects the request, whose type is that of seccomp.
        #[allow(unsafe_code)]
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, &raw mut *data) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// The structures of the kernel's interface: plain numbers of a fixed layout.
trait Request {}
impl Request for u64 {}
impl Request for seccomp_notif {}
impl Request for seccomp_notif_resp {}
impl Request for seccomp_notif_addfd {}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

fn sent(answered: io::Result<()>) -> io::Result<()> {
    answered.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests;
