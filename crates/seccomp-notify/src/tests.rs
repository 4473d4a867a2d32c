//! A filter applies to a thread, so each test has one whose calls it answers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::{Answer, Listener, Notification, install};

/// A filter that matches one call.
fn filter(call: i64) -> BpfProgram {
    let rules = BTreeMap::from([(call, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let (allow, trace) = (SeccompAction::Allow, SeccompAction::Trace(0));
    let filter = SeccompFilter::new(rules, allow, trace, arch).unwrap();
    filter.try_into().unwrap()
}

/// A filter without effect, which makes the thread give up new privileges.
fn give_up_privileges() {
    let rules = BTreeMap::from([(libc::SYS_acct, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let (allow, errno) = (SeccompAction::Allow, SeccompAction::Errno(1));
    let filter = SeccompFilter::new(rules, allow, errno, arch).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Makes calls in a thread with a filter, and answers each by `answer`.
fn observed<T: Send + 'static>(
    call: i64,
    calls: impl FnOnce() -> T + Send + 'static,
    mut answer: impl FnMut(&Listener, &Notification),
) -> T {
    let (give, given) = channel();
    let (end, ended) = channel();
    let thread = thread::spawn(move || {
        give_up_privileges();
        give.send(install(&filter(call)).unwrap()).unwrap();
        let result = calls();
        // The listener's last call: a thread that ends makes none.
        end.send(()).unwrap();
        result
    });
    let listener = given.recv().unwrap();
    while ended.try_recv().is_err() {
        if !thread.is_finished() && is_ready(&listener) {
            let found = listener.receive().unwrap();
            answer(&listener, &found.unwrap());
        }
    }
    thread.join().unwrap()
}

fn is_ready(listener: &Listener) -> bool {
    let mut poll = libc::pollfd {
        fd: std::os::fd::AsRawFd::as_raw_fd(&listener.as_fd()),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, initialised and exclusively borrowed.
    #[allow(unsafe_code)]
    let ready = unsafe { libc::poll(&raw mut poll, 1, 10) };
    ready == 1 && poll.revents & libc::POLLIN != 0
}

fn bound() -> io::Result<UdpSocket> {
    UdpSocket::bind("127.0.0.1:0")
}

#[test]
fn a_call_is_seen_and_continued() {
    let mut seen = Vec::new();
    let made = observed(libc::SYS_socket, bound, |listener, found| {
        seen.push((found.call, found.arguments[0]));
        assert!(listener.is_waiting(found.id));
        listener.answer(found.id, &Answer::Continue).unwrap();
        assert!(!listener.is_waiting(found.id));
    });
    made.unwrap();
    assert_eq!(seen, [(libc::SYS_socket, libc::AF_INET as u64)]);
}

#[test]
fn a_call_is_answered_with_an_error_or_a_value() {
    let refused = observed(libc::SYS_socket, bound, |listener, found| {
        let answer = Answer::Error(libc::EACCES);
        listener.answer(found.id, &answer).unwrap();
    });
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let parent = observed(
        libc::SYS_getppid,
        std::os::unix::process::parent_id,
        |listener, found| listener.answer(found.id, &Answer::Value(7)).unwrap(),
    );
    assert_eq!(parent, 7);
}

#[test]
fn a_call_is_answered_with_a_descriptor() {
    let path = std::env::current_exe().unwrap();
    let null = || File::open("/dev/null");
    let opened = observed(libc::SYS_openat, null, |listener, found| {
        let file = File::open(&path).unwrap().into();
        let answer = Answer::Descriptor {
            file,
            close_on_exec: true,
        };
        listener.answer(found.id, &answer).unwrap();
    });
    let mut start = [0; 4];
    opened.unwrap().read_exact(&mut start).unwrap();
    assert_eq!(start, *b"\x7fELF");
}

#[test]
fn calls_fail_without_a_listener() {
    let made = thread::spawn(|| {
        give_up_privileges();
        drop(install(&filter(libc::SYS_socket)).unwrap());
        bound()
    });
    let error = made.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
}

#[test]
fn a_pending_call_fails_when_its_listener_ends() {
    let (give, given) = channel();
    let made = thread::spawn(move || {
        give_up_privileges();
        give.send(install(&filter(libc::SYS_socket)).unwrap())
            .unwrap();
        bound()
    });
    let listener: Listener = given.recv().unwrap();
    // Received, and never answered.
    listener.receive().unwrap().unwrap();
    drop(listener);
    let error = made.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
}

#[test]
fn a_thread_has_one_listener() {
    let second = thread::spawn(|| {
        give_up_privileges();
        let first = install(&filter(libc::SYS_socket)).unwrap();
        (first, install(&filter(libc::SYS_acct)))
    });
    let (_first, second) = second.join().unwrap();
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
}

#[test]
fn another_kind_of_file_is_no_listener() {
    let null = File::open("/dev/null").unwrap();
    let listener = Listener::from(std::os::fd::OwnedFd::from(null));
    assert!(listener.receive().is_err());
    assert!(!listener.is_waiting(1));
}
