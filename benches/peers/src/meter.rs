//! What a client counts of itself: a line when it is warm, one at the end.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::Result;
use crate::topics::Topic;

/// Before anything counts: connections are made and queues filled in this time.
pub const WARM_UP: Duration = Duration::from_secs(1);

/// How many records pass between two looks at the clock.
const LOOK: u64 = 256;

pub struct Meter {
    size: u64,
    time: Duration,
    opened: Instant,
    /// All records so far, and the bytes of their values.
    records: u64,
    bytes: u64,
    warm: Option<Mark>,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    records: u64,
    cpu: Duration,
}

/// What a client that is done says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    pub records: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Peak resident memory, in bytes.
    pub peak: u64,
}

impl Meter {
    pub fn new(topic: &Topic, time: Duration) -> Self {
        let (opened, size) = (Instant::now(), topic.size as u64);
        Meter { size, time, opened, records: 0, bytes: 0, warm: None }
    }

    /// Takes in a record with a value of so many bytes. False when time is up.
    #[inline]
    pub fn record(&mut self, bytes: usize) -> Result<bool> {
        self.records += 1;
        self.bytes += bytes as u64;
        if self.records.is_multiple_of(LOOK) { self.look() } else { Ok(true) }
    }

    fn look(&mut self) -> Result<bool> {
        if self.bytes != self.records * self.size {
            Err(format!("{} records had {} bytes, not {} each", self.records, self.bytes, self.size))?;
        }
        let now = Instant::now();
        match self.warm {
            None if now - self.opened >= WARM_UP => {
                say("warm")?;
                self.warm = Some(Mark { at: now, records: self.records, cpu: cpu_time()? });
            }
            Some(warm) if now - warm.at >= self.time => {
                let report = Report {
                    records: self.records - warm.records,
                    seconds: (now - warm.at).as_secs_f64(),
                    cpu_seconds: (cpu_time()? - warm.cpu).as_secs_f64(),
                    peak: peak_memory()?,
                };
                say(&report.to_line())?;
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    }
}

impl Report {
    fn to_line(self) -> String {
        format!("done {} {} {} {}", self.records, self.seconds, self.cpu_seconds, self.peak)
    }

    pub fn parse(line: &str) -> Option<Report> {
        let mut words = line.strip_prefix("done ")?.split(' ');
        Some(Report {
            records: words.next()?.parse().ok()?,
            seconds: words.next()?.parse().ok()?,
            cpu_seconds: words.next()?.parse().ok()?,
            peak: words.next()?.parse().ok()?,
        })
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// CPU time of this process, user and system, the kernel's receive included.
fn cpu_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or("");
    // The state letter comes first, so user and system time are the 12th and 13th, in hundredths of a second.
    let ticks: Vec<u64> = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
