//! Connections that the kernel refuses, of programs that report nothing about them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::peer::says;
use super::walls::has_walls;
use super::{Bench, read};
use crate::support::wait_until_gone;

fn bench() -> Bench {
    Bench::new(|_, _| says("never"))
}

/// Captures a successful command; returns the network of its snapshot.
fn network(bench: &Bench, argv: &[&str]) -> Value {
    let ended = bench.record(argv);
    let kept = read(ended.stdout.lines().last().unwrap().as_ref());
    kept["extensions"]["network"].clone()
}

/// Captures a command, and replays it, with these refused destinations.
#[track_caller]
fn check_named(bench: &Bench, argv: &[&str], names: &[&str]) {
    let network = network(bench, argv);
    assert_eq!(network["refused"], json!(names), "{argv:?}");
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let replayed = bench.call(&args).json();
    assert_eq!(replayed["match_status"], "semantic_match", "{replayed:#}");
    assert_eq!(replayed["refused"], json!(names), "{replayed:#}");
}

/// Whether a program can be started; otherwise its part of the test is a named skip.
fn has(test: &str, program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null());
    let found = command.stderr(Stdio::null()).status().is_ok();
    if !found {
        testkit::skip(test, &format!("there is no {program}"));
    }
    found
}

#[test]
fn swallowed_errors_of_shells_are_named() {
    let test = "swallowed_errors_of_shells_are_named";
    if !has_walls(test) {
        return;
    }
    let bench = bench();
    if has(test, "bash") {
        let tcp = "(exec 3<>/dev/tcp/127.0.0.1/9) > /dev/null 2>&1 || true";
        check_named(&bench, &["bash", "-c", tcp], &["127.0.0.1:9"]);
        let udp = "(echo x > /dev/udp/127.0.0.1/9) > /dev/null 2>&1 || true";
        check_named(&bench, &["bash", "-c", udp], &["UDP 127.0.0.1:9"]);
        let isolated = "env -i bash -c '(exec 3<>/dev/tcp/::1/9) 2> /dev/null || true'";
        check_named(&bench, &["sh", "-c", isolated], &["[::1]:9"]);
    }
    if has(test, "curl") {
        let curl = "curl -s --noproxy '*' http://127.0.0.1:9/ > /dev/null 2>&1 || true; \
            curl -s --unix-socket /run/model.sock http://x/ > /dev/null 2>&1 || true";
        let names = ["127.0.0.1:9", "Unix socket /run/model.sock"];
        check_named(&bench, &["sh", "-c", curl], &names);
    }
    if has(test, "perl") {
        let perl = "use IO::Socket::INET; \
            IO::Socket::INET->new(PeerAddr => '127.0.0.1:9'); \
            my $udp = IO::Socket::INET->new(PeerAddr => '127.0.0.1:10', Proto => 'udp'); \
            send($udp, 'x', 0) if $udp;";
        let names = ["127.0.0.1:9", "UDP 127.0.0.1:10"];
        check_named(&bench, &["perl", "-e", perl], &names);
    }
}

#[test]
fn swallowed_errors_of_an_isolated_python_are_named() {
    if !has_walls("swallowed_errors_of_an_isolated_python_are_named") {
        return;
    }
    let bench = bench();
    let script = "import socket as s\n\
        def attempt(use):\n    try:\n        use()\n    except OSError:\n        pass\n\
        def make(*of):\n    return s.socket(*of)\n\
        def connected(*of):\n    c = make(s.AF_INET, s.SOCK_DGRAM)\n    c.connect(of)\n    c.send(b'x')\n    c.recv(9)\n\
        attempt(lambda: make().connect(('127.0.0.1', 9)))\n\
        attempt(lambda: make(s.AF_INET6).connect(('::1', 9)))\n\
        attempt(lambda: make(s.AF_INET6).connect(('::ffff:10.0.0.7', 9)))\n\
        attempt(lambda: make().sendto(b'x', 0x20000000, ('127.0.0.1', 11)))\n\
        attempt(lambda: make(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9)))\n\
        attempt(lambda: make(s.AF_INET6, s.SOCK_DGRAM).sendto(b'x', ('::1', 9)))\n\
        attempt(lambda: make(s.AF_INET, s.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', 10)))\n\
        attempt(lambda: connected('127.0.0.1', 11))\n\
        attempt(lambda: make(s.AF_UNIX).connect('/run/model.sock'))\n\
        attempt(lambda: make(s.AF_UNIX, s.SOCK_DGRAM).sendto(b'x', '\\0model'))\n\
        attempt(lambda: make(s.AF_INET, s.SOCK_RAW, 1))\n\
        attempt(lambda: make(s.AF_INET, s.SOCK_STREAM, 262).connect(('127.0.0.1', 13)))\n\
        attempt(lambda: make(40, s.SOCK_STREAM))\n\
        attempt(lambda: s.socketpair(s.AF_UNIX, s.SOCK_DGRAM))\n\
        attempt(lambda: s.gethostbyname('models.invalid'))\n";
    bench.write("agent.py", script);
    let names = [
        "10.0.0.7:9",
        "127.0.0.1:11",
        "127.0.0.1:13",
        "127.0.0.1:9",
        "UDP 127.0.0.1:10",
        "UDP 127.0.0.1:11",
        "UDP 127.0.0.1:9",
        "UDP [::1]:9",
        "Unix socket /run/model.sock",
        "Unix socket @model",
        "[::1]:9",
        "a pair of datagram sockets",
        "lookup of models.invalid",
        "raw socket",
        "socket of family 40, protocol 0",
    ];
    let argv = ["env", "-i", "/usr/bin/python3", "-I", "agent.py"];
    check_named(&bench, &argv, &names);
}

#[test]
fn swallowed_errors_of_node_are_named() {
    let test = "swallowed_errors_of_node_are_named";
    if !has_walls(test) || !has(test, "node") {
        return;
    }
    let bench = bench();
    let script = "const quiet = () => {};\n\
        require('tls').connect({ host: '127.0.0.1', port: 9 }).on('error', quiet);\n\
        require('net').connect({ path: '/run/model.sock' }).on('error', quiet);\n\
        const udp = require('dgram').createSocket('udp4');\n\
        udp.on('error', quiet).send('x', 9, '127.0.0.1', () => udp.close());\n";
    bench.write("agent.js", script);
    let names = [
        "127.0.0.1:9",
        "UDP 127.0.0.1:9",
        "Unix socket /run/model.sock",
    ];
    check_named(&bench, &["node", "agent.js"], &names);
}

#[test]
fn swallowed_errors_of_a_compiled_program_are_named() {
    let test = "swallowed_errors_of_a_compiled_program_are_named";
    if !has_walls(test) || !has(test, "cc") {
        return;
    }
    let bench = bench();
    let program = "#define _GNU_SOURCE\n\
        #include <arpa/inet.h>\n\
        #include <sys/socket.h>\n\
        int main(void) {\n\
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };\n\
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);\n\
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&to, sizeof to);\n\
        int udp = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);\n\
        struct iovec piece = { \"x\", 1 };\n\
        struct sockaddr_in other = to;\n\
        other.sin_port = htons(10);\n\
        struct mmsghdr both[2] = {\n\
        { .msg_hdr = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1 } },\n\
        { .msg_hdr = { .msg_name = &other, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1 } } };\n\
        sendmmsg(udp, both, 2, 0);\n\
        /* An address that is nowhere. */\n\
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)1, sizeof to);\n\
        return 0;\n\
        }\n";
    let source = bench.lab.write("agent.c", program);
    let mut compiler = Command::new("cc");
    compiler
        .arg(source)
        .arg("-o")
        .arg(bench.root().join("agent"));
    assert!(compiler.status().unwrap().success());
    let names = [
        "127.0.0.1:9",
        "UDP 127.0.0.1:10",
        "UDP 127.0.0.1:9",
        "a connection to an unknown address",
    ];
    check_named(&bench, &["./agent"], &names);
}

#[test]
fn a_daemon_of_a_daemon_is_named() {
    if !has_walls("a_daemon_of_a_daemon_is_named") {
        return;
    }
    let bench = bench();
    // Nothing of the command leads to it; the command waits for the file that it writes last.
    let script = "import os, sys, time\n\
        if os.fork() == 0:\n\
        \x20   os.setsid()\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.closerange(0, 256)\n\
        \x20       code = 'import socket\\ntry: socket.create_connection((\"127.0.0.1\", 9))\\n'\\\n\
        \x20           'except OSError: pass\\nopen(\"ended\", \"w\").close()'\n\
        \x20       os.execve(sys.executable, [sys.executable, '-I', '-c', code], {})\n\
        \x20   os._exit(0)\n\
        os.wait()\n\
        while not os.path.exists('ended'): time.sleep(0.01)\n\
        os.remove('ended')\n";
    bench.write("agent.py", script);
    check_named(&bench, &["python3", "-I", "agent.py"], &["127.0.0.1:9"]);
}

#[test]
fn another_address_with_the_port_of_the_proxy_is_refused() {
    if !has_walls("another_address_with_the_port_of_the_proxy_is_refused") {
        return;
    }
    let bench = bench();
    let script = "import os, socket, sys\n\
        port = int(os.environ['RUNWRIGHT_CAPTURE_URL'].split('/')[2].split(':')[1])\n\
        try:\n    socket.create_connection(('127.0.0.2', port))\n    sys.exit('connected')\n\
        except PermissionError:\n    pass\n\
        socket.create_connection(('127.0.0.1', port)).close()\n";
    bench.write("agent.py", script);
    let network = network(&bench, &["python3", "-I", "agent.py"]);
    let name = network["refused"][0].as_str().unwrap();
    assert!(name.starts_with("127.0.0.2:"), "{name}");
    assert_eq!(network["refused"].as_array().unwrap().len(), 1);
}

/// Captures and replays a command that connects to nothing.
#[track_caller]
fn check_valid(bench: &Bench, argv: &[&str]) {
    let network = network(bench, argv);
    assert!(network.is_null(), "{argv:?}: {network}");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{argv:?}");
}

#[test]
fn ordinary_programs_stay_valid() {
    let test = "ordinary_programs_stay_valid";
    if !has_walls(test) {
        return;
    }
    let bench = bench();
    bench.write("file", "text");
    check_valid(&bench, &["id"]);
    check_valid(&bench, &["python3", "-c", "print(1)"]);
    // The C library asks on its own for names of users, the log and a unique id, and connects
    // sockets for datagrams to sort addresses.
    let library = "import pwd, socket, syslog, uuid\n\
        try:\n    pwd.getpwnam('no-such-user')\nexcept KeyError:\n    pass\n\
        syslog.syslog('hello')\n\
        uuid.uuid1()\n\
        socket.getaddrinfo('localhost', 80)\n";
    check_valid(&bench, &["python3", "-c", library]);
    check_valid(&bench, &["python3", "-I", "-c", library]);
    let own = "import socket as s\n\
        c = s.socket(s.AF_INET, s.SOCK_DGRAM)\nc.connect(('10.0.0.7', 80))\nc.getsockname()\n\
        one, two = s.socketpair()\none.sendmsg([b'x'])\nassert two.recv(1) == b'x'\n";
    check_valid(&bench, &["python3", "-I", "-c", own]);
    for argv in [
        ["node", "-e", "1"],
        ["perl", "-e", "1"],
        ["bash", "-c", "true"],
    ] {
        if has(test, argv[0]) {
            check_valid(&bench, &argv);
        }
    }
    if has(test, "git") {
        let mut git = Command::new("git");
        git.args(["init", "-q"]).arg(bench.root());
        assert!(git.status().unwrap().success());
        // The recorder has its own folder there.
        check_valid(
            &bench,
            &["git", "status", "--short", "--untracked-files=no"],
        );
    }
}

#[test]
fn a_listing_with_names_of_users_stays_valid() {
    if !has_walls("a_listing_with_names_of_users_stays_valid") {
        return;
    }
    let bench = bench();
    bench.write("file", "text");
    // Times differ in a replay, so it is not replayed.
    assert!(network(&bench, &["ls", "-l"]).is_null());
}

#[test]
fn a_capture_within_a_capture_is_unverified() {
    if !has_walls("a_capture_within_a_capture_is_unverified") {
        return;
    }
    let bench = bench();
    fs::create_dir(bench.root().join("inner")).unwrap();
    let script = "import socket\n\
        try:\n    socket.create_connection(('127.0.0.1', 9))\nexcept OSError:\n    pass\n";
    bench.write("inner/agent.py", script);
    let inner = "\"$PROGRAM\" snapshot capture --root inner -- python3 -I agent.py > inner.txt";
    let outer = network(&bench, &["sh", "-c", inner]);
    assert_eq!(outer["refused"], json!(["127.0.0.1:9"]));
    let printed = fs::read_to_string(bench.root().join("inner.txt")).unwrap();
    let inner = read(Path::new(printed.lines().last().unwrap()));
    let network = &inner["extensions"]["network"];
    assert_eq!(network["unverified"], true, "{network}");
    let why = network["why"].as_str().unwrap();
    assert!(why.contains("a capture within another"), "{why}");
}

/// Waits until a process is in a system call.
fn wait_for_call(process: i32, call: &str) {
    let is_in_it = || {
        let line = fs::read_to_string(format!("/proc/{process}/syscall")).unwrap();
        line.split(' ').next() == Some(call)
    };
    // Nothing reports that a call waits.
    while !is_in_it() {
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_recorder_leaves_no_call_waiting() {
    const CONNECT: &str = if cfg!(target_arch = "x86_64") {
        "42"
    } else {
        "203"
    };
    if !has_walls("a_killed_recorder_leaves_no_call_waiting") {
        return;
    }
    let bench = bench();
    // Both connect again and again. The daemon outlives the recorder and writes its last error.
    let script = "import errno, os, socket\n\
        def connect():\n    try:\n        socket.socket().connect(('127.0.0.1', 9))\n\
        \x20   except OSError as error:\n        return error.errno\n\
        def ready(): print(os.getpid(), flush=True)\n\
        if os.fork() == 0:\n\
        \x20   os.setsid()\n    ready()\n    found = errno.EACCES\n\
        \x20   while found == errno.EACCES: found = connect()\n\
        \x20   open('ended', 'w').write(str(found))\n    os._exit(0)\n\
        ready()\n\
        while True: connect()\n";
    bench.write("agent.py", script);
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "python3", "-I", "agent.py",
    ];
    let mut recorder = bench.command(&args);
    recorder.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut recorder = recorder.spawn().unwrap();
    let id = Pid::from_child(&recorder);
    let lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    let processes = lines.take(2).map(|line| line.unwrap().parse().unwrap());
    let processes: Vec<i32> = processes.collect();
    kill_process(id, Signal::STOP).unwrap();
    for process in &processes {
        wait_for_call(*process, CONNECT);
    }
    kill_process(id, Signal::KILL).unwrap();
    recorder.wait().unwrap();
    for process in processes {
        wait_until_gone(process);
    }
    let error = fs::read_to_string(bench.root().join("ended")).unwrap();
    assert_eq!(error, "38", "ENOSYS: there is no listener");
}
