//! What happens to the brokers, round after round. Each round ends with all replicas in sync, so that no committed
//! record is lost, not even by the releases that cut their log at the high watermark (KIP-101).

use std::time::{Duration, Instant};

use crate::harness::{Driver, Kafka, Result, wait_for};

use super::{wait_in_sync, wait_in_sync_for};

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL; started again when another broker leads.
    Killed,
    /// SIGSTOP until another broker leads: it wakes up as a leader that is none any more.
    Frozen,
    /// SIGTERM: it hands over its partitions, and closes connections.
    Restarted,
    /// SIGSTOP for less than the session time-out: it stays the leader.
    Hiccup,
}

const ROUND: [Fault; 4] = [Fault::Killed, Fault::Frozen, Fault::Restarted, Fault::Hiccup];

/// How long another leader may take, on a busy machine too.
const FAILOVER: Duration = Duration::from_secs(60);

/// Does things to the leaders of the partitions in turn for so long, and at least each thing once. Tells what it did.
pub fn happen(
    kafka: &mut Kafka,
    admin: &mut Driver,
    topic: &str,
    partitions: i32,
    time: Duration,
) -> Result<Vec<String>> {
    let start = Instant::now();
    let mut done = Vec::new();
    for round in 0.. {
        if start.elapsed() >= time && round >= ROUND.len() {
            break;
        }
        let fault = ROUND[round % ROUND.len()];
        let partition = (round % partitions.unsigned_abs() as usize) as i32;
        let leader =
            wait_for("a leader", FAILOVER, || Ok(kafka.leader(topic, partition).unwrap_or_default()))?;
        let begun = start.elapsed();
        let what = format!("{fault:?} the leader of {partition}, broker {leader}");
        one(kafka, fault, topic, partition, leader)
            .and_then(|()| whole_again(kafka, admin, topic, partitions, leader))
            .map_err(|e| format!("{what}: {e}\nbefore that: {done:?}"))?;
        done.push(format!("at {begun:.1?} {what}, whole again at {:.1?}", start.elapsed()));
    }
    Ok(done)
}

/// Waits for all replicas. Old releases sometimes never come back from what befell them (0.8.2.2 from a freeze that
/// outlives its session): then the broker is started anew, as its operator would.
fn whole_again(
    kafka: &mut Kafka,
    admin: &mut Driver,
    topic: &str,
    partitions: i32,
    hit: usize,
) -> Result<()> {
    let brokers = kafka.brokers();
    if wait_in_sync_for(Duration::from_secs(45), admin, topic, partitions, brokers).is_ok() {
        return Ok(());
    }
    println!("broker {hit} does not come back by itself; it is started anew");
    kafka.kill(hit)?;
    another_leads(kafka, topic, 0, hit)?;
    kafka.start_again(hit)?;
    wait_in_sync(admin, topic, partitions, brokers)
}

fn one(kafka: &mut Kafka, fault: Fault, topic: &str, partition: i32, leader: usize) -> Result<()> {
    match fault {
        Fault::Killed => {
            kafka.kill(leader)?;
            another_leads(kafka, topic, partition, leader)?;
            kafka.start_again(leader)
        }
        Fault::Frozen => {
            kafka.freeze(leader)?;
            another_leads(kafka, topic, partition, leader)?;
            kafka.resume(leader)
        }
        Fault::Restarted => kafka.restart(leader),
        Fault::Hiccup => {
            kafka.freeze(leader)?;
            std::thread::sleep(Duration::from_millis(800)); // the fault itself
            kafka.resume(leader)
        }
    }
}

fn another_leads(kafka: &Kafka, topic: &str, partition: i32, leader: usize) -> Result<()> {
    wait_for("another leader", FAILOVER, || {
        Ok(kafka.leader(topic, partition).unwrap_or_default().filter(|&now| now != leader).map(drop))
    })
}
