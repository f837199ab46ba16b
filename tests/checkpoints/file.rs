use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

fn store(dir: &tempfile::TempDir) -> FileCheckpoints {
    FileCheckpoints::new(dir.path())
}

fn document(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("billing/clicks/partition_0")
}

fn java(topic: &str, partition: i32, offset: i64) -> String {
    format!(
        r#"{{"topology":{{"id":"t-1","name":"t"}},"offset":{offset},"partition":{partition},"broker":{{"host":"h","port":9092}},"topic":"{topic}"}}"#
    )
}

#[tokio::test]
async fn the_laws_hold_on_disk() {
    laws::hold(&store(&tempfile::tempdir().unwrap())).await;
    laws::has_one_owner(&store(&tempfile::tempdir().unwrap())).await;
}

#[tokio::test]
async fn a_document_is_storm_kafkas_and_is_where_storm_kafka_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    let mut offer = offer(clicks(0), 7, "a", 1);
    offer.checkpoint.extras = None;
    commit(&*opened, offer).await.unwrap();
    let text = fs::read_to_string(document(&dir)).unwrap();
    assert_eq!(
        text,
        r#"{"topology":{"id":"billing-1","name":"billing"},"offset":7,"partition":0,"broker":{"host":"127.0.0.1","port":9092},"topic":"clicks"}"#
    );
}

#[tokio::test]
async fn reading_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let reader = open(&store(&dir), Access::Read).await;
    assert_eq!(offset(&*reader, clicks(0)).await, None);
    assert!(reader.list().await.unwrap().is_empty());
    reader.close().await;
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn names_that_lead_elsewhere_stay_inside() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("in");
    let opened = own(&FileCheckpoints::new(&root), "a").await;
    let topics = ["..", "../../x", "/etc", ".lock", "partition_0", "a/b", ""];
    let offers: Vec<Offer> = topics
        .iter()
        .enumerate()
        .map(|(n, topic)| offer(TopicPartition::new(*topic, 0), n as i64, "a", 1))
        .collect();
    opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
    for (n, topic) in topics.iter().enumerate() {
        assert_eq!(offset(&*opened, TopicPartition::new(*topic, 0)).await, Some(n as i64), "{topic}");
    }
    let mut listed: Vec<String> =
        opened.list().await.unwrap().into_iter().map(|one| one.topic.to_string()).collect();
    listed.sort();
    let mut expected = topics;
    expected.sort();
    assert_eq!(listed, expected);
    let outside: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["in"]);
}

#[tokio::test]
async fn storm817_a_document_in_the_layout_for_one_topic_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let flat = |n: i32| dir.path().join(format!("billing/partition_{n}"));
    fs::create_dir(dir.path().join("billing")).unwrap();
    for (n, topic) in
        [(0, "clicks"), (1, "other"), (2, "clicks"), (3, "clicks"), (4, "clicks"), (5, "clicks")]
    {
        fs::write(flat(n), java(topic, n, 40)).unwrap();
    }
    fs::write(flat(4), "junk").unwrap();
    fs::write(flat(5), r#"{"offset":40}"#).unwrap();
    let nested = dir.path().join("billing/clicks");
    fs::create_dir(&nested).unwrap();
    fs::write(nested.join("partition_2"), java("clicks", 2, 40)).unwrap();
    fs::write(nested.join("partition_3"), java("clicks", 3, 41)).unwrap();

    // Looking moves nothing.
    let reader = open(&store(&dir), Access::Read).await;
    assert_eq!(offset(&*reader, clicks(0)).await, Some(40));
    assert!(flat(0).exists() && flat(2).exists());
    let why = reader.list().await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{why}");

    let opened = own(&store(&dir), "a").await;
    assert_eq!(offset(&*opened, clicks(0)).await, Some(40));
    assert!(!flat(0).exists() && nested.join("partition_0").exists());
    assert_eq!(offset(&*opened, clicks(1)).await, None, "it is another topic's");
    assert_eq!(offset(&*opened, clicks(2)).await, Some(40));
    assert!(!flat(2).exists());
    for (n, says) in [(3, "41, and"), (4, "no JSON"), (5, "of which topic")] {
        let why = load(&*opened, clicks(n)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{why}");
        assert!(why.to_string().contains(says), "{why}");
        assert!(flat(n).exists());
    }
    commit(&*opened, offer(clicks(0), 41, "a", 1)).await.unwrap();
    assert_eq!(offset(&*opened, clicks(0)).await, Some(41));
}

#[tokio::test]
async fn a_document_cut_at_any_byte_is_an_error_and_never_a_fresh_start() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    commit(&*opened, offer(clicks(0), 123_456, "a", 1)).await.unwrap();
    let whole = fs::read(document(&dir)).unwrap();
    for length in 0..whole.len() {
        fs::write(document(&dir), &whole[..length]).unwrap();
        let why = load(&*opened, clicks(0)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{length}: {why}");
    }
    // And left as it is.
    let why = commit(&*opened, offer(clicks(0), 123_457, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { .. }), "{why}");
    assert_eq!(fs::read(document(&dir)).unwrap(), whole[..whole.len() - 1]);
}

#[tokio::test]
async fn what_a_write_left_behind_when_killed_at_any_byte_counts_for_nothing_and_is_cleared_away() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
    drop(opened);
    let whole = fs::read(document(&dir)).unwrap();
    for length in (0..=whole.len()).step_by(7) {
        let left = document(&dir).with_file_name(".partition_0.4711.tmp");
        fs::write(&left, &whole[..length]).unwrap();
        let opened = own(&store(&dir), "b").await;
        assert!(!left.exists());
        assert_eq!(offset(&*opened, clicks(0)).await, Some(7));
        assert_eq!(opened.list().await.unwrap(), [clicks(0)]);
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_to_is_an_error_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("billing"), "a file").unwrap();
    for access in [Access::Own(owner("a")), Access::Edit { force: true }] {
        let why = store(&dir).open("billing", access).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Io { .. }), "{why}");
        assert_eq!(why.retry(), Retry::Again);
    }
    let reader = open(&store(&dir), Access::Read).await;
    assert!(reader.list().await.is_err());
    assert!(load(&*reader, clicks(0)).await.is_err(), "not readable is not the same as not there");
}

#[tokio::test]
async fn a_pipe_or_a_directory_in_place_of_a_document_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    fs::create_dir_all(document(&dir)).unwrap();
    let made = Command::new("mkfifo").arg(dir.path().join("billing/clicks/partition_1")).status().unwrap();
    assert!(made.success());
    for n in 0..2 {
        let why = load(&*opened, clicks(n)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Io { .. }), "{why}");
    }
}

#[tokio::test]
async fn one_that_cannot_be_written_fails_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    fs::write(dir.path().join("billing/other"), "a file").unwrap();
    let other = TopicPartition::new("other", 0);
    let offers = [offer(clicks(0), 1, "a", 1), offer(other, 2, "a", 1), offer(clicks(1), 3, "a", 1)];
    let outcomes = opened.commit(&offers).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(outcomes[1].as_ref().unwrap_err().topic(), Some("other"));
    assert_eq!(offset(&*opened, clicks(1)).await, Some(3));
}

#[tokio::test]
async fn a_set_of_a_thousand_is_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    let all: Vec<TopicPartition> = (0..1000).map(clicks).collect();
    for round in 0..2 {
        let offers: Vec<Offer> = (0..1000).map(|n| offer(clicks(n), i64::from(n) + round, "a", 1)).collect();
        opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
        for (n, loaded) in opened.load(&all).await.into_iter().enumerate() {
            assert_eq!(loaded.unwrap().checkpoint.unwrap().offset, n as i64 + round);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_not_waited_for_never_undoes_a_later_one() {
    let dir = tempfile::tempdir().unwrap();
    let opened = own(&store(&dir), "a").await;
    for n in 0..50 {
        let late = [offer(clicks(0), 2 * n, "a", 1)];
        let mut abandoned = opened.commit(&late);
        // Polled once: it has begun.
        std::future::poll_fn(|context| {
            let _ = abandoned.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        drop(abandoned);
        commit(&*opened, offer(clicks(0), 2 * n + 1, "a", 2)).await.unwrap();
        assert_eq!(offset(&*opened, clicks(0)).await, Some(2 * n + 1));
    }
}

/// Not a test of its own: what the test below starts, and kills.
#[tokio::test]
async fn child() {
    let Ok(dir) = std::env::var("DOWNSPOUT_CHECKPOINT_CHILD") else { return };
    let opened = own(&FileCheckpoints::new(dir), "child").await;
    let begin = offset(&*opened, clicks(0)).await.unwrap_or(0);
    for n in begin + 1.. {
        let offers: Vec<Offer> = (0..3).map(|partition| offer(clicks(partition), n, "child", 1)).collect();
        opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
    }
}

#[tokio::test]
async fn killed_again_and_again_at_any_moment_it_finds_its_last_position() {
    let dir = tempfile::tempdir().unwrap();
    let mut reached = [0; 3];
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "file::child"])
            .env("DOWNSPOUT_CHECKPOINT_CHILD", dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_progress(&dir, round % 3, &mut child).await;
        // The moment of the kill differs from round to round, by less than a commit takes.
        let moment = Instant::now() + Duration::from_micros(137 * round);
        while Instant::now() < moment {}
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = own(&store(&dir), "test").await;
        for (n, reached) in reached.iter_mut().enumerate() {
            let found = offset(&*opened, clicks(n as i32)).await.unwrap();
            assert!(found >= *reached, "partition {n} went from {reached} to {found}");
            *reached = found;
        }
        opened.close().await;
    }
    assert!(reached[0] >= 12, "{reached:?}");
}

/// Waits until the child has written something new.
async fn wait_for_progress(dir: &tempfile::TempDir, partition: u64, child: &mut std::process::Child) {
    let read = |path: &Path| fs::read(path).ok();
    let path = document(dir).with_file_name(format!("partition_{partition}"));
    let before = read(&path);
    let begin = Instant::now();
    while read(&path) == before {
        assert!(child.try_wait().unwrap().is_none(), "the child ended");
        assert!(begin.elapsed() < Duration::from_secs(60), "the child does nothing");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
