//! SimpleConsumer reads the corpus of every release, keeps offsets there, and creates nothing.

use std::time::Duration;

use downspout::client::{Fetch, GroupOffset, SimpleConsumer};
use downspout::error::{ErrorKind, Retry};

use crate::harness::{Driver, Kafka, Options, Prepared, Release, Result};
use crate::negotiation::block_on;
use crate::reads::{compare, seen};
use crate::stage::{Stage, Turn, left_out};

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}

async fn connect(stage: &Stage) -> Result<SimpleConsumer> {
    SimpleConsumer::connect(&stage.kafka.address().to_string()).await.map_err(text)
}

/// Every partition from its start to its end, with limits that most records exceed and with ample ones.
pub fn reads_the_corpus(stage: &mut Stage) -> Result<()> {
    block_on(async {
        let consumer = connect(stage).await?;
        for topic in &stage.topics {
            for (partition, entries) in (0..).zip(&topic.partitions) {
                for limit in [64, 1 << 20] {
                    let place = format!("{} partition {partition}, limit {limit}", topic.name);
                    let mut offset = consumer.earliest_offset(&topic.name, partition).await.map_err(text)?;
                    let end = consumer.latest_offset(&topic.name, partition).await.map_err(text)?;
                    let mut found = Vec::new();
                    while offset < end {
                        let fetch = Fetch::new(&topic.name, partition, offset).max_bytes(limit);
                        let fetched = consumer.fetch(fetch).await.map_err(text)?;
                        for batch in fetched.batches() {
                            for record in batch.map_err(text)?.records() {
                                found.push(seen(&record.map_err(text)?)?);
                            }
                        }
                        let next = fetched.next_offset().unwrap_or(offset);
                        if next <= offset {
                            return Err(format!("{place}: stands still at {offset}"));
                        }
                        offset = next;
                    }
                    compare(&place, entries, &found)?;
                }
            }
        }
        Ok(())
    })
}

/// Committed offsets come back; what was never committed is none, not an error.
pub fn keeps_offsets(stage: &mut Stage) -> Result<()> {
    let topic = stage.topics.first().ok_or("no topic")?.name.clone();
    block_on(async {
        let consumer = connect(stage).await?;
        let commit = async |offset| {
            let wanted = [GroupOffset::new(&topic, 0, offset)];
            let committed = consumer.commit_offsets("simple", &wanted).await?;
            committed.into_iter().find_map(|one| one.error).map_or(Ok(()), Err)
        };
        if !stage.release.since(&[0, 8, 1]) {
            let why = commit(7).await.err().ok_or("0.8.0 keeps no offsets")?;
            return match why.kind() {
                ErrorKind::Unsupported { broker: None, .. } => Ok(()),
                _ => Err(text(why)),
            };
        }
        // The offsets topic is made when the coordinator is first looked for.
        let mut tries = 0;
        if stage.release.since(&[0, 8, 2]) {
            while let Err(why) = consumer.find_coordinator("simple").await {
                tries += 1;
                if why.retry() == Retry::No || tries > 100 {
                    return Err(text(why));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        for offset in [0, 7, 5] {
            while let Err(why) = commit(offset).await {
                tries += 1;
                if why.retry() == Retry::No || tries > 100 {
                    return Err(text(why));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let found = consumer.fetch_offsets("simple", &[(&topic, 0), (&topic, 1)]).await.map_err(text)?;
            let found: Vec<_> = found.iter().map(|one| (one.offset, one.error.is_some())).collect();
            if found != [(Some(offset), false), (None, false)] {
                return Err(format!("committed {offset}, found {found:?}"));
            }
        }
        Ok(())
    })
}

/// Asking about a topic that does not exist creates none, though the broker would.
fn creates_nothing(name: &str) {
    let _turn = Turn::take();
    let release = Release::named(name);
    let prepared = match Prepared::of(release) {
        Ok(prepared) => prepared,
        Err(why) => return left_out(release, &why),
    };
    let options = Options::default().set("auto.create.topics.enable", "true");
    let kafka = Kafka::start(release, &prepared, options).unwrap();
    Driver::start(&kafka).unwrap().create_topic(&kafka, "clicks", 1, &[]).unwrap();
    kafka.wait_topic("clicks", 1).unwrap();
    block_on(async {
        let consumer = SimpleConsumer::connect(&kafka.address().to_string()).await.unwrap();
        let why = consumer.earliest_offset("clickz", 0).await.unwrap_err();
        assert!(why.to_string().contains("did you mean clicks?"), "{why}");
        let fetched = consumer.fetch(Fetch::new("clickz", 0, 0)).await.unwrap();
        let why = fetched.partitions()[0].error().unwrap();
        assert!(why.to_string().contains("did you mean clicks?"), "{why}");
        let why = consumer.earliest_offset("clicks", 9).await.unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::UnknownPartition { partitions: 1 }), "{why}");
        let metadata = consumer.metadata(&["clickz"]).await.unwrap();
        assert!(metadata.topics[0].error.is_some());
        if release.since(&[0, 8, 1]) {
            let _ = consumer.commit_offsets("simple", &[GroupOffset::new("clickz", 0, 1)]).await;
            let _ = consumer.fetch_offsets("simple", &[("clickz", 0)]).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let topics = consumer.all_topics().await.unwrap().topics;
        let names: Vec<_> =
            topics.iter().filter(|topic| !topic.is_internal).map(|t| t.name.as_str()).collect();
        assert!(!names.contains(&"clickz"), "{names:?}");
    });
}

#[test]
fn no_call_creates_a_topic_on_0_8_0() {
    creates_nothing("0.8.0");
}

#[test]
fn no_call_creates_a_topic_on_0_8_2() {
    creates_nothing("0.8.2.2");
}

#[test]
fn no_call_creates_a_topic_on_0_10_0() {
    creates_nothing("0.10.0.1");
}

#[test]
fn no_call_creates_a_topic_on_4_4() {
    creates_nothing("4.4.0");
}
