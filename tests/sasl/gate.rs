//! A gate before an embedded broker that lets nothing but logins through until one is complete, as a broker's SASL
//! listener does; with the lies of a server that is none.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use downspout::protocol::*;
use downspout::testing::EmbeddedBroker;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use crate::server::{Said, Server};

/// What the gate asks for, and how it lies.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) mechanisms: Vec<&'static str>,
    /// How long a login lasts (KIP-368).
    pub(crate) lifetime: Option<Duration>,
    pub(crate) lie: Option<Lie>,
}

/// What a server may do that is no broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lie {
    /// Answers each message of the mechanism's with this instead.
    Says(&'static [u8]),
    /// Asks for so few or so many iterations.
    Iterations(u32),
    /// Is content without having proven anything.
    SkipsProof,
    /// Proves with another password.
    WrongProof,
    /// Closes at the mechanism's first message, without a word, once.
    Leaves,
    /// Declares a frame of this size in answer to the request of this key.
    Declares(i16, i32),
    /// Says nothing to the request of this key.
    IsSilent(i16),
    /// Closes when the request of this key comes.
    Closes(i16),
    /// Answers the request of this key with noise.
    Noise(i16),
}

/// What the gate has seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    /// Logins that were begun, those on open connections among them.
    pub(crate) logins: usize,
    pub(crate) refused: usize,
    /// Requests that came within a login, or before one.
    pub(crate) strays: Vec<ApiKey>,
    /// Requests that came after a login had run out.
    pub(crate) late: Vec<ApiKey>,
}

#[derive(Clone)]
pub(crate) struct Gate {
    broker: Arc<EmbeddedBroker>,
    rules: Arc<Mutex<Rules>>,
    seen: Arc<Mutex<Seen>>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub(crate) fn before(broker: &Arc<EmbeddedBroker>) -> Gate {
        let rules = Rules {
            mechanisms: vec!["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
            lifetime: None,
            lie: None,
        };
        Gate { broker: Arc::clone(broker), rules: Arc::new(Mutex::new(rules)), seen: Arc::default() }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().unwrap());
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    fn note<T>(&self, note: impl FnOnce(&mut Seen) -> T) -> T {
        note(&mut self.seen.lock().unwrap())
    }

    fn lie(&self) -> Option<Lie> {
        self.rules.lock().unwrap().lie.clone()
    }
}

impl Connector for Gate {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let upstream = self.broker.connect_in_memory(&broker.to_string());
        let stream = upstream.map(|upstream| {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            self.note(|seen| seen.connections += 1);
            let passage =
                Passage { gate: self.clone(), client: ours, upstream, login: Login::Due, ends: None };
            tokio::spawn(passage.serve());
            Box::new(theirs) as Box<dyn ByteStream>
        });
        Box::pin(std::future::ready(stream))
    }
}

enum Login {
    Due,
    UnderWay { server: Server, bare: bool },
    Done,
}

/// One connection. A request is answered before the next is read.
struct Passage {
    gate: Gate,
    client: DuplexStream,
    upstream: DuplexStream,
    login: Login,
    ends: Option<Instant>,
}

impl Passage {
    async fn serve(mut self) -> io::Result<()> {
        loop {
            let frame = read_frame(&mut self.client).await?;
            if let Login::UnderWay { bare: true, .. } = self.login {
                self.token(frame, None).await?;
                continue;
            }
            let key = i16::from_be_bytes([frame[0], frame[1]]);
            match self.gate.lie() {
                Some(Lie::IsSilent(silent)) if silent == key => {
                    sleep(Duration::from_secs(3600)).await;
                    return Ok(());
                }
                Some(Lie::Closes(closing)) if closing == key => return Ok(()),
                Some(Lie::Declares(about, size)) if about == key => {
                    self.client.write_i32(size).await?;
                    self.client.write_all(&[0; 100]).await?;
                    // The client ends it.
                    let _ = self.client.read_u8().await;
                    return Ok(());
                }
                Some(Lie::Noise(about)) if about == key => {
                    // The right correlation id, then what fits no layout.
                    let answer = [&frame[4..8], &[0xff; 30]].concat();
                    write_frame(&mut self.client, &answer).await?;
                    continue;
                }
                _ => {}
            }
            match ApiKey(key) {
                ApiKey::API_VERSIONS if !matches!(self.login, Login::UnderWay { .. }) => {
                    self.relay(&frame).await?
                }
                ApiKey::SASL_HANDSHAKE if !matches!(self.login, Login::UnderWay { .. }) => {
                    self.handshake(&frame).await?
                }
                ApiKey::SASL_AUTHENTICATE if matches!(self.login, Login::UnderWay { .. }) => {
                    let (header, request) = decode_request::<SaslAuthenticateRequest>(&frame).unwrap();
                    self.token(request.auth_bytes.0, Some(header)).await?;
                }
                key if !matches!(self.login, Login::Done) => {
                    self.gate.note(|seen| seen.strays.push(key));
                    return Ok(());
                }
                key if self.ends.is_some_and(|ends| Instant::now() >= ends) => {
                    self.gate.note(|seen| seen.late.push(key));
                    return Ok(());
                }
                _ => self.relay(&frame).await?,
            }
        }
    }

    async fn relay(&mut self, frame: &Bytes) -> io::Result<()> {
        write_frame(&mut self.upstream, frame).await?;
        let answer = read_frame(&mut self.upstream).await?;
        write_frame(&mut self.client, &answer).await
    }

    async fn handshake(&mut self, frame: &Bytes) -> io::Result<()> {
        let (header, request) = decode_request::<SaslHandshakeRequest>(frame).unwrap();
        let mechanisms: Vec<String> =
            self.gate.rules.lock().unwrap().mechanisms.iter().map(|name| name.to_string()).collect();
        let known = mechanisms.contains(&request.mechanism);
        let answer = SaslHandshakeResponse {
            error_code: if known { ErrorCode(0) } else { ErrorCode::UNSUPPORTED_SASL_MECHANISM },
            mechanisms,
        };
        self.answer::<SaslHandshakeRequest>(&answer, &header).await?;
        if !known {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.gate.note(|seen| seen.logins += 1);
        let server = Server::of(&request.mechanism, self.gate.lie());
        self.login = Login::UnderWay { server, bare: header.request_api_version == 0 };
        Ok(())
    }

    /// A message of the mechanism's; bare without a header.
    async fn token(&mut self, token: Bytes, header: Option<RequestHeader>) -> io::Result<()> {
        if self.gate.lie() == Some(Lie::Leaves) {
            self.gate.change(|rules| rules.lie = None);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Login::UnderWay { server, .. } = &mut self.login else { unreachable!() };
        let (said, is_over, refusal) = match server.heard(&token) {
            Said::Goes(answer) => (answer, false, None),
            Said::Done(answer) => (answer, true, None),
            Said::Refuses(why) => (Vec::new(), false, Some(why)),
        };
        if is_over {
            self.login = Login::Done;
        }
        let lifetime = self.gate.rules.lock().unwrap().lifetime.filter(|_| is_over);
        self.ends = lifetime.map(|lifetime| Instant::now() + lifetime);
        if refusal.is_some() {
            self.gate.note(|seen| seen.refused += 1);
        }
        match header {
            Some(header) => {
                let answer = SaslAuthenticateResponse {
                    error_code: if refusal.is_some() {
                        ErrorCode::SASL_AUTHENTICATION_FAILED
                    } else {
                        ErrorCode(0)
                    },
                    error_message: refusal.map(str::to_owned),
                    auth_bytes: said.into(),
                    session_lifetime_ms: lifetime.map_or(0, |lifetime| lifetime.as_millis() as i64),
                };
                self.answer::<SaslAuthenticateRequest>(&answer, &header).await?;
            }
            None if refusal.is_none() => write_frame(&mut self.client, &said).await?,
            None => {}
        }
        if refusal.is_some() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    async fn answer<R: Request>(&mut self, answer: &R::Response, header: &RequestHeader) -> io::Result<()> {
        let frame = encode_response::<R>(answer, header.request_api_version, header.correlation_id).unwrap();
        self.client.write_all(&frame).await
    }
}

async fn read_frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let size = stream.read_i32().await?;
    let mut frame = vec![0; size as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

async fn write_frame(stream: &mut DuplexStream, frame: &[u8]) -> io::Result<()> {
    stream.write_i32(frame.len() as i32).await?;
    stream.write_all(frame).await
}
