use super::*;
use downspout::client::blocking;

#[test]
fn the_blocking_twin_needs_no_runtime() {
    for release in [Release::V0_8_2, Release::V4_4] {
        let broker = EmbeddedBroker::builder()
            .release(release)
            .topic("clicks", 1)
            .auto_create_topics(false)
            .start()
            .unwrap();
        broker.append("clicks", 0, &set(magic(release), &["a", "b"])).unwrap();
        let consumer = blocking::SimpleConsumer::connect(broker.addr()).unwrap();
        assert_eq!(consumer.earliest_offset("clicks", 0).unwrap(), 0);
        assert_eq!(consumer.latest_offset("clicks", 0).unwrap(), 2);
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).unwrap();
        assert_eq!(records(&fetched).len(), 2);
        assert_eq!(consumer.all_topics().unwrap().topics.len(), 1);
        consumer.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 2)]).unwrap();
        assert_eq!(consumer.fetch_offsets("billing", &[("clicks", 0)]).unwrap()[0].offset, Some(2));
        assert!(consumer.send(MetadataRequest::default()).is_ok());
    }
}

#[test]
fn inside_a_runtime_it_is_an_error_and_no_panic() {
    let broker = EmbeddedBroker::builder().topic("clicks", 1).start().unwrap();
    let consumer = blocking::SimpleConsumer::connect(broker.addr()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let error = consumer.earliest_offset("clicks", 0).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InsideRuntime), "{error:?}");
        assert!(error.to_string().contains("use the async type"), "{error}");
        assert!(blocking::SimpleConsumer::connect(broker.addr()).is_err());
        // Nor does dropping it panic.
        drop(consumer);
    });
}

#[test]
fn a_connection_lost_between_two_calls_is_made_anew() {
    let broker = EmbeddedBroker::builder().topic("clicks", 1).start().unwrap();
    let consumer = blocking::SimpleConsumer::connect(broker.addr()).unwrap();
    broker.with(|cluster| cluster.stop_broker(1));
    broker.with(|cluster| cluster.start_broker(1));
    assert_eq!(consumer.earliest_offset("clicks", 0).unwrap(), 0);
}
