//! The embedded broker behaves as each release does: over TCP, with nothing but the codecs.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod chaos;
mod compacting;
mod direct;
mod endless;
mod faults;
mod fetching;
mod groups;
mod in_memory;
mod leaders;
mod metadata;
mod offsets;
mod producing;
mod sessions;
mod unknown_requests;
mod waiting;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use downspout::protocol::*;
use downspout::testing::{EmbeddedBroker, Fault, Release};

fn hex(text: &str) -> Bytes {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Two messages of magic 0, 27 bytes each.
const F01: &str = "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff0000000162";
/// A batch of two records, 77 bytes.
const F12: &str = "000000000000000a000000410000000002541f3f8000000000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff000000020e000000010261000e00020201026200";
/// The same two records of producer 7 in a transaction, and the marker that aborts it.
const F23: &str = "000000000000000a00000041000000000261de474800100000000100000000000003e800000000000003e90000000000000007000000000000000000020e000000010261000e00020201026200";
const F21: &str = "000000000000000c0000004200000000023f29eeef00300000000000000000000003e800000000000003e800000000000000070000ffffffff000000012000000008000000000c00000000000300";

/// A connection that asks one thing at a time.
struct Client(TcpStream);

impl Client {
    fn to(broker: &EmbeddedBroker) -> Client {
        Client::at(broker.addr())
    }

    fn at(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Client(stream)
    }

    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).unwrap();
    }

    fn receive(&mut self) -> std::io::Result<Bytes> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size)?;
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    fn ask<R: Request>(&mut self, version: i16, request: R) -> R::Response {
        self.try_ask(version, &request).unwrap()
    }

    fn try_ask<R: Request>(&mut self, version: i16, request: &R) -> std::io::Result<R::Response> {
        self.send(&encode_request(request, version, 77, "test").unwrap());
        let (id, response) = decode_response::<R>(&self.receive()?, version).unwrap();
        assert_eq!(id, 77);
        Ok(response)
    }

    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(0) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
            Ok(_) => false,
        }
    }

    /// Nothing comes for a moment, and the connection stays open.
    fn is_silent(&mut self) -> bool {
        self.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let read = self.0.read(&mut [0]);
        self.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

fn broker(release: Release) -> EmbeddedBroker {
    EmbeddedBroker::builder().release(release).topic("t", 2).start().unwrap()
}

fn metadata_of(name: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), ..Default::default() }
}

fn fetch(partitions: &[(i32, i64)], max_bytes: i32) -> FetchRequest {
    let partitions = partitions
        .iter()
        .map(|(partition, fetch_offset)| FetchPartition {
            partition: *partition,
            fetch_offset: *fetch_offset,
            partition_max_bytes: max_bytes,
            ..Default::default()
        })
        .collect();
    let topics = vec![FetchTopic { topic: "t".to_owned(), partitions, ..Default::default() }];
    FetchRequest { max_wait_ms: 0, min_bytes: 1, topics, ..Default::default() }
}

fn records(response: &FetchResponse, partition: usize) -> &[u8] {
    response.responses[0].partitions[partition].records.as_deref().unwrap_or_default()
}
