//! Conversations over streams in memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::time::Instant;

use super::{Stage, all};
use crate::spout::exec::lines::Lines;
use crate::spout::exec::talk::{End, Phase, Talk};

impl Stage {
    /// Starts a conversation; the other end of it is for the test.
    fn talk(&self) -> (tokio::task::JoinHandle<End>, Child) {
        let (ours, theirs) = duplex(4 << 10);
        let (stdout, stdin) = split(ours);
        let shared = Arc::clone(&self.shared);
        let talk = tokio::spawn(async move {
            let mut talk = Talk::new(&shared, 0);
            talk.run(stdin, &mut Lines::new(stdout)).await.unwrap()
        });
        let (input, output) = split(theirs);
        (talk, Child { input: BufReader::new(input), output })
    }
}

struct Child {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
}

impl Child {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).await.unwrap();
        line.truncate(line.trim_end().len());
        line
    }

    /// The id of the next record.
    async fn record(&mut self) -> String {
        loop {
            let line = self.line().await;
            if !line.starts_with('{') {
                return line.split(' ').next().unwrap().to_owned();
            }
        }
    }

    async fn say(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn answers_out_of_order_count_for_their_records() {
    let stage = Stage::new(10, 0..3);
    stage.close();
    let (talk, mut child) = stage.talk();
    assert_eq!(
        child.line().await,
        r#"{"protocol":"downspout","version":1,"spout":"test","worker":0,"concurrency":10}"#
    );
    let ids = [child.record().await, child.record().await, child.record().await];
    child.say(&format!("ack {}\nfail {} no such customer\nack {}\n", ids[2], ids[0], ids[1])).await;
    assert_eq!(talk.await.unwrap(), End::Finished);
    let expected = [(2, "acked".into()), (0, "failed: no such customer".into()), (1, "acked".into())];
    assert_eq!(stage.outcomes(), expected);
    assert_eq!(stage.unknown(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_command_never_has_more_records_than_it_may() {
    let stage = Stage::new(2, 0..50);
    stage.close();
    let (talk, mut child) = stage.talk();
    let mut open = vec![child.record().await, child.record().await];
    for _ in 2..50 {
        // The next one comes only when one was answered for.
        let early = tokio::time::timeout(Duration::from_secs(1), child.record()).await;
        assert!(early.is_err(), "{early:?}");
        child.say(&format!("ack {}\n", open.remove(0))).await;
        open.push(child.record().await);
    }
    child.say(&format!("ack {}\nack {}\n", open[0], open[1])).await;
    assert_eq!(talk.await.unwrap(), End::Finished);
    assert_eq!(stage.outcomes().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn rubbish_is_counted_and_never_an_ack() {
    let stage = Stage::new(1, 0..2);
    stage.close();
    let (talk, mut child) = stage.talk();
    let id = child.record().await;
    child.say("ok\nack\nack t/0/9/1/1\nfail nobody\n\u{1b}[31mack\nACK ").await;
    child.say(&format!("{id}\nack {id} {id}\n{id}\n")).await;
    child.say(&"x".repeat(1 << 20)).await;
    child.say("\n\n").await;
    assert_eq!(stage.outcomes(), []);
    child.say(&format!("ack {id}\n")).await;
    stage.until(1).await;
    // A second answer for the same record is one too many.
    child.say(&format!("fail {id} late\n")).await;
    let id = child.record().await;
    child.say(&format!("ack {id}\r\n")).await;
    assert_eq!(talk.await.unwrap(), End::Finished);
    assert_eq!(stage.outcomes(), all(&[0, 1], "acked"));
    assert_eq!(stage.unknown(), (6, 4));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_hangs_is_given_up_after_its_time_and_its_records_are_released() {
    let stage = Stage::new(3, 0..5);
    let (talk, mut child) = stage.talk();
    let begun = Instant::now();
    let id = child.record().await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    // An answer begins the time anew; rubbish does not.
    child.say(&format!("ack {id}\n")).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    child.say("still here\n").await;
    assert_eq!(talk.await.unwrap(), End::Hung);
    assert_eq!(begun.elapsed().as_secs(), 500);
    let mut outcomes = stage.outcomes().split_off(1);
    outcomes.sort();
    assert_eq!(outcomes, all(&[1, 2, 3], "released"));
}

#[tokio::test(start_paused = true)]
async fn a_command_without_work_may_be_silent_for_ever() {
    let stage = Stage::new(1, 0..0);
    let (talk, mut child) = stage.talk();
    child.line().await;
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert!(!talk.is_finished());
    stage.add(7, vec![]);
    let id = child.record().await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    child.say(&format!("ack {id}\n")).await;
    stage.until(1).await;
    stage.close();
    assert_eq!(talk.await.unwrap(), End::Finished);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_never_reads_blocks_nobody_else() {
    let stage = Stage::new(1, 0..0);
    let (stuck, _never_reads) = stage.talk();
    tokio::time::sleep(Duration::from_millis(1)).await;
    // More than the pipe holds.
    stage.add(0, vec![b'x'; 1 << 20]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (other, mut child) = stage.talk();
    for number in 1..10 {
        stage.add(number, vec![]);
        let id = child.record().await;
        child.say(&format!("ack {id}\n")).await;
    }
    assert_eq!(stage.until(9).await, all(&[1, 2, 3, 4, 5, 6, 7, 8, 9], "acked"));
    stage.close();
    assert_eq!(other.await.unwrap(), End::Finished);
    assert_eq!(stuck.await.unwrap(), End::Hung);
    assert_eq!(stage.outcomes()[9], (0, "released".into()));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_output_stops_neither_work_nor_the_end() {
    let stage = Stage::new(1, 0..0);
    let (talk, child) = stage.talk();
    let Child { mut input, mut output } = child;
    let flood = tokio::spawn(async move { while output.write_all(&[b'y'; 4096]).await.is_ok() {} });
    let mut line = String::new();
    input.read_line(&mut line).await.unwrap();
    stage.add(0, vec![]);
    line.clear();
    input.read_line(&mut line).await.unwrap();
    assert!(line.starts_with("t/0/0/"), "{line}");
    stage.phase.send(Phase::Over).unwrap();
    assert_eq!(talk.await.unwrap(), End::Over);
    assert_eq!(stage.outcomes(), all(&[0], "released"));
    flood.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_that_closes_its_output_has_its_records_released() {
    let stage = Stage::new(2, 0..2);
    let (talk, mut child) = stage.talk();
    let id = child.record().await;
    child.say(&format!("ack {id}")).await;
    drop(child);
    // The last line may do without an end.
    assert_eq!(talk.await.unwrap(), End::Silent);
    assert_eq!(stage.outcomes(), [(0, "acked".into()), (1, "released".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_a_closed_input_has_left_may_still_be_answered_for() {
    let stage = Stage::new(3, 0..0);
    let (ours, input) = duplex(1 << 10);
    let (output, theirs) = duplex(1 << 10);
    let shared = Arc::clone(&stage.shared);
    let talk =
        tokio::spawn(async move { Talk::new(&shared, 0).run(ours, &mut Lines::new(theirs)).await.unwrap() });
    let (mut input, mut output) = (BufReader::new(input), output);
    let mut line = String::new();
    input.read_line(&mut line).await.unwrap();
    stage.add(0, vec![]);
    line.clear();
    input.read_line(&mut line).await.unwrap();
    let id = line.split(' ').next().unwrap().to_owned();
    drop(input);
    stage.add(1, vec![]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    output.write_all(format!("ack {id}\n").as_bytes()).await.unwrap();
    let begun = Instant::now();
    assert_eq!(talk.await.unwrap(), End::Deaf);
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!(stage.outcomes(), [(0, "acked".into()), (1, "released".into())]);
}

/// A record comes again after it was released.
async fn dies_with_all(stage: &Stage, count: usize) {
    let (talk, mut child) = stage.talk();
    for _ in 0..count {
        child.record().await;
    }
    drop(child);
    assert_eq!(talk.await.unwrap(), End::Silent);
}

#[tokio::test(start_paused = true)]
async fn the_record_that_commands_die_of_is_found_and_fails() {
    let stage = Stage::new(4, 0..3);
    dies_with_all(&stage, 3).await;
    (0..3).for_each(|number| stage.add(number, vec![]));
    dies_with_all(&stage, 3).await;
    // From here on each is alone: the innocent ones are acked, and the culprit is what is left.
    (0..3).for_each(|number| stage.add(number, vec![]));
    let (talk, mut child) = stage.talk();
    let first = child.record().await;
    assert!(tokio::time::timeout(Duration::from_secs(1), child.record()).await.is_err());
    child.say(&format!("ack {first}\n")).await;
    let second = child.record().await;
    drop(child);
    assert_eq!(talk.await.unwrap(), End::Silent);
    let outcomes = stage.outcomes();
    assert_eq!((first.as_str(), second.as_str()), ("t/0/0/1/1", "t/0/1/1/1"));
    assert_eq!(outcomes.iter().filter(|(_, outcome)| outcome == "released").count(), 6);
    assert_eq!(outcomes[6], (0, "acked".into()));
    assert_eq!(outcomes[7].0, 1);
    assert!(outcomes[7].1.starts_with("failed: the command died with this record"), "{outcomes:?}");
    // Record 2 was not handed out yet.
    assert_eq!(outcomes.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_long_reason_is_cut_and_memory_stays_small() {
    let stage = Stage::new(1, 0..1);
    stage.close();
    let (talk, mut child) = stage.talk();
    let id = child.record().await;
    child.say(&format!("fail {id} {}\n", "ü".repeat(20_000))).await;
    assert_eq!(talk.await.unwrap(), End::Finished);
    assert_eq!(stage.outcomes()[0].1.len(), "failed: ".len() + 1_000);
}
