//! Which versions a broker speaks, found out from scripted brokers of every age and state, over
//! memory and with a clock that the test turns.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use downspout::error::{ErrorKind, Retry, Speaks};
use downspout::net::{
    BrokerAddress, BrokerVersions, ConnectWith, Dialer, LegacyRelease, RequestOptions, VersionSource,
};
use downspout::protocol::{
    ApiKey, ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, MetadataRequest,
    MetadataResponse, RequestHeader, encode_response,
};
use downspout::wire::Reader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    V0_8_0,
    V0_8_1,
    V0_8_2,
    V0_9,
    /// With the fix of KAFKA-3088, as some vendors had it.
    V0_9Fixed,
    V0_10,
    V2_4,
    V4_4,
}

/// What every connection of a scripted broker meets.
#[derive(Clone)]
struct Script {
    age: Age,
    /// Until then connections are taken and nothing is answered.
    frozen_until: Option<Instant>,
    seen: Arc<Mutex<Vec<(i16, i16)>>>,
    connections: Arc<AtomicUsize>,
}

enum Reply {
    Frame(Vec<u8>),
    Close,
    Stall,
}

impl Script {
    fn of(age: Age) -> Self {
        Script { age, frozen_until: None, seen: Arc::default(), connections: Arc::default() }
    }

    fn dialer(&self) -> Dialer {
        let script = self.clone();
        Dialer::default().connector(Arc::new(ConnectWith(move |_: &BrokerAddress| {
            script.connections.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = duplex(1 << 16);
            tokio::spawn(script.clone().serve(theirs));
            io::Result::Ok(ours)
        })))
    }

    async fn serve(self, mut stream: DuplexStream) {
        while let Ok(size) = stream.read_i32().await {
            if !(0..100_000_000).contains(&size) {
                return;
            }
            let mut frame = vec![0; size as usize];
            if stream.read_exact(&mut frame).await.is_err() {
                return;
            }
            if let Some(until) = self.frozen_until {
                sleep_until(until).await;
            }
            let header = RequestHeader::read(&mut Reader::new(&frame, "request")).unwrap();
            self.seen.lock().unwrap().push((header.request_api_key.0, header.request_api_version));
            match self.reply(&header) {
                Reply::Frame(frame) => {
                    if stream.write_all(&frame).await.is_err() {
                        return;
                    }
                }
                Reply::Close => return,
                Reply::Stall => std::future::pending().await,
            }
        }
    }

    fn reply(&self, header: &RequestHeader) -> Reply {
        let id = header.correlation_id;
        let plain = |body: &[u8]| {
            let size = 4 + body.len() as i32;
            Reply::Frame([&size.to_be_bytes(), &id.to_be_bytes(), body].concat())
        };
        let unknown = if self.age == Age::V0_9 { Reply::Stall } else { Reply::Close };
        match (header.request_api_key.0, header.request_api_version) {
            (2, 0) if self.age < Age::V4_4 => plain(&[0; 4]),
            (3, version) => {
                let answer = encode_response::<MetadataRequest>(&MetadataResponse::default(), version, id);
                Reply::Frame(answer.unwrap().to_vec())
            }
            (8, version) => match self.age {
                Age::V0_8_0 => Reply::Close,
                Age::V0_8_2 if version > 1 => Reply::Close,
                _ => plain(&[0; 4]),
            },
            (9, 0) if self.age > Age::V0_8_0 && self.age < Age::V4_4 => plain(&[0; 4]),
            (16, 0) if self.age >= Age::V0_9 => plain(&[0; 6]),
            (18, version) => self.versions(version, id, unknown),
            _ => unknown,
        }
    }

    fn versions(&self, version: i16, id: i32, unknown: Reply) -> Reply {
        let max = match self.age {
            Age::V0_10 => 0,
            Age::V2_4 => 3,
            Age::V4_4 => 5,
            _ => return unknown,
        };
        let range = |api_key, min_version, max_version| ApiVersionRange { api_key, min_version, max_version };
        let (layout, response) = if version > max {
            let api_keys = if self.age == Age::V0_10 { vec![] } else { vec![range(18, 0, max)] };
            let code = downspout::protocol::ErrorCode(35);
            (0, ApiVersionsResponse { error_code: code, api_keys, ..Default::default() })
        } else {
            let api_keys = match self.age {
                Age::V0_10 => vec![range(1, 0, 2), range(3, 0, 1), range(18, 0, 0)],
                Age::V2_4 => vec![range(1, 0, 11), range(3, 0, 9), range(18, 0, 3)],
                _ => vec![range(0, 0, 13), range(1, 4, 18), range(3, 0, 13), range(18, 0, 5)],
            };
            (version, ApiVersionsResponse { api_keys, ..Default::default() })
        };
        let frame = encode_response::<ApiVersionsRequest>(&response, layout, id);
        Reply::Frame(frame.unwrap().to_vec())
    }

    fn asked(&self, key: i16) -> Vec<i16> {
        self.seen.lock().unwrap().iter().filter(|(asked, _)| *asked == key).map(|(_, v)| *v).collect()
    }
}

impl PartialOrd for Age {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some((*self as u8).cmp(&(*other as u8)))
    }
}

fn broker() -> BrokerAddress {
    BrokerAddress::new("k1", 9092)
}

async fn versions_of(dialer: &Dialer) -> BrokerVersions {
    dialer.dial(&broker()).await.unwrap().versions().unwrap().as_ref().clone()
}

#[tokio::test(start_paused = true)]
async fn case_44_brokers_of_every_age_tell_their_versions() {
    let table: &[(Age, &[i16], i16, i16)] =
        &[(Age::V0_10, &[5, 0], 2, 1), (Age::V2_4, &[5, 3], 11, 9), (Age::V4_4, &[5], 18, 13)];
    for (age, asked, fetch, metadata) in table {
        let script = Script::of(*age);
        let versions = versions_of(&script.dialer()).await;
        assert_eq!(versions.source(), VersionSource::Advertised);
        assert_eq!(versions.choose::<FetchRequest>().unwrap(), *fetch, "{age:?}");
        assert_eq!(versions.choose::<MetadataRequest>().unwrap(), *metadata, "{age:?}");
        assert_eq!(script.asked(18), *asked);
        assert_eq!(script.connections.load(Ordering::Relaxed), 1, "all of it on one connection");
    }
}

#[tokio::test(start_paused = true)]
async fn b1_b4_case_46_brokers_that_cannot_tell_are_recognised_in_seconds() {
    let table = [
        (Age::V0_8_0, LegacyRelease::V0_8_0, 0),
        (Age::V0_8_1, LegacyRelease::V0_8_1, 0),
        (Age::V0_8_2, LegacyRelease::V0_8_2, 0),
        (Age::V0_9, LegacyRelease::V0_9, 3),
        (Age::V0_9Fixed, LegacyRelease::V0_9, 0),
    ];
    for (age, release, seconds) in table {
        let script = Script::of(age);
        let dialer = script.dialer();
        let start = Instant::now();
        assert_eq!(versions_of(&dialer).await.source(), VersionSource::Detected(release), "{age:?}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{age:?}");
        assert_eq!(script.asked(18).len(), 2, "ApiVersions fails twice before a verdict");
        assert_eq!(script.asked(10).len(), 0, "FindCoordinator would create the offsets topic");
        assert!(script.asked(1).is_empty(), "0.8 and 0.9 misread unknown versions of Fetch");

        // Remembered for five minutes, then asked again.
        let again = Instant::now();
        versions_of(&dialer).await;
        assert_eq!((script.asked(18).len(), again.elapsed().as_secs()), (2, 0));
        tokio::time::advance(Duration::from_secs(301)).await;
        versions_of(&dialer).await;
        assert_eq!(script.asked(18).len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn the_connection_after_a_verdict_works() {
    for age in [Age::V0_8_0, Age::V0_8_2, Age::V0_9] {
        let connection = Script::of(age).dialer().dial(&broker()).await.unwrap();
        let version = connection.versions().unwrap().choose::<MetadataRequest>().unwrap();
        let answer = connection.request(&MetadataRequest::default(), version, RequestOptions::default());
        answer.unwrap().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_frozen_for_a_while_is_never_taken_for_an_old_one() {
    for frozen in (0..9_800).step_by(70) {
        let mut script = Script::of(Age::V4_4);
        script.frozen_until = Some(Instant::now() + Duration::from_millis(frozen));
        let versions = versions_of(&script.dialer()).await;
        assert_eq!(versions.source(), VersionSource::Advertised, "frozen for {frozen} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_stays_frozen_is_named_unresponsive_and_worth_a_retry() {
    for age in [Age::V0_8_0, Age::V0_9, Age::V4_4] {
        let mut script = Script::of(age);
        script.frozen_until = Some(Instant::now() + Duration::from_secs(1000));
        let start = Instant::now();
        let error = script.dialer().dial(&broker()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unresponsive(_)), "{age:?}: {error}");
        assert_eq!((error.retry(), start.elapsed().as_secs()), (Retry::Again, 10));
    }
}

#[tokio::test(start_paused = true)]
async fn no_verdict_lately_after_a_broker_of_the_cluster_has_told_its_versions() {
    let modern = Script::of(Age::V4_4);
    let old = Script::of(Age::V0_9);
    let (a, b) = (modern.clone(), old.clone());
    let dialer = Dialer::default().connector(Arc::new(ConnectWith(move |broker: &BrokerAddress| {
        let (ours, theirs) = duplex(1 << 16);
        let script = if broker.host == "k1" { a.clone() } else { b.clone() };
        tokio::spawn(script.serve(theirs));
        io::Result::Ok(ours)
    })));
    dialer.dial(&broker()).await.unwrap();
    let other = BrokerAddress::new("k2", 9092);
    let error = dialer.dial(&other).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unresponsive(_)), "{error}");
    tokio::time::advance(Duration::from_secs(601)).await;
    let versions = dialer.dial(&other).await.unwrap();
    assert_eq!(versions.versions().unwrap().source(), VersionSource::Detected(LegacyRelease::V0_9));
}

#[tokio::test(start_paused = true)]
async fn b2_case_50_versions_are_asked_on_every_connection() {
    let age = Arc::new(Mutex::new(Age::V4_4));
    let current = Arc::clone(&age);
    let dialer = Dialer::default().connector(Arc::new(ConnectWith(move |_: &BrokerAddress| {
        let (ours, theirs) = duplex(1 << 16);
        tokio::spawn(Script::of(*current.lock().unwrap()).serve(theirs));
        io::Result::Ok(ours)
    })));
    assert_eq!(versions_of(&dialer).await.choose::<FetchRequest>().unwrap(), 18);
    *age.lock().unwrap() = Age::V2_4;
    assert_eq!(versions_of(&dialer).await.choose::<FetchRequest>().unwrap(), 11);
}

#[tokio::test(start_paused = true)]
async fn an_assumed_release_is_not_probed() {
    let script = Script::of(Age::V0_8_2);
    let dialer = script.dialer().assume_release(LegacyRelease::V0_8_2);
    let versions = versions_of(&dialer).await;
    assert_eq!(versions.source(), VersionSource::Configured(LegacyRelease::V0_8_2));
    assert_eq!(versions.range(ApiKey(10)).map(|range| range.max), Some(0));
    assert!(script.seen.lock().unwrap().is_empty());
}

/// A port that answers `question` (or anything, if it is empty) with `answer`, and closes else.
fn port(question: &'static [u8], answer: &'static [u8]) -> Dialer {
    Dialer::default().connector(Arc::new(ConnectWith(move |_: &BrokerAddress| {
        let (ours, mut theirs) = duplex(1 << 16);
        tokio::spawn(async move {
            let mut asked = vec![0; question.len().max(4)];
            if theirs.read_exact(&mut asked).await.is_ok() && asked.starts_with(question) {
                let _ = theirs.write_all(answer).await;
            }
        });
        io::Result::Ok(ours)
    })))
}

#[tokio::test(start_paused = true)]
async fn s8_s9_gap_15_what_listens_there_is_named_though_it_only_closes_on_kafka() {
    let table: [(&[u8], &[u8], Speaks); 7] = [
        // At once, on the first request.
        (b"", &[0x15, 3, 3, 0, 2, 2, 80], Speaks::Tls),
        (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", Speaks::Http),
        // Only when asked in its own language.
        (&[0x16, 3, 1], &[0x15, 3, 3, 0, 2, 2, 40], Speaks::Tls),
        (&[0x16, 3, 1], &[0x16, 3, 3, 0, 0x7a, 2, 0, 0, 0x76], Speaks::Tls),
        (b"srvr", b"Zookeeper version: 3.5.10-abc", Speaks::ZooKeeper),
        (b"GET ", b"HTTP/1.0 404 Not Found\r\n", Speaks::Http),
        (b"nothing that anyone would ask", b"", Speaks::Nothing),
    ];
    for (question, answer, speaks) in table {
        let error = port(question, answer).dial(&broker()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongProtocol(found) if *found == speaks), "{error:?}");
        assert_eq!(error.broker(), Some("k1:9092"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_that_refuses_says_so() {
    let dialer = Dialer::default().connector(Arc::new(ConnectWith(|_: &BrokerAddress| {
        io::Result::<DuplexStream>::Err(io::ErrorKind::ConnectionRefused.into())
    })));
    let error = dialer.dial(&broker()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect(_)), "{error:?}");
    assert_eq!(error.retry(), Retry::Again);
}

#[test]
fn case_49_an_empty_client_id_is_refused() {
    assert!(Dialer::default().client_id("").is_err());
    assert!(Dialer::default().client_id("billing").is_ok());
}
