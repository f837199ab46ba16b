//! Consecutive numbers, written by the release's own producer while the cluster changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::harness::{Driver, Kafka, Result, Send};

/// Numbers of one flush for each partition.
const FLUSH: i32 = 20;

/// A producer at work. Dropping it ends it at its next flush.
pub struct Numbers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Written>>,
}

/// What it noted: nothing but what was acknowledged.
pub struct Written {
    pub acknowledged: Vec<Acknowledged>,
    /// Flushes of which a part was not acknowledged, each with the reason; their numbers may be in the log or not.
    pub failures: Vec<String>,
    /// It failed again and again.
    gave_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acknowledged {
    pub partition: i32,
    pub offset: i64,
    pub number: u64,
}

impl Numbers {
    /// Begins to write 0, 1, 2, … to the partitions in turn, as text, in a JVM of its own.
    pub fn start(kafka: &Kafka, topic: &str, partitions: i32) -> Result<Self> {
        let mut driver = Driver::start(kafka)?;
        let mut settings = SETTINGS.to_vec();
        // Until 2.1 (KIP-91) a batch that waits for a leader for that long is given up, too.
        settings.push(if kafka.release().since(&[2, 1]) {
            "request.timeout.ms=3000"
        } else {
            "request.timeout.ms=40000"
        });
        driver.producer("numbers", &settings)?;
        let (stop, acknowledged) = (Arc::default(), Arc::default());
        let shared = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let topic = topic.to_owned();
        let thread = std::thread::spawn(move || write(&mut driver, &topic, partitions, &shared.0, &shared.1));
        Ok(Self { stop, acknowledged, thread: Some(thread) })
    }

    /// How many were acknowledged so far.
    pub fn count(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub fn stop(mut self) -> Result<Written> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or("stopped twice")?;
        let written = thread.join().map_err(|_| "the thread of the producer panicked".to_owned())?;
        match written.gave_up {
            true => Err(format!("the producer gave up, at last for this: {:?}", written.failures.last())),
            false => Ok(written),
        }
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// All replicas in sync have it, or it is sent again. A release ignores what it does not know.
const SETTINGS: [&str; 6] = [
    "acks=all",
    "retries=1000",
    "retry.backoff.ms=100",
    "timeout.ms=1000", // until 0.9 the broker waits so long for the followers, else for 30 s
    "delivery.timeout.ms=50000",
    "metadata.max.age.ms=1000",
];

fn write(
    driver: &mut Driver,
    topic: &str,
    partitions: i32,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Written {
    let mut written = Written { acknowledged: Vec::new(), failures: Vec::new(), gave_up: false };
    let mut next = 0u64;
    // The driver waits long for each: three in a row mean that no producer is at work any more.
    let mut failed_in_a_row = 0;
    while !stop.load(Ordering::Relaxed) && failed_in_a_row < 3 {
        let partition_of = |number: u64| i32::try_from(number % partitions.unsigned_abs() as u64).unwrap();
        let numbers: Vec<u64> = (next..).take((FLUSH * partitions) as usize).collect();
        next += numbers.len() as u64;
        let records = numbers.iter().map(|&number| Send {
            partition: partition_of(number),
            value: Some(number.to_string().into_bytes()),
            ..Send::default()
        });
        match driver.send("numbers", topic, &records.collect::<Vec<_>>()) {
            Ok(produced) => {
                failed_in_a_row = 0;
                for (&number, produced) in numbers.iter().zip(produced) {
                    let (partition, offset) = (produced.record.partition, produced.offset.unwrap());
                    written.acknowledged.push(Acknowledged { partition, offset, number });
                }
                count.store(written.acknowledged.len(), Ordering::Relaxed);
            }
            Err(why) => {
                failed_in_a_row += 1;
                written.failures.push(why);
            }
        }
    }
    written.gave_up = failed_in_a_row >= 3;
    written
}
