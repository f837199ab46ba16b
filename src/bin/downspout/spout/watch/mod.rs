//! `--metrics`: /metrics for Prometheus, /healthz and /readyz.

mod exposition;
mod http;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use downspout::spout::{Health, SpoutHandle};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::exec::Counts;
use crate::exit::{Exit, Failure};
use exposition::{Exposition, Kind};
use http::{Answer, Status};

/// Serves until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) address: SocketAddr,
    task: JoinHandle<std::convert::Infallible>,
}

impl Watch {
    pub(super) async fn start(
        address: SocketAddr,
        handle: SpoutHandle,
        counts: Arc<Counts>,
    ) -> Result<Watch, Failure> {
        let failed = |why| {
            Failure::new(Exit::Unreachable, format_args!("cannot listen on {address} for --metrics: {why}"))
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let answers = move |path: &str| match path {
            "/metrics" => metrics(&handle, &counts),
            "/healthz" => Answer::text(Status::Ok, "alive\n"),
            "/readyz" => ready(&handle.health()),
            _ => Answer::text(Status::NotFound, "there are /metrics, /healthz and /readyz\n"),
        };
        Ok(Watch { address, task: tokio::spawn(http::serve(listener, Arc::new(answers))) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn metrics(handle: &SpoutHandle, counts: &Counts) -> Answer {
    let mut page = Exposition::default();
    page.samples(&handle.metrics().samples());
    own(&mut page, &handle.health(), counts);
    Answer { status: Status::Ok, kind: "text/plain; version=0.0.4; charset=utf-8", body: page.into_text() }
}

/// What is known here alone.
fn own(page: &mut Exposition, health: &Health, counts: &Counts) {
    let ready = f64::from(u8::from(health.ready));
    page.one("downspout_ready", "1 while records are handed out as they come.", Kind::Gauge, ready);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    for (name, help, value) in [
        ("downspout_exec_deaths_total", "Commands that ended although there was work.", &counts.deaths),
        ("downspout_exec_hung_total", "Commands that were ended because they did not answer.", &counts.hung),
        (
            "downspout_exec_unknown_lines_total",
            "Lines of commands that were no answer.",
            &counts.unknown_lines,
        ),
        (
            "downspout_exec_unknown_ids_total",
            "Answers for records that the command did not have.",
            &counts.unknown_ids,
        ),
    ] {
        page.one(name, help, Kind::Counter, count(value));
    }
}

fn ready(health: &Health) -> Answer {
    let mut text = String::new();
    if let Some(why) = &health.why {
        text.push_str(&format!("{why}\n"));
    }
    for (what, partitions) in [("stopped", &health.stopped), ("paused", &health.paused)] {
        for (partition, why) in partitions {
            text.push_str(&format!("{partition} {what}: {why}\n"));
        }
    }
    match health.ready {
        true => Answer::text(Status::Ok, format!("ready\n{text}")),
        false => Answer::text(Status::Unavailable, format!("not ready\n{text}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use downspout::client::TopicPartition;
    use downspout::spout::{PartitionMetrics, SpoutMetrics};

    use super::*;

    /// All that can be on the page.
    fn page() -> String {
        let mut partition = PartitionMetrics::default();
        let offset = Some(1);
        partition.earliest = offset;
        partition.latest = offset;
        partition.latest_emitted = offset;
        partition.latest_completed = offset;
        partition.committed = offset;
        partition.fetch_latency_max = Some(Duration::from_secs(1));
        partition.fetch_latency_mean = Some(Duration::from_secs(1));
        partition.oldest_unfinished = Some((1, Duration::from_secs(1)));
        partition.commit_age = Some(Duration::from_secs(1));
        let mut metrics = SpoutMetrics::default();
        metrics.partitions.insert(TopicPartition::new("clicks", 0), partition);
        let mut page = Exposition::default();
        page.samples(&metrics.samples());
        own(&mut page, &Health::default(), &Counts::default());
        page.into_text()
    }

    #[test]
    fn every_metric_has_its_help_and_type_once_before_its_values() {
        let page = page();
        let mut seen = BTreeSet::new();
        let mut current = "";
        for line in page.lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("#") if line.starts_with("# HELP ") => {
                    current = words.nth(1).unwrap();
                    assert!(seen.insert(current), "{current} is there twice");
                }
                Some("#") => {
                    assert_eq!(words.nth(1), Some(current));
                    assert!(matches!(words.next(), Some("gauge" | "counter")), "{line}");
                }
                Some(sample) => {
                    assert_eq!(sample.split('{').next(), Some(current), "{line}");
                    assert!(words.next().unwrap().parse::<f64>().is_ok(), "{line}");
                }
                None => panic!("an empty line"),
            }
        }
        assert!(seen.len() > 30 && page.ends_with('\n'));
        assert!(page.contains("downspout_lag_records{topic=\"clicks\",partition=\"0\"} 0\n"), "{page}");
    }

    /// The rules by their names, each with its lines.
    fn rules() -> Vec<(String, Vec<(String, String)>)> {
        let text = include_str!("../../../../../docs/alerts.yml");
        let mut rules: Vec<(String, Vec<(String, String)>)> = Vec::new();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
        {
            assert!(!line.contains('\t'), "{line:?}");
            let indent = line.len() - line.trim_start().len();
            assert_eq!(indent % 2, 0, "{line:?}");
            let entry = line.trim_start().trim_start_matches("- ");
            let (key, value) = entry.split_once(':').unwrap_or_else(|| panic!("{line:?} is no entry"));
            // A plain scalar must not hold what YAML reads otherwise.
            let plain = value.trim();
            let is_quoted = plain.starts_with('"') && plain.ends_with('"') && plain.len() > 1;
            assert!(
                is_quoted || !(plain.contains(": ") || plain.contains(" #") || plain.contains('"')),
                "{line:?}"
            );
            if key == "alert" {
                rules.push((plain.to_owned(), Vec::new()));
            } else if let Some((_, lines)) = rules.last_mut() {
                lines.push((key.to_owned(), plain.to_owned()));
            }
        }
        rules
    }

    #[test]
    fn the_alerts_are_about_metrics_that_exist_and_say_what_to_do() {
        let page = page();
        let known: BTreeSet<&str> =
            page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
        let rules = rules();
        assert!(rules.len() >= 10);
        let mut names = BTreeSet::new();
        for (alert, lines) in &rules {
            assert!(names.insert(alert), "{alert} is there twice");
            let keys: Vec<&str> = lines.iter().map(|(key, _)| key.as_str()).collect();
            let expected = ["expr", "for", "labels", "severity", "annotations", "summary", "description"];
            assert_eq!(keys, expected, "{alert}");
            let expr = &lines[0].1;
            let words = expr.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let about: Vec<&str> = words.filter(|word| word.starts_with("downspout_")).collect();
            assert!(!about.is_empty(), "{alert}");
            for name in about {
                assert!(known.contains(name), "{alert}: there is no {name}");
            }
        }
    }

    #[test]
    fn readiness_says_why_not() {
        let mut health = Health::default();
        health.ready = true;
        assert_eq!(ready(&health), Answer::text(Status::Ok, "ready\n"));
        health.ready = false;
        health.why = Some("the store is down".into());
        health.stopped.insert(TopicPartition::new("clicks", 1), "poison at 7".into());
        let answer = ready(&health);
        assert_eq!(answer.status, Status::Unavailable);
        assert_eq!(answer.body, "not ready\nthe store is down\nclicks/1 stopped: poison at 7\n");
    }
}
