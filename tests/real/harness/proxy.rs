//! A TCP proxy in this process, for faults of the network.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::process::Result;

/// Carries connections to one server, until it is told otherwise. Dropping it closes all of them.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Nothing is carried; nothing is lost either: TCP would send it again.
    is_blocked: bool,
    /// The same for what the server says.
    is_mute: bool,
    /// New connections are closed at once.
    refuses: bool,
    is_over: bool,
    delay: Duration,
    open: Vec<TcpStream>,
    accepted: usize,
    refused: usize,
}

impl Proxy {
    pub fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let shared = Arc::new(Shared::default());
        let proxy = Self { address, shared: Arc::clone(&shared) };
        thread::spawn(move || shared.accept(&listener, server));
        Ok(proxy)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.shared.state.lock().unwrap().accepted
    }

    /// How many connections were closed at once.
    pub fn refused(&self) -> usize {
        self.shared.state.lock().unwrap().refused
    }

    /// Closes what is open now; new connections are carried.
    pub fn cut(&self) {
        for stream in self.shared.state.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Closes what is open, and each new connection at once, until `false`.
    pub fn refuse(&self, refuses: bool) {
        self.set(|state| state.refuses = refuses);
        if refuses {
            self.cut();
        }
    }

    /// Carries nothing, the end of a connection included, until `false`. Connections are accepted.
    pub fn blackhole(&self, is_blocked: bool) {
        self.set(|state| state.is_blocked = is_blocked);
    }

    /// Carries nothing from the server, until `false`; what is said to it arrives.
    pub fn mute(&self, is_mute: bool) {
        self.set(|state| state.is_mute = is_mute);
    }

    /// Carries everything so much later, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.set(|state| state.delay = delay);
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(|state| state.is_over = true);
        self.cut();
        let _ = TcpStream::connect(self.address); // wakes the thread that accepts
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener, server: SocketAddr) {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&self);
            {
                let mut state = self.state.lock().unwrap();
                if state.is_over {
                    return;
                }
                if state.refuses {
                    state.refused += 1;
                    continue;
                }
                state.accepted += 1;
                state.open.extend(stream.try_clone());
            }
            thread::spawn(move || shared.carry(stream, server));
        }
    }

    fn carry(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        if !self.may_pass(false) {
            return;
        }
        let Ok(server) = TcpStream::connect(server) else {
            let _ = client.shutdown(Shutdown::Both);
            return;
        };
        self.state.lock().unwrap().open.extend(server.try_clone());
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
        let shared = Arc::clone(&self);
        thread::spawn(move || shared.pump(from, to, false));
        self.pump(server, client, true);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            if !self.may_pass(is_answer) || read == 0 || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// Waits as long as nothing may pass; false when the proxy is over. `is_answer`: whether the server says it.
    fn may_pass(&self, is_answer: bool) -> bool {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut State| (state.is_blocked || is_answer && state.is_mute) && !state.is_over;
        let state = self.changed.wait_while(state, waits).unwrap();
        let (delay, is_over) = (state.delay, state.is_over);
        drop(state);
        if !is_over {
            thread::sleep(delay);
        }
        !is_over
    }
}
