//! Faults on demand.

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
