//! Just enough of the protocol to know that a broker serves: Metadata v0, written by hand so that the harness does
//! not rest on the code under test. Every broker from 0.8.0 to 4.4 answers it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Metadata {
    pub brokers: Vec<i32>,
    pub topics: Vec<Topic>,
}

#[derive(Debug)]
pub struct Topic {
    pub name: String,
    pub error: i16,
    /// Id and leader.
    pub partitions: Vec<(i32, i32)>,
}

/// All topics. Any failure is a text: the broker is not ready, or gone.
pub fn metadata(broker: SocketAddr) -> Result<Metadata, String> {
    let text = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect_timeout(&broker, Duration::from_secs(1)).map_err(text)?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).map_err(text)?;
    stream.set_write_timeout(Some(Duration::from_secs(2))).map_err(text)?;
    // size, key 3, version 0, correlation id 7, client id "test", no topic names = all topics
    stream
        .write_all(&[0, 0, 0, 18, 0, 3, 0, 0, 0, 0, 0, 7, 0, 4, b't', b'e', b's', b't', 0, 0, 0, 0])
        .map_err(text)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size).map_err(text)?;
    let size = usize::try_from(i32::from_be_bytes(size)).ok().filter(|&n| n < 1 << 20).ok_or("odd size")?;
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame).map_err(text)?;
    decode(&frame).ok_or_else(|| format!("not a Metadata v0 answer: {frame:02x?}"))
}

fn decode(frame: &[u8]) -> Option<Metadata> {
    let mut rest = frame;
    let mut found = Metadata::default();
    (int(&mut rest)? == 7).then_some(())?;
    for _ in 0..int(&mut rest)? {
        found.brokers.push(int(&mut rest)?);
        string(&mut rest)?;
        int(&mut rest)?; // port
    }
    for _ in 0..int(&mut rest)? {
        let error = short(&mut rest)?;
        let name = string(&mut rest)?;
        let mut partitions = Vec::new();
        for _ in 0..int(&mut rest)? {
            short(&mut rest)?; // its error
            partitions.push((int(&mut rest)?, int(&mut rest)?));
            for _lists in 0..2 {
                for _ in 0..int(&mut rest)? {
                    int(&mut rest)?; // a replica
                }
            }
        }
        found.topics.push(Topic { name, error, partitions });
    }
    rest.is_empty().then_some(found)
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i32::from_be_bytes(*head))
}

fn short(rest: &mut &[u8]) -> Option<i16> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i16::from_be_bytes(*head))
}

fn string(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(short(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    String::from_utf8(head.to_vec()).ok()
}
