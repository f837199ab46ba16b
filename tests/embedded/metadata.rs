//! Brokers, topics, and the creation of topics.

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
    let broker = EmbeddedBroker::builder().release(Release::V1_1).brokers(3).topic("t", 3).start().unwrap();
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
