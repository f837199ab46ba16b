//! A connection that speaks exactly the version it is told to.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use downspout::protocol::{Api, Request, decode_response, encode_request, encode_response};

use super::second_opinion::SecondOpinion;
use crate::harness::{Release, Result, wait_for};
use crate::record;

pub struct Pinned {
    stream: TcpStream,
    release: &'static Release,
    correlation_id: i32,
}

impl Pinned {
    pub fn connect(broker: SocketAddr, release: &'static Release) -> Result<Self> {
        let text = |e: std::io::Error| e.to_string();
        let stream = TcpStream::connect_timeout(&broker, Duration::from_secs(5)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(text)?;
        Ok(Self { stream, release, correlation_id: 0x7000_0000 })
    }

    /// The frame that answers, without its size.
    fn ask<R: Request>(&mut self, request: &R, version: i16) -> Result<Bytes> {
        self.correlation_id += 1;
        let sent = encode_request(request, version, self.correlation_id, "downspout-test")
            .map_err(|e| e.to_string())?;
        let mut exchange = || -> std::io::Result<Vec<u8>> {
            self.stream.write_all(&sent)?;
            let mut size = [0; 4];
            self.stream.read_exact(&mut size)?;
            let mut frame = vec![0; u32::from_be_bytes(size) as usize];
            self.stream.read_exact(&mut frame)?;
            Ok(frame)
        };
        exchange()
            .map(Bytes::from)
            .map_err(|e| format!("no answer ({e}) to {:02x?}", &sent[..sent.len().min(2048)]))
    }

    /// The decoded answer. It must be the same bytes when written again, and the same to another decoder.
    pub fn answer<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response>
    where
        R::Response: SecondOpinion + Debug,
    {
        let frame = self.ask(request, version)?;
        let hex = || format!("{:02x?}", &frame[..frame.len().min(4096)]);
        let (correlation_id, response) =
            decode_response::<R>(&frame, version).map_err(|e| format!("{e}: {}", hex()))?;
        // A fresh 0.8.2 answers FindCoordinator with 0 as long as it has no offsets topic.
        let forgetful = self.release.name.starts_with("0.8.2") && R::KEY.0 == 10 && correlation_id == 0;
        if correlation_id != self.correlation_id && !forgetful {
            return Err(format!("correlation id {correlation_id}, not {}", self.correlation_id));
        }
        let written = encode_response::<R>(&response, version, correlation_id).map_err(|e| e.to_string())?;
        if written[4..] != frame {
            return Err(format!("written again, {response:?} is {:02x?}, not {}", &written[4..], hex()));
        }
        response.compare(&frame, version).map_err(|e| format!("second opinion: {e}: {}", hex()))?;
        if let Some(api) = Api::of(R::KEY) {
            record::response(self.release, api.name, version, &frame)?;
        }
        Ok(response)
    }

    /// Asks until `accept` has something: brokers take their time with coordinators and producer ids.
    pub fn answer_when<R: Request, T>(
        &mut self,
        request: &R,
        version: i16,
        mut accept: impl FnMut(&R::Response) -> Option<T>,
    ) -> Result<T>
    where
        R::Response: SecondOpinion + Debug,
    {
        let mut last = String::new();
        wait_for(R::NAME, Duration::from_secs(20), || {
            let response = self.answer(request, version)?;
            last = format!("{response:?}");
            Ok(accept(&response))
        })
        .map_err(|e| format!("{e}; the last answer was {last}"))
    }
}
