//! Records that nobody could handle, on their way to a topic of their own.

mod breaker;
mod letter;
#[cfg(all(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
mod tests;
mod topic;
mod writer;

#[allow(unused_imports)] // until the driver writes them
pub(crate) use breaker::Breaker;
pub use letter::DeadLetter;
#[allow(unused_imports)] // until the driver writes them
pub(crate) use letter::Letter;
#[allow(unused_imports)] // until the driver writes them
pub(crate) use writer::DeadLetterWriter;

/// A dead-letter topic, and how records go there.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeadLetters {
    /// The topic.
    pub topic: String,
    /// Creates the topic if it does not exist; otherwise that is an error at the start.
    pub create: bool,
    /// How a record looks there.
    pub form: Form,
    /// What to do about a record that the topic does not take for its size.
    pub oversize: Oversize,
    /// The partition stops when this share of its last 100 records went there; 0.5 by default, 1 or
    /// more for never.
    pub break_at: f64,
}

/// How a record looks in a dead-letter topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// As it was, with headers `downspout.*` behind its own. Needs a broker of 0.11 or later.
    #[default]
    Headers,
    /// A JSON document with everything in it, for topics whose format has no headers.
    Envelope,
}

/// What to do about a record that a dead-letter topic does not take for its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Oversize {
    /// The partition stops.
    #[default]
    Stop,
    /// Key and headers go there, the value is left out, and a header says so.
    DropValue,
}

impl DeadLetters {
    /// That topic, which must exist, with headers.
    pub fn to(topic: impl Into<String>) -> Self {
        DeadLetters {
            topic: topic.into(),
            create: false,
            form: Form::default(),
            oversize: Oversize::default(),
            break_at: 0.5,
        }
    }
}
