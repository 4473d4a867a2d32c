//! A primary and a synchronous standby, each reached through a proxy.

use super::{Node, Proxy, Upstream};

/// The database that the servers share.
const DATABASE: &str = "runs";

/// Two PostgreSQL servers, of which one takes writes and the other has each of them before it is
/// acknowledged.
pub struct Pair {
    nodes: [Node; 2],
    proxies: [Proxy; 2],
    /// The number of the one that takes writes.
    primary: usize,
}

impl Pair {
    /// Starts both. `None` after a named skip where this machine has no PostgreSQL.
    ///
    /// # Panics
    /// When PostgreSQL is there and does not work.
    pub fn start() -> Option<Self> {
        let mut first = Node::create()?;
        first.start();
        first.sql(&format!("CREATE DATABASE {DATABASE}"));
        let second = Node::standby_of(&first);
        let nodes = [first, second];
        let proxies = [0, 1].map(|nth: usize| {
            let upstream = Upstream::default();
            upstream.set([format!("127.0.0.1:{}", nodes[nth].port()).as_str()]);
            Proxy::start(upstream)
        });
        let mut pair = Self {
            nodes,
            proxies,
            primary: 0,
        };
        pair.attach_standby();
        Some(pair)
    }

    /// The URL that servers use: both hosts, through the proxies.
    pub fn url(&self) -> String {
        let [first, second] = [0, 1].map(|nth: usize| self.proxies[nth].address());
        format!("postgres://runwright@{first},{second}/{DATABASE}?connect_timeout=2")
    }

    /// The URL of the primary, past the proxies.
    pub fn direct_url(&self) -> String {
        self.nodes[self.primary].url(DATABASE)
    }

    /// The proxy before the primary.
    pub fn proxy(&self) -> &Proxy {
        &self.proxies[self.primary]
    }

    /// Kills the primary and starts it again.
    pub fn crash(&mut self) {
        self.nodes[self.primary].kill();
        self.nodes[self.primary].start();
    }

    /// Kills the primary and makes the standby the primary. The killed one becomes its standby.
    pub fn fail_over(&mut self) {
        self.nodes[self.primary].kill();
        self.primary = 1 - self.primary;
        let primary = &self.nodes[self.primary];
        // The new standby does not exist yet: nothing can wait for it.
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
        primary.sql("SELECT pg_reload_conf()");
        primary.promote();
        let [first, second] = &self.nodes;
        match self.primary {
            0 => second.copy(first),
            _ => first.copy(second),
        }
        self.attach_standby();
    }

    /// Starts the standby, and returns once it has everything that was ever acknowledged.
    fn attach_standby(&mut self) {
        self.nodes[1 - self.primary].start();
        let primary = &self.nodes[self.primary];
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        let is_synchronous = "SELECT count(*) FROM pg_stat_replication
            WHERE sync_state = 'sync' AND current_setting('synchronous_standby_names') = '*'";
        while primary.sql(is_synchronous) != "1" {}
        // Positions of the log are compared as they were after the setting was in force.
        let position = primary.sql("SELECT pg_current_wal_lsn()");
        let has_it = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE flush_lsn >= '{position}'::pg_lsn"
        );
        while primary.sql(&has_it) != "1" {}
    }
}
