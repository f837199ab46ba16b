//! Beside the original: storm-kafka 1.2.4 runs on a real broker and a real ZooKeeper, and a spout of ours goes on from
//! its checkpoints, and it from ours, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use downspout::checkpoint::{Layout, ZooKeeperCheckpoints};
use downspout::client::Cluster;
use downspout::records::NewRecord;
use downspout::spout::Spout;
use downspout::zookeeper::{Session, ZooKeeper as _};
use tokio::time::timeout;

use crate::harness::{Driver, Java, Kafka, Libs, Mode, Options, Prepared, Release};
use crate::stage::{Turn, left_out};

const ROOT: &str = "/kafka-spout";
const PARTITIONS: i32 = 2;
const RECORDS: i64 = 150;
/// Records that are acked in a life.
const LIFE: usize = 70;

/// What a life saw and did: for each partition, the offsets that came, in order, and the ones that were acked.
#[derive(Debug, Default)]
struct Life {
    came: BTreeMap<i32, Vec<i64>>,
    acked: BTreeSet<(i32, i64)>,
}

impl Life {
    fn first(&self, partition: i32) -> Option<i64> {
        self.came.get(&partition).and_then(|came| came.iter().min().copied())
    }
}

struct Stand {
    kafka: Kafka,
    java: Java,
    dir: tempfile::TempDir,
}

impl Stand {
    /// `None`, and said so, where it can't be had.
    fn start() -> Option<Self> {
        let release = Release::named("0.10.2.2");
        let prepared =
            Prepared::in_mode(release, Mode::ZooKeeper).map_err(|why| left_out(release, &why)).ok()?;
        let flags = vec!["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let java = Libs::storm_kafka().and_then(|libs| Java::new(libs, flags, &["StormSpout"]));
        let java = java.map_err(|why| left_out(release, &why)).ok()?;
        let kafka = Kafka::start(release, &prepared, Options::default()).unwrap();
        Some(Self { kafka, java, dir: tempfile::tempdir().unwrap() })
    }

    /// A life of the original.
    fn original(&self, topic: &str, id: &str, wildcard: bool, (records, leaves): (usize, bool)) -> Life {
        let zookeeper = self.kafka.zookeeper().unwrap();
        let args = [
            zookeeper.ip().to_string(),
            zookeeper.port().to_string(),
            topic.to_owned(),
            ROOT.to_owned(),
            id.to_owned(),
            "top-1-1700000000".to_owned(),
            "top".to_owned(),
            wildcard.to_string(),
            records.to_string(),
            leaves.to_string(),
        ];
        let main = "org.apache.storm.kafka.StormSpout";
        let said = self.java.run(self.dir.path(), main, &args, Duration::from_secs(60)).unwrap();
        let mut life = Life::default();
        for line in String::from_utf8(said).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what @ ("emit" | "ack"), partition, offset, ..] = words[..] else { continue };
            let (partition, offset) = (partition.parse().unwrap(), offset.parse().unwrap());
            match what {
                "emit" => life.came.entry(partition).or_default().push(offset),
                _ => drop(life.acked.insert((partition, offset))),
            }
        }
        life
    }

    fn store(&self, wildcard: bool, compat: bool) -> ZooKeeperCheckpoints {
        let layout = if wildcard { Layout::ByTopic } else { Layout::OneTopic };
        let servers = self.kafka.zookeeper_connect().unwrap();
        ZooKeeperCheckpoints::new(servers, ROOT).layout(layout).compat_storm(compat)
    }

    /// A life of ours, which does the same: each tenth fails once, and one of the last few is never answered.
    async fn ours(
        &self,
        topic: &str,
        id: &str,
        store: ZooKeeperCheckpoints,
        (records, leaves): (usize, bool),
    ) -> Life {
        let cluster = Cluster::connect([self.kafka.address().to_string()]).await.unwrap();
        let mut spout = Spout::builder(cluster).topic(topic).id(id).checkpoints(store).build().await.unwrap();
        let mut life = Life::default();
        let mut kept = None;
        while life.acked.len() < records {
            let next = timeout(Duration::from_secs(20), spout.next()).await;
            let delivery = next.expect("nothing came for 20 s").unwrap().unwrap();
            let (partition, offset) = (delivery.partition(), delivery.offset());
            life.came.entry(partition).or_default().push(offset);
            if leaves && life.acked.len() + 3 == records && kept.is_none() {
                kept = Some(delivery);
            } else if offset % 10 == 4 && !delivery.is_retry() {
                delivery.fail_after("the first time", Duration::from_millis(1));
                tokio::time::sleep(Duration::from_millis(5)).await;
            } else {
                delivery.ack();
                life.acked.insert((partition, offset));
            }
        }
        drop(kept);
        spout.close_within(Duration::from_secs(2)).await.unwrap();
        life
    }

    /// The documents, by partition.
    async fn documents(&self, topic: &str, id: &str, wildcard: bool) -> BTreeMap<i32, String> {
        let session = Session::connect(&self.kafka.zookeeper_connect().unwrap()).await.unwrap();
        let mut documents = BTreeMap::new();
        for partition in 0..PARTITIONS {
            let topic = if wildcard { format!("/{topic}") } else { String::new() };
            let node = session.get(&format!("{ROOT}/{id}{topic}/partition_{partition}")).await.unwrap();
            if let Some(node) = node {
                documents.insert(partition, String::from_utf8(node.data).unwrap());
            }
        }
        session.close().await;
        documents
    }
}

fn offset_of(document: &str) -> i64 {
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    document["offset"].as_i64().unwrap()
}

/// What the original would have written in place of this document, by another one that it did write.
fn as_the_original(theirs: &str, ours: &str) -> String {
    let mut text = theirs.to_owned();
    let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
    let ours: serde_json::Value = serde_json::from_str(ours).unwrap();
    for key in ["topology", "offset", "partition"] {
        let pair = |of: &serde_json::Value| format!("\"{key}\":{}", of[key]);
        text = text.replace(&pair(&theirs), &pair(&ours));
    }
    text
}

/// Goes on where the checkpoints were, whoever wrote them; nothing below comes again, nothing is left out.
fn check(life: &Life, before: &BTreeMap<i32, String>, who: &str) {
    for partition in 0..PARTITIONS {
        let begin = before.get(&partition).map_or(0, |document| offset_of(document));
        if let Some(first) = life.first(partition) {
            assert_eq!(first, begin, "{who}, partition {partition}: {before:?}");
        }
    }
}

async fn rounds(stand: &Stand, topic: &str, wildcard: bool, compat: bool) {
    let id = format!("{topic}-id");
    let cluster = Cluster::connect([stand.kafka.address().to_string()]).await.unwrap();
    for partition in 0..PARTITIONS {
        let values: Vec<String> = (0..RECORDS).map(|n| format!("{partition}-{n}")).collect();
        let records: Vec<NewRecord<'_>> =
            values.iter().map(|value| NewRecord::value(value.as_bytes())).collect();
        cluster.produce(topic, partition, &records).await.unwrap();
    }
    let total = (RECORDS * i64::from(PARTITIONS)) as usize;
    let mut acked: BTreeSet<(i32, i64)> = BTreeSet::new();
    let (mut repeats, mut lives, mut theirs) = (0, 0, None);
    loop {
        let before = stand.documents(topic, &id, wildcard).await;
        let open: i64 = (0..PARTITIONS)
            .map(|partition| RECORDS - before.get(&partition).map_or(0, |document| offset_of(document)))
            .sum();
        if open == 0 {
            break;
        }
        // The last life answers all there is.
        let leaves = open as usize > LIFE + 3;
        let records = (if leaves { LIFE } else { open as usize }, leaves);
        let is_original = lives % 2 == 0;
        let life = match is_original {
            true => stand.original(topic, &id, wildcard, records),
            false => stand.ours(topic, &id, stand.store(wildcard, compat), records).await,
        };
        check(&life, &before, if is_original { "the original" } else { "ours" });
        repeats += life.acked.intersection(&acked).count();
        acked.extend(&life.acked);
        let after = stand.documents(topic, &id, wildcard).await;
        if is_original && theirs.is_none() {
            theirs = after.values().next().cloned();
        }
        for (partition, document) in &after {
            let offset = offset_of(document);
            let old = before.get(partition).map_or(0, |document| offset_of(document));
            assert!(offset >= old, "partition {partition} went from {old} to {offset}");
            let has_all = (0..offset).all(|offset| acked.contains(&(*partition, offset)));
            assert!(has_all, "partition {partition} is at {offset}, and not all below was acked");
            if !is_original && compat {
                let theirs = theirs.as_ref().expect("the original was first");
                assert_eq!(*document, as_the_original(theirs, document), "byte for byte");
            }
            if !is_original && !compat {
                assert!(document.contains("\"downspout\""), "{document}");
            }
        }
        lives += 1;
        assert!(lives < 20, "it does not come to an end: {after:?}");
    }
    assert_eq!(acked.len(), total, "every record was processed");
    assert!(lives >= 4, "{lives} lives");
    // A life leaves at most what it acked beyond its checkpoint.
    assert!(repeats <= lives * LIFE, "{repeats} repeats in {lives} lives");
    println!("{topic}: {lives} lives, {repeats} repeats");
}

#[test]
fn storm_kafka_and_we_go_on_from_each_others_checkpoints() {
    let _turn = Turn::take();
    let Some(stand) = Stand::start() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (topic, wildcard, compat) in
        [("flat", false, true), ("flat-rich", false, false), ("wild", true, true)]
    {
        let mut driver = Driver::start(&stand.kafka).unwrap();
        driver.create_topic(&stand.kafka, topic, PARTITIONS as usize, &[]).unwrap();
        drop(driver);
        runtime.block_on(rounds(&stand, topic, wildcard, compat));
    }
    the_command(&stand);
}

/// What an operator sees of all this, and how it is moved.
fn the_command(stand: &Stand) {
    let store = format!("zk://{}{ROOT}", stand.kafka.zookeeper_connect().unwrap());
    let brokers = stand.kafka.address().to_string();
    let backup = stand.dir.path().join("saved").display().to_string();
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_downspout")).args(args).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    let lag = run(&["lag", "--store", &store, "-b", &brokers]);
    assert!(lag.contains("\nwild-id wild 1 committed 150 end 150 lag 0 "), "{lag}");
    assert_eq!((lag.lines().count(), lag.lines().last()), (7, Some("total lag 0")), "{lag}");
    // Brokers and positions, both by the one ZooKeeper.
    let zookeeper = stand.kafka.zookeeper_connect().unwrap();
    assert_eq!(run(&["lag", "--zookeeper", &zookeeper, "--root", ROOT]), lag);
    let all = run(&["checkpoint", "list", "--store", &store]);
    assert!(all.lines().any(|line| line.starts_with("flat-rich-id flat-rich 0 offset 150")), "{all}");

    // From storm-kafka's place to storm-kafka-client's, and on to the old consumer's.
    let (from, migrate) =
        (["--from", &store, "--from-id", "flat-id"], ["checkpoint", "migrate", "-b", &brokers]);
    let to = ["--to", "kafka:moved", "--plain", "--execute", "--backup", &backup];
    let plan = run(&[&migrate[..], &from, &to].concat());
    assert!(plan.contains("flat/0: no checkpoint -> 150: "), "{plan}");
    let old = format!("old-consumer://{}", stand.kafka.zookeeper_connect().unwrap());
    let backup = format!("{backup}-2");
    let to = ["--to", &old, "--to-id", "group", "--execute", "--backup", &backup];
    run(&[&migrate[..], &["--from", "kafka:moved"], &to].concat());
    let found = run(&["checkpoint", "list", "--store", &old, "--id", "group"]);
    assert_eq!(found, "flat 0 offset 150\nflat 1 offset 150\n");

    // From one layout to the other, and nothing is said twice.
    let (backup, to) = (format!("{backup}-3"), format!("{store}?layout=one-topic"));
    let args = ["checkpoint", "migrate", "--from", &store, "--from-id", "wild-id", "--to", &to];
    let plan = run(&args);
    assert!(plan.contains("wild/0: 150 goes to the layout for one topic\n"), "{plan}");
    run(&[&args[..], &["--execute", "--backup", &backup]].concat());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert!(runtime.block_on(stand.documents("wild", "wild-id", true)).is_empty());
    let moved = runtime.block_on(stand.documents("wild", "wild-id", false));
    assert!(moved.len() == 2 && moved.values().all(|document| offset_of(document) == 150), "{moved:?}");
}
