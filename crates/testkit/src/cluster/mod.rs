//! Parts of tests and benchmarks of several servers: a PostgreSQL pair that may be killed and
//! fail over, a TCP proxy that misbehaves, processes of servers, and a client.

mod host;
mod http;
mod node;
mod pair;
mod proxy;

pub use host::{Host, Signal};
pub use http::{Answer, Client};
pub use node::Node;
pub use pair::Pair;
pub use proxy::{Proxy, Upstream};

use std::net::TcpListener;
use std::process::{Command, Stdio};

/// A port of the loopback that nothing listens on.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Sends a signal to processes. Those that have ended are ignored.
fn send(signal: Signal, pids: &[u32]) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill \"$@\"", "sh", signal.option()]);
    kill.args(pids.iter().map(u32::to_string));
    let kill = kill.stdin(Stdio::null()).stderr(Stdio::null());
    kill.status().expect("a shell can be started");
}
