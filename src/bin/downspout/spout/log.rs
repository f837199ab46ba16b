//! What the library tells, on standard error: a line for each event, with its fields.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::voice::Voice;

/// Says events of this level and above.
#[derive(Debug)]
pub(super) struct Log {
    level: Level,
    voice: Voice,
}

impl Log {
    /// From now on, for the whole process.
    pub(super) fn install(level: Option<Level>, voice: &Voice) {
        let Some(level) = level else { return };
        // It fails if there is one already, and then that one tells.
        let _ = tracing::subscriber::set_global_default(Log { level, voice: voice.clone() });
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.voice.say(&format!("{}: {}{}", word(*event.metadata().level()), line.message, line.fields));
    }

    // Spans are not shown.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        _ => "debug",
    }
}

#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => self.field(name, format_args!("{value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            // Writing to a string cannot fail.
            "message" => drop(write!(self.message, "{value:?}")),
            name => self.field(name, format_args!("{value:?}")),
        }
    }
}

impl Line {
    fn field(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let before = if self.fields.is_empty() { "; " } else { ", " };
        let _ = write!(self.fields, "{before}{name} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_its_message_with_the_fields_behind() {
        struct Seen(std::sync::Mutex<Vec<String>>, Log);
        impl Subscriber for &'static Seen {
            fn enabled(&self, metadata: &Metadata<'_>) -> bool {
                self.1.enabled(metadata)
            }
            fn event(&self, event: &Event<'_>) {
                let mut line = Line::default();
                event.record(&mut line);
                self.0.lock().unwrap().push(format!("{}{}", line.message, line.fields));
            }
            fn new_span(&self, _: &Attributes<'_>) -> Id {
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, _: &Record<'_>) {}
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }
        let log = Log { level: Level::WARN, voice: Voice::default() };
        let seen: &'static Seen = Box::leak(Box::new(Seen(std::sync::Mutex::default(), log)));
        tracing::subscriber::with_default(seen, || {
            tracing::warn!(topic = "clicks", partition = 3, error = %"gone", "it {} stuck", "is");
            tracing::info!("too quiet");
        });
        assert_eq!(*seen.0.lock().unwrap(), ["it is stuck; topic clicks, partition 3, error gone"]);
    }
}
