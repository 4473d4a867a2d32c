//! Commands whose connections past the proxy are refused.

use serde_json::{Value, json};

use super::peer::says;
use super::walls::has_walls;
use super::{Bench, read};
use crate::support::Ended;

/// The address of the server, so that the program's text does not have it.
fn parts(bench: &Bench) -> String {
    let (host, port) = bench.peer.address.split_once(':').unwrap();
    let host = host.replace('.', "', '");
    format!("host, port = '.'.join(['{host}']), {port} - 1 + 1\n")
}

/// Captures a program of which a connection is refused; returns its snapshot. Verifying and
/// replaying it must say so.
#[track_caller]
fn check_refused(bench: &Bench, argv: &[&str], name: &str) -> Value {
    let call = |args: &[&str]| bench.call(&[&["snapshot"], args].concat());
    let head = ["capture", "--root", "shop", "--"];
    let ended = call(&[&head[..], argv].concat());
    assert!(ended.stderr.contains("UNVERIFIED"), "{ended:?}");
    assert!(ended.stderr.contains(name), "{ended:?}");
    let verified = call(&["verify", "latest", "--root", "shop"]).with(0);
    assert!(verified.stdout.contains("  unverified"), "{verified:?}");
    assert!(verified.stdout.contains(name), "{verified:?}");
    call(&["verify", "latest", "--strict", "--root", "shop"]).with(4);
    call(&["show", "latest", "--root", "shop"]).says(name);
    let listed = call(&["list", "--root", "shop"]).with(0);
    assert!(listed.stdout.contains("UNVERIFIED"), "{listed:?}");
    let replayed = call(&["replay", "latest", "--root", "shop"]);
    assert!(!replayed.stdout.contains("exact_match"), "{replayed:?}");
    assert!(replayed.stderr.contains(name), "{replayed:?}");
    snapshot(&ended)
}

fn snapshot(ended: &Ended) -> Value {
    read(ended.stdout.lines().last().unwrap().as_ref())
}

#[test]
fn a_refused_connection_makes_a_snapshot_unverified() {
    if !has_walls("a_refused_connection_makes_a_snapshot_unverified") {
        return;
    }
    let bench = Bench::new(|_, _| says("never"));
    let connect =
        "try:\n    connect()\n    print('connected')\nexcept OSError:\n    print('nothing')\n";
    let head = parts(&bench);
    let by_c_module = "import _socket\n\
        def connect():\n    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM).connect((host, port))\n";
    let by_c_library = "import ctypes, socket, struct\n\
        def connect():\n\
        \x20   libc = ctypes.CDLL(None)\n\
        \x20   to = struct.pack('=H', 2) + struct.pack('>H', port) + socket.inet_aton(host) + bytes(8)\n\
        \x20   if libc.connect(libc.socket(2, 1, 0), to, 16) != 0:\n        raise OSError\n";
    for way in [by_c_module, by_c_library] {
        bench.write("agent.py", &format!("{head}{way}{connect}"));
        let kept = check_refused(&bench, &["python3", "agent.py"], &bench.peer.address);
        assert_eq!(kept["outputs"]["response"], "nothing\n", "{way}");
    }
    assert_eq!(bench.peer.came().len(), 0);
}

#[test]
fn a_child_without_variables_is_captured() {
    if !has_walls("a_child_without_variables_is_captured") {
        return;
    }
    let bench = Bench::new(|_, _| says("for the child"));
    let child = "import http.client as h, json, sys\n\
        c = h.HTTPConnection(sys.argv[1], int(sys.argv[2]))\n\
        c.request('POST', '/v1/chat/completions', json.dumps({'model': 'm', 'messages': []}))\n\
        print(json.load(c.getresponse())['choices'][0]['message']['content'])\n";
    bench.write("child.py", child);
    let agent = format!(
        "{}import subprocess, sys\n\
         argv = [sys.executable, 'child.py', host, str(port)]\n\
         print(subprocess.run(argv, env={{}}, stdout=subprocess.PIPE).stdout.decode())\n",
        parts(&bench)
    );
    bench.write("agent.py", &agent);
    let kept = snapshot(&bench.record(&["python3", "agent.py"]));
    assert_eq!(kept["outputs"]["response"], "for the child");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 1);
}

#[test]
fn a_probe_in_a_replay_is_reset_and_named() {
    if !has_walls("a_probe_in_a_replay_is_reset_and_named") {
        return;
    }
    let bench = Bench::new(|_, _| says("as recorded"));
    let agent = format!(
        "{}import json, os, socket, sys, urllib.request as u\n\
         if os.path.exists('probe'):\n\
         \x20   c = socket.create_connection((host, port))\n\
         \x20   c.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}')\n\
         \x20   try:\n        c.recv(64)\n        sys.exit('REACHED')\n    except ConnectionError:\n        pass\n\
         body = json.dumps({{'model': 'm', 'messages': []}}).encode()\n\
         r = u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, {{'Content-Type': 'application/json'}})\n\
         print(json.load(u.urlopen(r))['choices'][0]['message']['content'])\n",
        parts(&bench)
    );
    bench.write("agent.py", &agent);
    bench.record(&["python3", "agent.py"]);
    bench.write("probe", "");
    let address = &bench.peer.address;
    let args = [
        "snapshot", "replay", "latest", "--root", "shop", "--json", "--", "python3", "agent.py",
    ];
    let replayed = bench.call(&args).with(3).json();
    assert_eq!(replayed["exit_code"], 0, "{replayed:#}");
    assert_eq!(replayed["refused"], json!([address]), "{replayed:#}");
    let message = replayed["first_divergence"]["message"].as_str().unwrap();
    assert!(message.contains(address), "{message}");
    assert_eq!(bench.peer.came().len(), 1, "the server is not called again");
}

#[test]
fn udp_datagrams_are_refused_at_once() {
    if !has_walls("udp_datagrams_are_refused_at_once") {
        return;
    }
    let bench = Bench::new(|_, _| says("never"));
    let agent = "import socket as s\n\
        def attempt(use):\n    try:\n        use()\n    except OSError as error:\n        print(type(error).__name__)\n\
        c = s.socket(s.AF_INET, s.SOCK_DGRAM)\n\
        attempt(lambda: c.sendto(b'x', ('127.0.0.1', 9)))\n\
        c.connect(('127.0.0.1', 9))\n\
        c.send(b'x')\n\
        attempt(lambda: c.recv(9))\n";
    bench.write("agent.py", agent);
    let kept = check_refused(&bench, &["python3", "agent.py"], "UDP 127.0.0.1:9");
    let response = &kept["outputs"]["response"];
    assert_eq!(*response, "PermissionError\nConnectionResetError\n");
}
