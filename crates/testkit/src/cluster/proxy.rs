//! A TCP proxy that cuts, delays and half-opens connections.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The addresses that a proxy connects to, in turn; one that refuses is passed over.
#[derive(Clone, Default)]
pub struct Upstream {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    turn: Arc<AtomicUsize>,
}

impl Upstream {
    /// Replaces the addresses.
    ///
    /// # Panics
    /// For an address that is none.
    pub fn set<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) {
        let addresses = addresses.into_iter();
        let parsed = addresses.map(|text| text.parse().expect("an address with a port"));
        *lock(&self.addresses) = parsed.collect();
    }

    fn connect(&self) -> Option<TcpStream> {
        let addresses = lock(&self.addresses).clone();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..addresses.len()).find_map(|nth| {
            let address = addresses[(first + nth) % addresses.len()];
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
    }
}

/// A connection through the proxy.
struct Link {
    ends: [TcpStream; 2],
    /// Bytes are swallowed, and neither side learns of the other's end.
    is_silent: AtomicBool,
}

#[derive(Default)]
struct Shared {
    links: Mutex<Vec<Arc<Link>>>,
    delay_ms: AtomicU64,
    swallows_new: AtomicBool,
    swallowed: Mutex<usize>,
    more_swallowed: Condvar,
}

/// Forwards connections from a port of its own, until it is told otherwise.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts a proxy.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start(upstream: Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (upstream, shared) = (upstream.clone(), Arc::clone(&of_thread));
                thread::spawn(move || shared.forward(client, &upstream));
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections at once.
    pub fn cut(&self) {
        for link in lock(&self.shared.links).drain(..) {
            link.close();
        }
    }

    /// Swallows everything on the present connections from now on, without ending them.
    pub fn half_open(&self) {
        for link in lock(&self.shared.links).iter() {
            link.is_silent.store(true, Ordering::SeqCst);
        }
    }

    /// The same for connections that come.
    pub fn swallow_new(&self, does: bool) {
        self.shared.swallows_new.store(does, Ordering::SeqCst);
    }

    /// Waits until this number of further connections was swallowed.
    pub fn wait_for_swallowed(&self, count: usize) {
        let swallowed = lock(&self.shared.swallowed);
        let wanted = *swallowed + count;
        let more = &self.shared.more_swallowed;
        drop(more.wait_while(swallowed, |swallowed| *swallowed < wanted));
    }

    /// Delays every piece of data in both directions.
    pub fn delay(&self, each: Duration) {
        let ms = u64::try_from(each.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_ms.store(ms, Ordering::SeqCst);
    }

    /// Forwards everything again; connections that were silenced end.
    pub fn heal(&self) {
        self.swallow_new(false);
        self.delay(Duration::ZERO);
        lock(&self.shared.links).retain(|link| {
            let is_silent = link.is_silent.load(Ordering::SeqCst);
            if is_silent {
                link.close();
            }
            !is_silent
        });
    }
}

impl Shared {
    fn forward(self: &Arc<Self>, client: TcpStream, upstream: &Upstream) {
        let Some(server) = upstream.connect() else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let link = Arc::new(Link {
            ends: [client, server],
            is_silent: AtomicBool::new(self.swallows_new.load(Ordering::SeqCst)),
        });
        lock(&self.links).push(Arc::clone(&link));
        if link.is_silent.load(Ordering::SeqCst) {
            *lock(&self.swallowed) += 1;
            self.more_swallowed.notify_all();
        }
        let (back, of_thread) = (Arc::clone(self), Arc::clone(&link));
        let (Ok(from_server), Ok(to_client)) = (to.try_clone(), from.try_clone()) else {
            return;
        };
        thread::spawn(move || back.pump(&of_thread, from_server, to_client));
        self.pump(&link, from, to);
    }

    /// Copies one direction until it ends.
    fn pump(&self, link: &Link, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes) {
            let delay = self.delay_ms.load(Ordering::SeqCst);
            if delay > 0 {
                thread::park_timeout(Duration::from_millis(delay));
            }
            if link.is_silent.load(Ordering::SeqCst) {
                if count == 0 {
                    return;
                }
                continue;
            }
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        link.close();
        lock(&self.links).retain(|other| !std::ptr::eq(Arc::as_ptr(other), link));
    }
}

impl Link {
    fn close(&self) {
        for end in &self.ends {
            // It may be closed already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
