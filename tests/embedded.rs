//! The embedded broker behaves as each release does: over TCP, with nothing but the codecs.

#![cfg(feature = "testing")]

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

mod unknown_requests {
    use super::*;

    #[test]
    fn api_versions_closes_the_connection_on_0_8() {
        for release in [Release::V0_8_0, Release::V0_8_1, Release::V0_8_2] {
            let broker = broker(release);
            let mut client = Client::to(&broker);
            client.send(&encode_request(&ApiVersionsRequest::default(), 0, 1, "test").unwrap());
            assert!(client.is_closed(), "{release}");
        }
    }

    #[test]
    fn api_versions_is_never_answered_by_0_9_but_what_follows_is() {
        let broker = broker(Release::V0_9_0);
        let mut client = Client::to(&broker);
        client.send(&encode_request(&ApiVersionsRequest::default(), 0, 1, "test").unwrap());
        assert!(client.is_silent());
        assert_eq!(client.ask(0, metadata_of("t")).topics.len(), 1);
    }

    #[test]
    fn every_later_release_lists_what_it_speaks() {
        for release in Release::ALL.iter().copied().filter(|release| *release >= Release::V0_10_0) {
            let broker = broker(release);
            let listed = Client::to(&broker).ask(0, ApiVersionsRequest::default());
            let listed: Vec<_> =
                listed.api_keys.iter().map(|it| (it.api_key, it.min_version, it.max_version)).collect();
            let table: Vec<_> =
                release.apis().iter().map(|(key, known)| (key.0, known.min, known.max)).collect();
            assert_eq!(listed, table, "{release}");
        }
    }

    #[test]
    fn kip_511_error_35_comes_in_layout_0_and_names_the_range_since_2_4() {
        let ask = |release| {
            let broker = broker(release);
            let mut client = Client::to(&broker);
            client.send(&encode_request(&ApiVersionsRequest::default(), 5, 77, "test").unwrap());
            decode_response::<ApiVersionsRequest>(&client.receive().unwrap(), 0).unwrap().1
        };
        let old = ask(Release::V2_1);
        assert_eq!((old.error_code, old.api_keys.len()), (ErrorCode(35), 0));
        let new = ask(Release::V2_4);
        assert_eq!(new.error_code, ErrorCode(35));
        assert_eq!((new.api_keys[0].api_key, new.api_keys[0].max_version), (18, 3));
    }

    #[test]
    fn kip_511_a_software_name_with_other_characters_is_refused() {
        let broker = broker(Release::V4_4);
        let request = |name: &str| ApiVersionsRequest {
            client_software_name: name.to_owned(),
            client_software_version: "1.0".to_owned(),
            ..Default::default()
        };
        assert_eq!(Client::to(&broker).ask(3, request("down spout")).error_code, ErrorCode(42));
        assert_eq!(Client::to(&broker).ask(3, request("downspout")).error_code, ErrorCode(0));
    }

    #[test]
    fn a_version_that_the_release_lacks_closes_the_connection() {
        let broker = broker(Release::V2_1);
        let mut client = Client::to(&broker);
        client.send(&encode_request(&fetch(&[(0, 0)], 100), 11, 1, "test").unwrap());
        assert!(client.is_closed());
    }

    #[test]
    fn versions_of_the_oldest_apis_are_not_checked_before_0_10() {
        let broker = broker(Release::V0_8_2);
        broker.append("t", 0, &hex(F01)).unwrap();
        let mut client = Client::to(&broker);
        client.send(&encode_request(&fetch(&[(0, 0)], 100), 2, 1, "test").unwrap());
        let (_, answer) = decode_response::<FetchRequest>(&client.receive().unwrap(), 0).unwrap();
        assert_eq!(records(&answer, 0).len(), 54);
    }

    #[test]
    fn what_is_no_request_closes_the_connection() {
        let broker = broker(Release::V4_4);
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 8], &[0xff; 8], &[0, 0, 0, 1, 0]] {
            let mut client = Client::to(&broker);
            client.send(bytes);
            assert!(client.is_closed(), "{bytes:?}");
        }
    }
}

mod metadata {
    use super::*;

    #[test]
    fn version_0_works_on_every_release() {
        for release in Release::ALL {
            let broker = broker(*release);
            let answer = Client::to(&broker).ask(0, MetadataRequest::default());
            let address = format!("{}:{}", answer.brokers[0].host, answer.brokers[0].port);
            assert_eq!(address, broker.addr(), "{release}");
            assert_eq!(answer.topics[0].partitions.len(), 2, "{release}");
            assert_eq!(answer.topics[0].partitions[0].leader_id, 1, "{release}");
        }
    }

    #[test]
    fn an_empty_list_asks_for_all_topics_in_version_0_and_for_none_later() {
        let broker = broker(Release::V1_1);
        let mut client = Client::to(&broker);
        assert_eq!(client.ask(0, MetadataRequest::default()).topics.len(), 1);
        assert_eq!(client.ask(1, MetadataRequest::default()).topics.len(), 0);
        assert_eq!(client.ask(1, MetadataRequest { topics: None, ..Default::default() }).topics.len(), 1);
    }

    #[test]
    fn the_first_two_releases_list_only_brokers_with_a_part_in_the_topics() {
        for (release, listed) in [(Release::V0_8_0, 0), (Release::V0_8_1, 0), (Release::V0_8_2, 1)] {
            let broker = EmbeddedBroker::builder().release(release).start().unwrap();
            let answer = Client::to(&broker).ask(0, MetadataRequest::default());
            assert_eq!(answer.brokers.len(), listed, "{release}");
        }
    }

    #[test]
    fn asking_creates_a_topic_where_the_broker_allows_it() {
        for (release, first) in [(Release::V0_8_0, 5), (Release::V2_8, 5), (Release::V4_4, 3)] {
            let broker = broker(release);
            let mut client = Client::to(&broker);
            let topic = &client.ask(0, metadata_of("new")).topics[0];
            assert_eq!((topic.error_code, topic.partitions.len()), (ErrorCode(first), 0), "{release}");
            let topic = &client.ask(0, metadata_of("new")).topics[0];
            assert_eq!((topic.error_code, topic.partitions.len()), (ErrorCode(0), 1), "{release}");
        }
    }

    #[test]
    fn nothing_is_created_when_broker_or_client_say_no() {
        let forbidding =
            EmbeddedBroker::builder().release(Release::V0_8_2).auto_create_topics(false).start().unwrap();
        let willing = broker(Release::V0_11_0);
        let refusing = MetadataRequest { allow_auto_topic_creation: false, ..metadata_of("new") };
        for _ in 0..2 {
            let answer = Client::to(&forbidding).ask(0, metadata_of("new"));
            assert_eq!(answer.topics[0].error_code, ErrorCode(3));
            assert_eq!(Client::to(&willing).ask(4, refusing.clone()).topics[0].error_code, ErrorCode(3));
        }
        assert_eq!(Client::to(&willing).ask(0, metadata_of("a b")).topics[0].error_code, ErrorCode(17));
    }

    #[test]
    fn kip_516_a_topic_has_an_id_since_2_8_and_can_be_asked_for_by_it() {
        let old = Client::to(&broker(Release::V2_4)).ask(9, metadata_of("t"));
        assert!(old.topics[0].topic_id.is_zero());
        let broker = broker(Release::V4_4);
        let mut client = Client::to(&broker);
        let id = client.ask(12, metadata_of("t")).topics[0].topic_id;
        let by_id = |topic_id| MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { topic_id, name: None }]),
            ..Default::default()
        };
        assert_eq!(client.ask(12, by_id(id)).topics[0].name.as_deref(), Some("t"));
        broker.create_topic("t", 2);
        assert_eq!(client.ask(12, by_id(id)).topics[0].error_code, ErrorCode(100));
        assert_ne!(client.ask(12, metadata_of("t")).topics[0].topic_id, id);
    }

    #[test]
    fn a_broker_that_goes_down_hands_its_partitions_on() {
        let broker =
            EmbeddedBroker::builder().release(Release::V1_1).brokers(3).topic("t", 3).start().unwrap();
        let leaders = |client: &mut Client| {
            let answer = client.ask(1, metadata_of("t"));
            let leaders = answer.topics[0].partitions.iter().map(|it| it.leader_id).collect::<Vec<_>>();
            (answer.brokers.len(), leaders)
        };
        let mut client = Client::to(&broker);
        let mut doomed = Client::at(&broker.addrs()[1]);
        assert_eq!(leaders(&mut doomed), (3, vec![1, 2, 3]));
        broker.with(|cluster| cluster.stop_broker(2));
        assert!(doomed.is_closed());
        assert!(Client::at(&broker.addrs()[1]).is_closed());
        assert_eq!(leaders(&mut client), (2, vec![1, 3, 3]));
        broker.with(|cluster| cluster.start_broker(2));
        assert_eq!(leaders(&mut Client::at(&broker.addrs()[1])).0, 3);
    }
}

mod fetching {
    use super::*;

    fn newest_version(release: Release) -> i16 {
        let apis = release.apis();
        apis.iter().find(|(key, _)| *key == ApiKey::FETCH).map_or(0, |(_, versions)| versions.max)
    }

    #[test]
    fn every_release_returns_what_was_stored_byte_for_byte() {
        for release in Release::ALL.iter().copied() {
            let broker = broker(release);
            let set = hex(F01);
            broker
                .with(|cluster| cluster.reset_log("t", 0, 10).and_then(|()| cluster.store("t", 0, &set)))
                .unwrap();
            let version = newest_version(release);
            let mut client = Client::to(&broker);
            let mut request = fetch(&[(0, 10)], 1_000);
            if version >= 13 {
                request.topics[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
            }
            let answer = client.ask(version, request);
            assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(0), "{release}");
            assert_eq!(answer.responses[0].partitions[0].high_watermark, 12, "{release}");
            assert_eq!(records(&answer, 0), &set, "{release}");
        }
    }

    #[test]
    fn appended_batches_get_the_next_offsets_and_the_leader_epoch() {
        let broker = broker(Release::V4_4);
        assert_eq!(broker.append("t", 0, &hex(F12)), Ok(0));
        assert_eq!(broker.append("t", 0, &hex(F12)), Ok(2));
        let answer = Client::to(&broker).ask(12, fetch(&[(0, 3)], 1_000));
        assert_eq!(records(&answer, 0)[..8], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(records(&answer, 0)[8..], hex(F12)[8..]);
        let mut broken = hex(F12).to_vec();
        broken[70] ^= 1;
        assert_eq!(broker.append("t", 0, &broken.into()), Err(ErrorCode(2)));
    }

    #[test]
    fn kip_74_the_partition_limit_cuts_anywhere_in_versions_0_to_2() {
        let broker = broker(Release::V0_10_0);
        broker.append("t", 0, &hex(F01)).unwrap();
        broker.append("t", 1, &hex(F01)).unwrap();
        for version in 0..=2 {
            let answer = Client::to(&broker).ask(version, fetch(&[(0, 0), (1, 0)], 40));
            assert_eq!((records(&answer, 0).len(), records(&answer, 1).len()), (40, 40));
            let answer = Client::to(&broker).ask(version, fetch(&[(0, 0)], 20));
            assert_eq!(
                records(&answer, 0),
                &hex(F01)[..20]
                    .iter()
                    .enumerate()
                    .map(|(i, byte)| if i == 7 { 0 } else { *byte })
                    .collect::<Vec<_>>()[..]
            );
        }
    }

    #[test]
    fn kip_74_the_first_batch_is_whole_from_version_3_on_and_only_the_first() {
        let broker = broker(Release::V0_10_2);
        broker.append("t", 0, &hex(F01)).unwrap();
        broker.append("t", 1, &hex(F01)).unwrap();
        let mut client = Client::to(&broker);
        let sizes = |answer: &FetchResponse| (records(answer, 0).len(), records(answer, 1).len());
        assert_eq!(sizes(&client.ask(3, fetch(&[(0, 0), (1, 0)], 20))), (27, 0));
        assert_eq!(sizes(&client.ask(3, fetch(&[(1, 0), (0, 0)], 20))), (27, 0));
        assert_eq!(sizes(&client.ask(3, fetch(&[(0, 2), (1, 0)], 20))), (0, 27));
        assert_eq!(sizes(&client.ask(3, fetch(&[(0, 0), (1, 0)], 40))), (40, 40));
        let whole = FetchRequest { max_bytes: 60, ..fetch(&[(0, 0), (1, 0)], 100) };
        assert_eq!(sizes(&client.ask(3, whole)), (54, 0));
    }

    #[test]
    fn an_offset_outside_the_log_is_out_of_range_and_the_end_is_not() {
        let broker = broker(Release::V2_1);
        broker.append("t", 0, &hex(F12)).unwrap();
        broker.with(|cluster| cluster.delete_before("t", 0, 1)).unwrap();
        let mut client = Client::to(&broker);
        for (offset, code, high_watermark) in [(0, 1, -1), (1, 0, 2), (2, 0, 2), (3, 1, -1)] {
            let answer = client.ask(5, fetch(&[(0, offset)], 100));
            let partition = &answer.responses[0].partitions[0];
            assert_eq!((partition.error_code, partition.high_watermark), (ErrorCode(code), high_watermark));
        }
    }

    #[test]
    fn a_long_poll_ends_with_new_bytes_or_with_its_time() {
        let broker = broker(Release::V2_1);
        let mut client = Client::to(&broker);
        let wait = |max_wait_ms| FetchRequest { max_wait_ms, ..fetch(&[(0, 0)], 100) };
        let start = Instant::now();
        assert_eq!(records(&client.ask(4, wait(80)), 0).len(), 0);
        assert!(start.elapsed() >= Duration::from_millis(80));
        let start = Instant::now();
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| client.ask(4, wait(9_000)));
            std::thread::sleep(Duration::from_millis(50));
            broker.append("t", 0, &hex(F12)).unwrap();
            assert_eq!(records(&answer.join().unwrap(), 0).len(), 77);
        });
        assert!(start.elapsed() < Duration::from_secs(5));
        // An error does not wait.
        let start = Instant::now();
        let astray = FetchRequest { max_wait_ms: 9_000, ..fetch(&[(0, 99)], 100) };
        assert_eq!(client.ask(4, astray).responses[0].partitions[0].error_code, ErrorCode(1));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn kip_98_read_committed_stops_before_an_open_transaction_and_names_the_aborted_ones() {
        let broker = broker(Release::V2_1);
        let committed = || FetchRequest { isolation_level: 1, ..fetch(&[(0, 10)], 1_000) };
        let store = |set: &str| broker.with(|cluster| cluster.store("t", 0, &hex(set))).unwrap();
        broker.with(|cluster| cluster.reset_log("t", 0, 10)).unwrap();
        store(F23);
        let mut client = Client::to(&broker);
        let answer = client.ask(4, committed());
        let partition = &answer.responses[0].partitions[0];
        assert_eq!((partition.high_watermark, partition.last_stable_offset), (12, 10));
        assert_eq!(records(&answer, 0).len(), 0);
        assert_eq!(records(&client.ask(4, fetch(&[(0, 10)], 1_000)), 0).len(), 77);
        store(F21);
        let answer = client.ask(4, committed());
        let partition = &answer.responses[0].partitions[0];
        assert_eq!((partition.high_watermark, partition.last_stable_offset), (13, 13));
        assert_eq!(records(&answer, 0).len(), 77 + 78);
        let aborted = partition.aborted_transactions.as_ref().unwrap();
        assert_eq!((aborted.len(), aborted[0].producer_id, aborted[0].first_offset), (1, 7, 10));
    }

    #[test]
    fn kip_951_who_asks_the_wrong_broker_is_told_the_leader() {
        let broker =
            EmbeddedBroker::builder().release(Release::V3_9).brokers(2).topic("t", 1).start().unwrap();
        broker.with(|cluster| cluster.set_leader("t", 0, Some(2))).unwrap();
        let mut client = Client::to(&broker);
        let answer = client.ask(11, fetch(&[(0, 0)], 100));
        assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(6));
        let mut request = fetch(&[(0, 0)], 100);
        request.topics[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
        let answer = client.ask(16, request);
        let hint = &answer.responses[0].partitions[0].current_leader;
        assert_eq!((hint.leader_id, hint.leader_epoch), (2, 1));
        let address = format!("{}:{}", answer.node_endpoints[0].host, answer.node_endpoints[0].port);
        assert_eq!(address, broker.addrs()[1]);
    }

    #[test]
    fn kip_320_a_leader_epoch_that_is_not_the_leaders_is_refused() {
        let broker = broker(Release::V2_4);
        broker.with(|cluster| cluster.truncate("t", 0, 0)).unwrap();
        for (epoch, code) in [(-1, 0), (0, 74), (1, 0), (2, 75)] {
            let mut request = fetch(&[(0, 0)], 100);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            let answer = Client::to(&broker).ask(11, request);
            assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(code));
        }
    }

    #[test]
    fn kip_227_no_session_is_ever_opened() {
        let broker = broker(Release::V2_4);
        let session =
            |session_id, session_epoch| FetchRequest { session_id, session_epoch, ..fetch(&[(0, 0)], 100) };
        let opened = Client::to(&broker).ask(11, session(0, 0));
        assert_eq!((opened.error_code, opened.session_id), (ErrorCode(0), 0));
        assert_eq!(Client::to(&broker).ask(11, session(5, 1)).error_code, ErrorCode(70));
    }
}

mod faults {
    use super::*;

    fn faulty(fault: Fault) -> (EmbeddedBroker, Client) {
        let broker = broker(Release::V2_4);
        broker.append("t", 0, &hex(F12)).unwrap();
        broker.inject(fault);
        let client = Client::to(&broker);
        (broker, client)
    }

    #[test]
    fn an_error_code_stands_where_it_was_asked_for() {
        let fault = Fault::error(ErrorCode(6)).at_partition("t", 1).on(ApiKey::FETCH).after(1).once();
        let (_broker, mut client) = faulty(fault);
        let codes = |answer: FetchResponse| {
            answer.responses[0].partitions.iter().map(|it| it.error_code.0).collect::<Vec<_>>()
        };
        for expected in [[0, 0], [0, 6], [0, 0]] {
            assert_eq!(codes(client.ask(11, fetch(&[(0, 0), (1, 0)], 1_000))), expected);
        }
        let (_broker, mut client) = faulty(Fault::error(ErrorCode(70)).at_top());
        assert_eq!(client.ask(11, fetch(&[(0, 0)], 1_000)).error_code, ErrorCode(70));
        let (_broker, mut client) = faulty(Fault::error(ErrorCode(5)).at_topic("t"));
        assert_eq!(client.ask(0, metadata_of("t")).topics[0].error_code, ErrorCode(5));
        let (_broker, mut client) = faulty(Fault::error(ErrorCode(35)));
        assert_eq!(client.ask(0, ApiVersionsRequest::default()).error_code, ErrorCode(35));
    }

    #[test]
    fn a_delay_holds_the_answer_back() {
        let (_broker, mut client) = faulty(Fault::delay(Duration::from_millis(80)));
        let start = Instant::now();
        client.ask(11, fetch(&[(0, 0)], 1_000));
        assert!(start.elapsed() >= Duration::from_millis(80));
    }

    #[test]
    fn connections_are_closed_cut_silent_or_frozen() {
        let request = encode_request(&fetch(&[(0, 0)], 1_000), 11, 1, "test").unwrap();
        let (_broker, mut client) = faulty(Fault::close());
        client.send(&request);
        assert!(client.is_closed());

        let (_broker, mut client) = faulty(Fault::cut_after(30));
        client.send(&request);
        let mut read = Vec::new();
        client.0.read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), 30);

        let (_broker, mut client) = faulty(Fault::silence().once());
        client.send(&request);
        assert!(client.is_silent());
        client.ask(11, fetch(&[(0, 0)], 1_000));

        let (_broker, mut client) = faulty(Fault::freeze().once());
        client.send(&request);
        client.send(&request);
        assert!(client.is_silent());
    }

    #[test]
    fn answers_are_corrupted_misnumbered_or_lie_about_their_size() {
        let (_broker, mut client) = faulty(Fault::correlation_id(5));
        client.send(&encode_request(&metadata_of("t"), 0, 1, "test").unwrap());
        assert_eq!(client.receive().unwrap()[..4], [0, 0, 0, 5]);

        let (_broker, mut client) = faulty(Fault::size(8));
        client.send(&encode_request(&metadata_of("t"), 0, 1, "test").unwrap());
        assert_eq!(client.receive().unwrap().len(), 8);

        let (_broker, mut client) = faulty(Fault::corrupt(7, 0x40));
        client.send(&encode_request(&metadata_of("t"), 0, 1, "test").unwrap());
        assert_eq!(client.receive().unwrap()[..4], [0, 0, 0, 0x41]);
    }
}

mod in_memory {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_makes_waiting_free_and_exact() {
        let broker = EmbeddedBroker::builder().release(Release::V2_4).topic("t", 1).in_memory();
        let mut stream = broker.connect_in_memory(broker.addr()).unwrap();
        let request = FetchRequest { max_wait_ms: 3_600_000, ..fetch(&[(0, 0)], 100) };
        stream.write_all(&encode_request(&request, 11, 1, "test").unwrap()).await.unwrap();
        let start = tokio::time::Instant::now();
        let size = stream.read_i32().await.unwrap();
        let hour = Duration::from_secs(3_600);
        assert!((hour..hour + Duration::from_millis(5)).contains(&start.elapsed()));
        stream.read_exact(&mut vec![0; size as usize]).await.unwrap();
        assert_eq!(broker.request_count(ApiKey::FETCH), 1);
        assert!(broker.connect_in_memory("nobody:9092").is_err());
    }
}
