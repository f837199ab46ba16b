//! What is written, and what is read.

use super::*;

/// The escapes of json-simple as they were seen on a real node.
const ODD: &str = r#"{"topology":{"id":"a\/b\"c\\d-1-2","name":"né中\u2028😀\u007F\tx\/y"},"offset":1,"partition":0,"broker":{"host":"127.0.0.1","port":29092},"topic":"clicks"}"#;

fn java_offer(offset: i64) -> Offer {
    let mut offer = offer(clicks(0), offset, "a", 1);
    offer.checkpoint.owner =
        Some(Owner { instance: "top-1-1700000000".into(), name: "top".into(), run: "a".into() });
    offer.checkpoint.broker = Some(("127.0.0.1".into(), 29092));
    offer
}

#[tokio::test]
async fn where_the_java_spout_wrote_last_its_very_bytes_are_written() {
    for path in [FLAT, BY_TOPIC] {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(path, java("clicks", 0, 4));
        let opened = own(&over(&zookeeper), "a").await;
        assert_eq!(offset(&*opened, clicks(0)).await, Some(4));
        let claimed = text(&zookeeper, path);
        assert!(claimed.starts_with(java("clicks", 0, 4).trim_end_matches('}')), "{claimed}");
        assert_eq!(as_java_reads(&claimed), Some(4));
        assert_eq!(commit(&*opened, java_offer(7)).await.unwrap(), Stored { done_until: 7 });
        assert_eq!(text(&zookeeper, path), java("clicks", 0, 7));
        assert_eq!(zookeeper.peek(path).unwrap().version, 2, "one claim, one commit");
    }
}

#[tokio::test]
async fn the_escapes_are_those_of_json_simple() {
    let zookeeper = MemoryZooKeeper::new();
    zookeeper.put(FLAT, ODD);
    let opened = own(&over(&zookeeper), "a").await;
    let loaded = load(&*opened, clicks(0)).await.unwrap().checkpoint.unwrap();
    let owner = loaded.owner.clone().unwrap();
    assert_eq!(
        (owner.instance.as_str(), owner.name.as_str()),
        ("a/b\"c\\d-1-2", "né中\u{2028}😀\u{7f}\tx/y")
    );
    let offer = Offer { partition: clicks(0), epoch: 1, checkpoint: loaded, reset: false };
    commit(&*opened, offer).await.unwrap();
    assert_eq!(text(&zookeeper, FLAT), ODD);
}

#[tokio::test]
async fn extras_are_one_last_key_unless_storms_bytes_are_asked_for() {
    let zookeeper = MemoryZooKeeper::new();
    let opened = own(&over(&zookeeper), "a").await;
    load(&*opened, clicks(0)).await.unwrap();
    assert_eq!(commit(&*opened, java_offer(7)).await.unwrap(), Stored { done_until: 12 });
    let with = text(&zookeeper, BY_TOPIC);
    let bare = java("clicks", 0, 7);
    assert!(with.starts_with(&format!("{},\"downspout\":{{", bare.trim_end_matches('}'))), "{with}");
    assert_eq!(as_java_reads(&with), Some(7));
    opened.close().await;

    // And the other way round, by setting.
    let exact = own(&over(&zookeeper).compat_storm(true), "a").await;
    assert!(!exact.keeps_extras());
    let kept = load(&*exact, clicks(0)).await.unwrap().checkpoint.unwrap();
    assert_eq!(kept.extras, java_offer(7).checkpoint.extras);
    assert_eq!(commit(&*exact, java_offer(7)).await.unwrap(), Stored { done_until: 7 });
    assert_eq!(text(&zookeeper, BY_TOPIC), bare);
    exact.close().await;
    let rich = own(&over(&zookeeper).compat_storm(false), "a").await;
    load(&*rich, clicks(0)).await.unwrap();
    commit(&*rich, java_offer(8)).await.unwrap();
    assert!(text(&zookeeper, BY_TOPIC).contains("\"downspout\""));
}

#[tokio::test]
async fn a_document_is_read_as_the_java_spout_reads_it_and_0_is_an_offset() {
    for (document, expected) in [
        (java("clicks", 0, 4), 4),
        (java("clicks", 0, 0), 0),
        // Order, spaces, newlines, other keys, a wrong broker.
        ("{ \"offset\" : 8,\n\"x\":[1], \"topology\":{\"name\":\"n\",\"id\":\"rust-1\"}}".to_owned(), 8),
        (java("clicks", 0, 4).replace("127.0.0.1", "nowhere"), 4),
        // The last of two counts.
        (r#"{"topology":{"id":"t","name":"t"},"offset":4,"offset":9}"#.to_owned(), 9),
        // Java takes these for none; there is an offset, and nothing says that it is not the one.
        (r#"{"offset":7}"#.to_owned(), 7),
        (r#"{"topology":{"id":null,"name":"t"},"offset":7}"#.to_owned(), 7),
        (r#"{"topology":{"id":5,"name":"t"},"offset":7}"#.to_owned(), 7),
    ] {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(FLAT, document.clone());
        let opened = own(&over(&zookeeper), "a").await;
        assert_eq!(offset(&*opened, clicks(0)).await, Some(expected), "{document}");
        let claimed = text(&zookeeper, FLAT);
        assert_eq!(as_java_reads(&claimed), as_java_reads(&document), "{claimed}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_left_as_it_is() {
    let java = java("clicks", 0, 4);
    for (document, says) in [
        (r#"{"topology":{"id":"t"}}"#.to_owned(), "no offset"),
        (java.replace(":4,", ":\"7\","), "no whole number"),
        (java.replace(":4,", ":7.0,"), "no whole number"),
        (java.replace(":4,", ":-5,"), "no whole number"),
        (java.replace("\"clicks\"", "\"other\""), "another topic"),
        (java.replace("\"partition\":0", "\"partition\":1"), "another partition"),
        ("junk".to_owned(), "no JSON"),
        (String::new(), "empty"),
        (format!("[{java}]"), "no JSON object"),
        (format!("{java} x"), "no JSON"),
        (format!("\u{feff}{java}"), "no JSON"),
        (java[..100].to_owned(), "no JSON"),
    ] {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(FLAT, document.clone());
        for access in [Access::Read, Access::Own(owner("a")), Access::Edit { force: false }] {
            // The document itself is meant, also where it could be another topic's.
            let store = over(&zookeeper).layout(Layout::OneTopic);
            let opened = open(&store, access).await;
            let why = load(&*opened, clicks(0)).await.unwrap_err();
            assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{document}: {why}");
            assert!(why.to_string().contains(says), "{document}: {why}");
            opened.close().await;
        }
        assert_eq!(text(&zookeeper, FLAT), document);
    }
}

#[tokio::test]
async fn a_set_of_a_thousand_is_kept_whole() {
    let zookeeper = MemoryZooKeeper::new();
    let opened = own(&over(&zookeeper), "a").await;
    let all: Vec<TopicPartition> = (0..1000).map(clicks).collect();
    assert!(opened.load(&all).await.iter().all(|one| *one.as_ref().unwrap() == Loaded::default()));
    for round in 0..2 {
        let offers: Vec<Offer> = (0..1000).map(|n| offer(clicks(n), i64::from(n) + round, "a", 1)).collect();
        opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
    }
    let reader = open(&over(&zookeeper), Access::Read).await;
    for (n, loaded) in reader.load(&all).await.into_iter().enumerate() {
        assert_eq!(loaded.unwrap().checkpoint.unwrap().offset, n as i64 + 1);
    }
    assert_eq!(reader.list().await.unwrap(), all);
}

#[tokio::test]
async fn a_root_or_topic_that_leads_elsewhere_is_refused() {
    let zookeeper = MemoryZooKeeper::new();
    let at = |root: &str| ZooKeeperCheckpoints::over(Arc::new(zookeeper.clone()), root);
    for root in ["noslash", "/r/", "//", "/a//b", "/a/../b", "/."] {
        assert!(at(root).open("billing", Access::Read).await.is_err(), "{root}");
    }
    for (root, path) in [("", "/billing"), ("/", "/billing"), ("/a/b", "/a/b/billing")] {
        let opened = own(&at(root), "a").await;
        load(&*opened, clicks(0)).await.unwrap();
        commit(&*opened, offer(clicks(0), 1, "a", 1)).await.unwrap();
        assert!(zookeeper.peek(&format!("{path}/clicks/partition_0")).is_some(), "{root}");
        for topic in ["", "a/b", "..", "~owners"] {
            assert!(load(&*opened, TopicPartition::new(topic, 0)).await.is_err(), "{topic}");
        }
    }
}
