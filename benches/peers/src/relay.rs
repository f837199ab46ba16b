//! A relay that counts what a client receives.
//!
//! A client goes where Metadata sends it, so answers are read frame by frame, and the broker's port
//! is replaced by the relay's own in the small ones.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Metadata of a topic with a few partitions is smaller, an answer with records larger.
pub const SMALL: usize = 32 << 10;

pub struct Relay {
    pub address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Relay {
    /// Listens until this process ends.
    pub fn start(broker: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(broker) else { return };
                let _ = serve(client, upstream, broker.port(), address.port(), &count);
            }
        });
        Ok(Relay { address, received })
    }

    /// Bytes sent to clients so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

fn serve(client: TcpStream, broker: TcpStream, from: u16, to: u16, count: &Arc<AtomicU64>) -> io::Result<()> {
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let (mut requests, mut onward) = (client.try_clone()?, broker.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut requests, &mut onward);
        let _ = onward.shutdown(std::net::Shutdown::Both);
    });
    let count = Arc::clone(count);
    thread::spawn(move || {
        let _ = answers(&broker, &client, from, to, &count);
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

fn answers(
    mut broker: &TcpStream,
    mut client: &TcpStream,
    from: u16,
    to: u16,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let mut size = [0; 4];
        broker.read_exact(&mut size)?;
        client.write_all(&size)?;
        count.fetch_add(4, Ordering::Relaxed);
        let mut left = u32::from_be_bytes(size) as usize;
        if left <= SMALL {
            let frame = &mut buffer[..left];
            broker.read_exact(frame)?;
            redirect(frame, from, to);
            client.write_all(frame)?;
            count.fetch_add(left as u64, Ordering::Relaxed);
            continue;
        }
        while left > 0 {
            let room = left.min(buffer.len());
            let read = broker.read(&mut buffer[..room])?;
            if read == 0 {
                return Ok(());
            }
            client.write_all(&buffer[..read])?;
            count.fetch_add(read as u64, Ordering::Relaxed);
            left -= read;
        }
    }
}

/// In each version of Metadata the port follows the host as four bytes.
pub fn redirect(frame: &mut [u8], from: u16, to: u16) {
    let address = |port: u16| [b"127.0.0.1".as_slice(), &u32::from(port).to_be_bytes()].concat();
    let (from, to) = (address(from), address(to));
    let found: Vec<usize> =
        frame.windows(from.len()).enumerate().filter(|(_, at)| *at == from).map(|(index, _)| index).collect();
    for at in found {
        frame[at..at + to.len()].copy_from_slice(&to);
    }
}
