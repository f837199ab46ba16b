//! The way to the crate `metrics`.

use metrics::Label;

use super::{Sample, SampleKind, SpoutMetrics};

/// Hands all samples to the recorder that the crate [`metrics`] has been given, if any. Call it as often as
/// values shall be new: every few seconds, say. It does no I/O of its own.
///
/// ```no_run
/// # async fn example(handle: downspout::spout::SpoutHandle) {
/// loop {
///     downspout::spout::publish(&handle.metrics());
///     tokio::time::sleep(std::time::Duration::from_secs(5)).await;
/// }
/// # }
/// ```
pub fn publish(spout: &SpoutMetrics) {
    let mut described = "";
    for Sample { name, help, kind, labels, value } in spout.samples() {
        let is_new = name != described;
        described = name;
        let labels: Vec<Label> = labels.into_iter().map(|(name, value)| Label::new(name, value)).collect();
        match kind {
            SampleKind::Gauge => {
                if is_new {
                    metrics::describe_gauge!(name, help);
                }
                metrics::gauge!(name, labels).set(value);
            }
            SampleKind::Counter => {
                if is_new {
                    metrics::describe_counter!(name, help);
                }
                metrics::counter!(name, labels).absolute(value as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;
    use crate::client::TopicPartition;
    use crate::spout::PartitionMetrics;

    #[derive(Default, Clone)]
    struct Kept(Arc<Mutex<BTreeMap<String, f64>>>);

    struct Slot(Kept, String);

    impl GaugeFn for Slot {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.0.0.lock().unwrap().insert(self.1.clone(), value);
        }
    }

    impl metrics::CounterFn for Slot {
        fn increment(&self, _: u64) {}
        fn absolute(&self, value: u64) {
            GaugeFn::set(self, value as f64);
        }
    }

    impl Kept {
        fn slot(&self, key: &Key) -> Arc<Slot> {
            let labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Arc::new(Slot(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.slot(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.slot(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn every_sample_reaches_the_recorder_with_its_labels() {
        let mut spout = SpoutMetrics { active: true, ..SpoutMetrics::default() };
        let partition = PartitionMetrics { acked: 7, latest: Some(9), ..PartitionMetrics::default() };
        spout.partitions.insert(TopicPartition::new("t", 3), partition);
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || publish(&spout));
        let values = kept.0.lock().unwrap();
        assert_eq!(values.len(), spout.samples().len());
        assert_eq!(values["downspout_acked_total{topic=t,partition=3}"], 7.0);
        assert_eq!(values["downspout_latest_offset{topic=t,partition=3}"], 9.0);
        assert_eq!(values["downspout_active{}"], 1.0);
    }
}
