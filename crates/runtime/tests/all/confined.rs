//! Programs confined by the kernel from files, network and processes, and limited by the
//! supervisor.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use runtime::programs::{Bounds, Confinement, Files, Network, confinement};
use runtime::supervisor::{End, Finish, ProcessLimit, Spec};

use crate::support::*;

/// Whether programs can be confined here; otherwise the test is skipped.
fn can_confine(test: &str) -> bool {
    match confinement() {
        Ok(_) => true,
        Err(why) => {
            testkit::skip(test, &why.to_string());
            false
        }
    }
}

/// The system's Python with a confined script.
fn python(lab: &Lab, script: &str, confinement: Confinement) -> Spec {
    Spec {
        confinement: Some(confinement),
        ..lab.spec(&["/usr/bin/python3", "-c", script])
    }
}

fn only(folder: PathBuf) -> Confinement {
    Confinement {
        files: Files::Folder {
            folder,
            hidden: Vec::new(),
        },
        network: Network::Denied,
        bounds: None,
    }
}

async fn said(lab: &Lab, spec: Spec) -> String {
    let (stdout, stderr, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    match finish {
        Finish::Ended(record) if record.end == (End::Exited { code: 0 }) => stdout,
        other => panic!("{other:?}: {stdout}{stderr}"),
    }
}

async fn bound_passed(lab: &Lab, script: &str, bounds: Bounds) -> String {
    let confinement = Confinement {
        bounds: Some(bounds),
        ..only(lab.work())
    };
    let running = lab.supervisor.start(python(lab, script, confinement)).await;
    let (stdout, stderr, finish) = collect(running.unwrap()).await;
    match finish {
        Finish::Ended(record) => match record.end {
            End::BoundPassed { used } => used,
            // The kernel counts the processes of every user but root.
            End::Exited { code: 7 } => "no process more".to_owned(),
            other => panic!("{other:?}: {stdout}{stderr}"),
        },
        other => panic!("{other:?}: {stdout}{stderr}"),
    }
}

#[tokio::test]
async fn only_the_own_folder_is_reached() {
    if !can_confine("only_the_own_folder_is_reached") {
        return;
    }
    let lab = Lab::new();
    let beside = lab.keyring_path();
    fs::write(&beside, "a key").unwrap();
    let script = format!(
        "import os, socket\n\
         open('own', 'w').write('mine')\n\
         print(open('own').read())\n\
         for reach in (lambda: open({beside:?}), lambda: os.listdir({folder:?}),\n\
         \x20   lambda: os.chmod({beside:?}, 0o777), lambda: open('/proc/1/environ'),\n\
         \x20   lambda: os.link({beside:?}, 'linked'),\n\
         \x20   lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)):\n\
         \x20   try:\n\
         \x20       reach()\n\
         \x20       print('reached')\n\
         \x20   except OSError as error:\n\
         \x20       # Landlock calls a link out of a folder one across devices.\n\
         \x20       print('denied' if error.errno in (1, 13, 18) else error)\n",
        folder = beside.parent().unwrap(),
    );
    let said = said(&lab, python(&lab, &script, only(lab.work()))).await;
    assert_eq!(said, format!("mine\n{}", "denied\n".repeat(6)));
    assert_eq!(lab.read("own"), "mine");
}

#[tokio::test]
async fn hidden_paths_are_unreachable_and_others_reachable() {
    if !can_confine("hidden_paths_are_unreachable_and_others_reachable") {
        return;
    }
    let lab = Lab::new();
    fs::create_dir_all(lab.work().join("data")).unwrap();
    fs::write(lab.work().join("data/key"), "a key").unwrap();
    fs::write(lab.work().join("text"), "a text").unwrap();
    let confinement = Confinement {
        files: Files::AllBut(vec![lab.work().join("data").canonicalize().unwrap()]),
        network: Network::Open,
        bounds: None,
    };
    let script = "print(open('text').read())\n\
                  try:\n    print(open('data/key').read())\n\
                  except PermissionError:\n    print('denied')\n";
    let said = said(&lab, python(&lab, script, confinement)).await;
    assert_eq!(said.trim(), "a text\ndenied");
}

#[tokio::test]
async fn only_one_port_is_reached_by_tcp_alone() {
    if !can_confine("only_one_port_is_reached_by_tcp_alone") {
        return;
    }
    let lab = Lab::new();
    let (open, shut) = (listener(), listener());
    let confinement = Confinement {
        files: Files::All,
        network: Network::OnlyPort(open.local_addr().unwrap().port()),
        bounds: None,
    };
    let script = format!(
        "import socket as s\n\
         def tcp(to):\n    s.create_connection(('127.0.0.1', to)).close()\n\
         def fast():\n\
         \x20   s.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {shut}))\n\
         def kind(*of):\n    s.socket(*of).close()\n\
         for reach in (lambda: tcp({open}), lambda: tcp({shut}), fast,\n\
         \x20   lambda: kind(s.AF_INET, s.SOCK_DGRAM), lambda: kind(s.AF_UNIX, s.SOCK_STREAM),\n\
         \x20   lambda: kind(s.AF_INET, s.SOCK_RAW, 1), lambda: kind(s.AF_INET, s.SOCK_STREAM, 262),\n\
         \x20   lambda: kind(s.AF_NETLINK, s.SOCK_RAW, 0), lambda: kind(s.AF_PACKET, s.SOCK_RAW),\n\
         \x20   lambda: s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)):\n\
         \x20   try:\n\
         \x20       reach()\n\
         \x20       print('reached')\n\
         \x20   except PermissionError:\n\
         \x20       print('denied')\n\
         s.socketpair()\n",
        open = open.local_addr().unwrap().port(),
        shut = shut.local_addr().unwrap().port(),
    );
    let said = said(&lab, python(&lab, &script, confinement)).await;
    let denied = "denied\n".repeat(9);
    assert_eq!(said, format!("reached\n{denied}"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_observation_still_confines() {
    use runtime::programs::{Observation, confine_observed};
    if !can_confine("a_second_observation_still_confines") {
        return;
    }
    // Confines a thread alone.
    let confined = std::thread::spawn(|| {
        let first = confine_observed(1).unwrap();
        let second = confine_observed(1).unwrap();
        (first, second, std::net::UdpSocket::bind("127.0.0.1:0"))
    });
    let (first, second, socket) = confined.join().unwrap();
    assert!(matches!(first, Observation::By(_)), "{first:?}");
    let Observation::Missing(why) = second else {
        panic!("{second:?}");
    };
    assert_eq!(why.kind(), std::io::ErrorKind::ResourceBusy);
    let denied = socket.unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
}

fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).unwrap()
}

#[tokio::test]
async fn too_many_processes_are_killed() {
    if !can_confine("too_many_processes_are_killed") {
        return;
    }
    let lab = Lab::new();
    // Limited, so that a failure of the supervisor costs the machine little.
    let script = "import os, time\n\
                  for _ in range(200):\n\
                  \x20   try:\n\
                  \x20       if os.fork() == 0:\n            break\n\
                  \x20   except BlockingIOError:\n        os._exit(7)\n\
                  time.sleep(60)\n";
    let bounds = Bounds {
        processes: 20,
        ..Bounds::OF_TENANTS
    };
    let used = bound_passed(&lab, script, bounds).await;
    let expected = if rustix::process::getuid().is_root() {
        "more than 20 processes and threads at a time"
    } else {
        "no process more"
    };
    assert_eq!(used, expected);
    assert_eq!(lab.alive(), [0; 0]);
}

/// Each process starts the next one in a session of its own and ends: none lives long enough to be
/// killed by its id. They end by themselves after some seconds.
#[tokio::test]
async fn processes_that_outrun_a_kill_are_killed() {
    let name = "processes_that_outrun_a_kill_are_killed";
    if !can_confine(name) {
        return;
    }
    if ProcessLimit::here() != ProcessLimit::ControlGroup {
        return testkit::skip(
            name,
            "only root makes control groups, where they can be made",
        );
    }
    let lab = Lab::new();
    let script = "import os, time\n\
                  over = time.monotonic() + 8\n\
                  def fork():\n\
                  \x20   while time.monotonic() < over:\n\
                  \x20       try:\n\
                  \x20           return os.fork()\n\
                  \x20       except BlockingIOError:\n            pass\n\
                  \x20   open('outran', 'w').close()\n\
                  \x20   os._exit(0)\n\
                  for _ in range(30):\n    if fork() == 0:\n        break\n\
                  while True:\n    if fork():\n        os._exit(0)\n    os.setsid()\n";
    let bounds = Bounds {
        processes: 20,
        ..Bounds::OF_TENANTS
    };
    let used = bound_passed(&lab, script, bounds).await;
    assert_eq!(used, "more than 20 processes and threads at a time");
    assert!(!lab.work().join("outran").exists());
    assert_eq!(lab.alive(), [0; 0]);
}

#[tokio::test]
async fn too_much_memory_of_all_together_is_noticed() {
    if !can_confine("too_much_memory_of_all_together_is_noticed") {
        return;
    }
    let lab = Lab::new();
    let script = "import os, time\n\
                  for _ in range(4):\n    if os.fork() == 0:\n        break\n\
                  held = bytearray(b'x') * (40 << 20)\n\
                  time.sleep(60)\n";
    let bounds = Bounds {
        memory: 100 << 20,
        ..Bounds::OF_TENANTS
    };
    let used = bound_passed(&lab, script, bounds).await;
    assert_eq!(used, "more than 100 MiB of memory");
}

#[tokio::test]
async fn one_process_stays_within_its_limits() {
    if !can_confine("one_process_stays_within_its_limits") {
        return;
    }
    let lab = Lab::new();
    let script = "held = []\n\
                  def files():\n    held.extend(open('/dev/null') for _ in range(100))\n\
                  for use in (lambda: bytearray(300 << 20), lambda: open('f', 'w').truncate(2 << 20),\n\
                  \x20   files):\n\
                  \x20   try:\n        use()\n        print('had')\n\
                  \x20   except (OSError, MemoryError) as error:\n        print(type(error).__name__)\n";
    let bounds = Bounds {
        memory: 200 << 20,
        file: 1 << 20,
        open_files: 64,
        ..Bounds::OF_TENANTS
    };
    let confinement = Confinement {
        bounds: Some(bounds),
        ..only(lab.work())
    };
    let said = said(&lab, python(&lab, script, confinement)).await;
    assert_eq!(said, "MemoryError\nOSError\nOSError\n");
}
