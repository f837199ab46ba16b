//! The status line on a terminal.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use downspout::spout::SpoutMetrics;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// What is going on, in one line.
#[derive(Debug)]
pub(super) struct Status {
    bar: Option<ProgressBar>,
    started: Instant,
    before: (Instant, u64),
    rate: f64,
}

impl Status {
    /// Shown only if somebody looks at standard error, and records do not scroll past there.
    pub(super) fn new(is_wanted: bool) -> Status {
        let bar = (is_wanted && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Status { bar, started: now, before: (now, 0), rate: 0.0 }
    }

    pub(super) fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    pub(super) fn show(&mut self, metrics: &SpoutMetrics) {
        let Some(bar) = &self.bar else { return };
        let done: u64 = metrics.partitions.values().map(|partition| partition.acked).sum();
        let elapsed = self.before.0.elapsed();
        if elapsed >= Duration::from_secs(1) {
            self.rate = done.saturating_sub(self.before.1) as f64 / elapsed.as_secs_f64();
            self.before = (Instant::now(), done);
        }
        bar.set_message(line(metrics, done, self.rate, self.started.elapsed()));
        bar.tick();
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(metrics: &SpoutMetrics, done: u64, rate: f64, running: Duration) -> String {
    let partitions = || metrics.partitions.values();
    let lag: Option<i64> = partitions().map(|partition| partition.spout_lag()).sum();
    let lag = lag.map_or_else(|| "?".to_owned(), |lag| HumanCount(lag.unsigned_abs()).to_string());
    let mut line = format!(
        "{} done in {}, {}/s, lag {lag}",
        HumanCount(done),
        indicatif::HumanDuration(running),
        HumanCount(rate as u64)
    );
    let counts: [(&str, u64); 5] = [
        ("failed", partitions().map(|partition| partition.failed).sum()),
        ("waiting for retry", partitions().map(|partition| partition.parked as u64).sum()),
        ("given up", partitions().map(|partition| partition.ineligible + partition.dead_letters).sum()),
        ("lost", partitions().map(|partition| partition.lost).sum()),
        ("partitions stopped", partitions().filter(|partition| partition.stopped.is_some()).count() as u64),
    ];
    for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        line.push_str(&format!(", {} {what}", HumanCount(count)));
    }
    line
}

#[cfg(test)]
mod tests {
    use downspout::client::TopicPartition;
    use downspout::spout::PartitionMetrics;

    use super::*;

    #[test]
    fn the_line_tells_what_is_there_and_an_unknown_lag_is_not_0() {
        let mut metrics = SpoutMetrics::default();
        let mut partition = PartitionMetrics::default();
        (partition.latest, partition.latest_completed, partition.failed) = (Some(1_500), Some(0), 2);
        metrics.partitions.insert(TopicPartition::new("t", 0), partition);
        let shown = |metrics: &SpoutMetrics| line(metrics, 12_345, 10.6, Duration::from_secs(5));
        assert_eq!(shown(&metrics), "12,345 done in 5 seconds, 10/s, lag 1,500, 2 failed");
        metrics.partitions.insert(TopicPartition::new("t", 1), PartitionMetrics::default());
        assert!(shown(&metrics).contains("lag ?"));
    }
}
