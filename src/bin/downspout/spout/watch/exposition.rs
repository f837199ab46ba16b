//! Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use downspout::spout::{Sample, SampleKind};

/// A page of metrics.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Gauge,
    Counter,
}

impl Exposition {
    /// Samples; those of one name stand together.
    pub(super) fn samples(&mut self, samples: &[Sample]) {
        let mut before = "";
        for sample in samples {
            if sample.name != before {
                let kind = match sample.kind {
                    SampleKind::Counter => Kind::Counter,
                    SampleKind::Gauge => Kind::Gauge,
                };
                self.head(sample.name, sample.help, kind);
                before = sample.name;
            }
            self.value(sample.name, &sample.labels, sample.value);
        }
    }

    /// A metric of the whole process.
    pub(super) fn one(&mut self, name: &str, help: &str, kind: Kind, value: f64) {
        self.head(name, help, kind);
        self.value(name, &[], value);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    // Writing to a string cannot fail.

    fn head(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, name: &str, labels: &[(&'static str, String)], value: f64) {
        self.text.push_str(name);
        let mut before = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
            before = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = match value {
            value if value.is_nan() => writeln!(self.text, " NaN"),
            f64::INFINITY => writeln!(self.text, " +Inf"),
            f64::NEG_INFINITY => writeln!(self.text, " -Inf"),
            value => writeln!(self.text, " {value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_values_are_escaped() {
        let mut page = Exposition::default();
        page.value("x", &[("topic", "a\"b\\c\nd".to_owned()), ("partition", "0".to_owned())], 1.5);
        page.one("y", "one\ntwo \\", Kind::Counter, f64::INFINITY);
        assert_eq!(
            page.into_text(),
            "x{topic=\"a\\\"b\\\\c\\nd\",partition=\"0\"} 1.5\n# HELP y one\\ntwo \\\\\n# TYPE y counter\ny +Inf\n"
        );
    }
}
