//! One connection against peers that follow a script, over memory and with a clock that the test
//! turns: nothing here waits for real.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use downspout::error::{ErrorKind, Speaks};
use downspout::net::{Connection, ConnectionOptions, RequestOptions};
use downspout::protocol::{
    ApiKey, ApiVersionsRequest, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic, MetadataRequest,
    MetadataResponse, Request, RequestHeader, encode_response,
};
use downspout::wire::Reader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

fn connected(buffer: usize) -> (Connection, DuplexStream) {
    let (ours, theirs) = duplex(buffer);
    (Connection::start(ours, ConnectionOptions { broker: "k1:9092".into(), ..Default::default() }), theirs)
}

async fn next_request(peer: &mut DuplexStream) -> RequestHeader {
    let size = peer.read_i32().await.unwrap();
    let mut frame = vec![0; size as usize];
    peer.read_exact(&mut frame).await.unwrap();
    RequestHeader::read(&mut Reader::new(&frame, "request")).unwrap()
}

fn metadata_answer(id: i32) -> Bytes {
    encode_response::<MetadataRequest>(&MetadataResponse::default(), 1, id).unwrap()
}

async fn answer_metadata(peer: &mut DuplexStream) -> i32 {
    let request = next_request(peer).await;
    peer.write_all(&metadata_answer(request.correlation_id)).await.unwrap();
    request.correlation_id
}

fn ask(connection: &Connection, timeout: u64) -> downspout::net::Answer<MetadataRequest> {
    let options = RequestOptions::within(Duration::from_secs(timeout));
    connection.request(&MetadataRequest::default(), 1, options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_are_pipelined_and_answered_in_order() {
    let (connection, mut peer) = connected(1 << 16);
    let answers: Vec<_> = (0..10).map(|_| ask(&connection, 10)).collect();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(next_request(&mut peer).await.correlation_id);
    }
    let all: Vec<u8> = ids.iter().flat_map(|id| metadata_answer(*id).to_vec()).collect();
    peer.write_all(&all).await.unwrap();
    for answer in answers {
        answer.await.unwrap();
    }
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn c5_case_49_a_client_id_is_always_sent() {
    let (connection, mut peer) = connected(1 << 16);
    let _answer = ask(&connection, 10);
    assert_eq!(next_request(&mut peer).await.client_id.as_deref(), Some("downspout"));
}

#[tokio::test(start_paused = true)]
async fn c1_silence_ends_in_a_time_out_that_closes_the_connection_and_fails_all() {
    let (connection, mut peer) = connected(1 << 16);
    let start = Instant::now();
    let (long, short) = (ask(&connection, 60), ask(&connection, 5));
    let error = short.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(after) if after.as_secs() == 5), "{error:?}");
    assert_eq!(error.broker(), Some("k1:9092"));
    assert_eq!(start.elapsed().as_secs(), 5);
    assert!(long.await.is_err());
    assert!(connection.is_closed());
    assert!(connection.request(&MetadataRequest::default(), 1, RequestOptions::default()).is_err());
    // Both requests, then the end.
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_meets_a_closed_connection() {
    let (connection, mut peer) = connected(1 << 16);
    let answer = ask(&connection, 1);
    let request = next_request(&mut peer).await;
    assert!(answer.await.is_err());
    let write = peer.write_all(&metadata_answer(request.correlation_id)).await;
    assert!(write.is_err() || peer.read_u8().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn case_63_an_answer_out_of_step_closes() {
    let (connection, mut peer) = connected(1 << 16);
    let (first, second) = (ask(&connection, 10), ask(&connection, 10));
    let id = next_request(&mut peer).await.correlation_id;
    peer.write_all(&metadata_answer(id + 1)).await.unwrap();
    for answer in [first, second] {
        let error = answer.await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfStep { .. }), "{error:?}");
    }
    assert!(connection.is_closed());
}

#[tokio::test(start_paused = true)]
async fn g5_s8_frames_that_cannot_be_close_at_once() {
    let table: &[(&[u8], &str)] = &[
        (&[0xff, 0xff, 0xff, 0xff], "declares -1 bytes"),
        (&[0, 0, 0, 3], "declares 3 bytes"),
        (&[0x7f, 0xff, 0xff, 0xff], "declares 2147483647 bytes"),
        (&[0x15, 3, 3, 0, 2, 2, 80], "speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"SSH-2.0-x\r\n", "speaks SSH"),
        (b"Zookeeper version: 3.5.10", "speaks ZooKeeper"),
    ];
    for (bytes, says) in table {
        let (connection, mut peer) = connected(1 << 16);
        let answer = ask(&connection, 10);
        peer.write_all(bytes).await.unwrap();
        let error = answer.await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(connection.is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn gap_15_what_the_peer_said_before_it_closed_is_heard() {
    let (ours, mut peer) = duplex(1 << 16);
    peer.write_all(&[0x15, 3, 1, 0, 2, 2, 40]).await.unwrap();
    drop(peer);
    let connection = Connection::start(ours, ConnectionOptions::default());
    sleep(Duration::from_millis(1)).await;
    // The connection ended before anything was asked; what it heard is what it tells.
    let error = connection.closed().await;
    assert!(matches!(error.kind(), ErrorKind::WrongProtocol(Speaks::Tls)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_cut_by_a_close_is_a_closed_connection() {
    let whole = metadata_answer(1);
    for cut in 0..whole.len() {
        let (connection, mut peer) = connected(1 << 16);
        let answer = ask(&connection, 10);
        next_request(&mut peer).await;
        peer.write_all(&whole[..cut]).await.unwrap();
        drop(peer);
        let error = answer.await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Closed), "cut at {cut}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_may_come_one_by_one_and_the_pipe_may_be_narrow() {
    let (connection, mut peer) = connected(1);
    let answers: Vec<_> = (0..3).map(|_| ask(&connection, 10)).collect();
    let peer = tokio::spawn(async move {
        for _ in 0..3 {
            answer_metadata(&mut peer).await;
        }
    });
    for answer in answers {
        answer.await.unwrap();
    }
    peer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn c7_a_request_may_be_dropped_at_every_point() {
    // Let the request get as far as `polls` turns of the scheduler, then drop it. What comes after
    // must work, whether or not the dropped one was sent, half sent, or answered.
    for buffer in [1, 7, 1 << 16] {
        for polls in 0..200 {
            let (connection, mut peer) = connected(buffer);
            let peer = tokio::spawn(async move {
                let mut ids = Vec::new();
                while let Ok(size) = peer.read_i32().await {
                    let mut frame = vec![0; size as usize];
                    peer.read_exact(&mut frame).await.unwrap();
                    let header = RequestHeader::read(&mut Reader::new(&frame, "request")).unwrap();
                    if peer.write_all(&metadata_answer(header.correlation_id)).await.is_err() {
                        break;
                    }
                    ids.push(header.correlation_id);
                }
                ids
            });
            {
                let mut dropped = pin!(ask(&connection, 10));
                let mut done = false;
                for _ in 0..polls {
                    let mut context = Context::from_waker(Waker::noop());
                    done = done || dropped.as_mut().poll(&mut context).is_ready();
                    tokio::task::yield_now().await;
                }
            }
            ask(&connection, 10).await.unwrap_or_else(|why| panic!("after {polls} polls: {why}"));
            ask(&connection, 10).await.unwrap();
            drop(connection);
            let ids = peer.await.unwrap();
            assert!((2..=3).contains(&ids.len()), "{ids:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c7_dropped_requests_do_not_pile_up() {
    let (connection, mut peer) = connected(1 << 16);
    for _ in 0..1000 {
        drop(ask(&connection, 10));
        tokio::task::yield_now().await;
    }
    let answer = ask(&connection, 10);
    // The dropped ones had no time to be sent, or are answered like any other.
    let peer = tokio::spawn(async move { while answer_metadata(&mut peer).await > 0 {} });
    answer.await.unwrap();
    peer.abort();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_never_waits_is_stopped_before_memory_is_full() {
    let (connection, _peer) = connected(64);
    let mut answers = Vec::new();
    let error = loop {
        match connection.request(&MetadataRequest::default(), 1, RequestOptions::default()) {
            Ok(answer) => answers.push(answer),
            Err(why) => break why,
        }
        assert!(answers.len() < 10_000);
    };
    assert!(matches!(error.kind(), ErrorKind::TooManyInFlight(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_stream_closes_when_the_last_handle_goes() {
    let (connection, mut peer) = connected(1 << 16);
    let other = connection.clone();
    drop(connection);
    let answer = ask(&other, 10);
    answer_metadata(&mut peer).await;
    answer.await.unwrap();
    drop(other);
    assert_eq!(peer.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test(start_paused = true)]
async fn an_answer_outlives_the_handles() {
    let (connection, mut peer) = connected(1 << 16);
    let answer = ask(&connection, 10);
    drop(connection);
    answer_metadata(&mut peer).await;
    answer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_waiting_means_no_waiting() {
    let (connection, mut peer) = connected(1 << 16);
    let answer = ask(&connection, 600);
    next_request(&mut peer).await;
    let start = Instant::now();
    drop(connection);
    drop(answer);
    assert!(peer.read_u8().await.is_err());
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn c6_a_throttled_connection_holds_its_requests_back() {
    let (connection, mut peer) = connected(1 << 16);
    let throttled = MetadataResponse { throttle_time_ms: 2_000, ..Default::default() };
    let options = || RequestOptions::within(Duration::from_secs(1));
    let first = connection.request(&MetadataRequest::default(), 6, options()).unwrap();
    let id = next_request(&mut peer).await.correlation_id;
    peer.write_all(&encode_response::<MetadataRequest>(&throttled, 6, id).unwrap()).await.unwrap();
    first.await.unwrap();
    let start = Instant::now();
    let second = connection.request(&MetadataRequest::default(), 6, RequestOptions::default()).unwrap();
    let id = next_request(&mut peer).await.correlation_id;
    assert_eq!(start.elapsed().as_millis() / 10, 200, "sent when the two seconds were over");
    peer.write_all(&encode_response::<MetadataRequest>(&MetadataResponse::default(), 6, id).unwrap())
        .await
        .unwrap();
    second.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn records_are_slices_of_one_buffer_and_hold_its_permit() {
    struct Permit(std::sync::Arc<()>);
    let (connection, mut peer) = connected(1 << 20);
    let records = |byte: u8| Some(Bytes::from(vec![byte; 300_000]));
    let partition = |partition_index, byte| FetchedPartition {
        partition_index,
        records: records(byte),
        ..FetchedPartition::default()
    };
    let response = FetchResponse {
        responses: vec![FetchedTopic {
            topic: "t".into(),
            partitions: vec![partition(0, 7), partition(1, 8)],
            ..FetchedTopic::default()
        }],
        ..FetchResponse::default()
    };
    let budget = std::sync::Arc::new(());
    let options = RequestOptions {
        timeout: None,
        asked: 600_000,
        permit: Some(Box::new(Permit(std::sync::Arc::clone(&budget)))),
    };
    let answer = connection.request(&FetchRequest::default(), 11, options).unwrap();
    let peer = tokio::spawn(async move {
        let id = next_request(&mut peer).await.correlation_id;
        peer.write_all(&encode_response::<FetchRequest>(&response, 11, id).unwrap()).await.unwrap();
    });
    let mut fetched = answer.await.unwrap();
    peer.await.unwrap();
    let partitions = fetched.responses.remove(0).partitions;
    let (first, second) = (partitions[0].records.clone().unwrap(), partitions[1].records.clone().unwrap());
    drop((partitions, fetched));
    assert_eq!((first, second.len()), (records(7).unwrap(), 300_000));
    assert_eq!(std::sync::Arc::strong_count(&budget), 2, "one slice is left");
    drop(second);
    assert_eq!(std::sync::Arc::strong_count(&budget), 1, "refunded with the last slice");
    let _ = Permit(budget).0;
}

#[tokio::test(start_paused = true)]
async fn a_raw_request_gets_a_correlation_id_of_its_own() {
    let (connection, mut peer) = connected(1 << 16);
    let request = [0, 3, 0, 1, 9, 9, 9, 9, 0, 1, b'x', 0xff, 0xff, 0xff, 0xff];
    let answer = connection.request_raw(ApiKey::METADATA, 1, &request, Duration::from_secs(1)).unwrap();
    let header = next_request(&mut peer).await;
    assert_ne!(header.correlation_id, 0x0909_0909);
    assert_eq!(header.client_id.as_deref(), Some("x"));
    let frame = metadata_answer(header.correlation_id);
    peer.write_all(&frame).await.unwrap();
    assert_eq!(answer.await.unwrap(), frame.slice(4..));
    assert!(connection.request_raw(ApiKey::METADATA, 1, &[0, 3], Duration::from_secs(1)).is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_its_layout_names_the_field_and_spares_the_connection() {
    let (connection, mut peer) = connected(1 << 16);
    let bad = ask(&connection, 10);
    let id = next_request(&mut peer).await.correlation_id;
    peer.write_all(&[0, 0, 0, 6]).await.unwrap();
    peer.write_all(&id.to_be_bytes()).await.unwrap();
    peer.write_all(&[0, 0]).await.unwrap();
    let error = bad.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Decode(why) if why.field == "brokers"), "{error:?}");
    assert_eq!(error.api(), Some((ApiKey::METADATA, 1)));
    let good = ask(&connection, 10);
    answer_metadata(&mut peer).await;
    good.await.unwrap();
}

#[test]
fn a_request_of_a_version_that_does_not_exist_is_the_callers_fault() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (connection, _peer) = connected(64);
        let newest = ApiVersionsRequest::VERSIONS.max;
        let answer =
            connection.request(&ApiVersionsRequest::default(), newest + 1, RequestOptions::default());
        assert!(matches!(answer.unwrap_err().kind(), ErrorKind::Encode(_)));
    });
}

#[test]
fn the_futures_can_move_between_threads() {
    fn sendable<T: Send>(_: &T) {}
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (connection, _peer) = connected(64);
        let answer = ask(&connection, 1);
        sendable(&answer);
        sendable(&connection);
        let _ = Poll::Ready(());
    });
}
