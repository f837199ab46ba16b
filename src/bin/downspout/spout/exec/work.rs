//! What workers work on: deliveries of a spout, or of a test.

use downspout::spout::{Delivery, Spout};
use downspout::{Error, client::TopicPartition};

use tokio::sync::Mutex;

use super::line;
use crate::output::Output;

/// Gives work, piece by piece.
pub(in crate::spout) trait Source: Send + 'static {
    type Work: Work;

    /// The next piece; `None` when there will be none. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Work>, Error>> + Send;
}

/// The next piece, by turns with all that ask for one.
pub(in crate::spout) async fn next<S: Source>(source: &Mutex<S>) -> Result<Option<S::Work>, Error> {
    source.lock().await.next().await
}

/// A record that must be answered for.
pub(in crate::spout) trait Work: Send + 'static {
    /// Its name in the protocol; another one for each attempt.
    fn id(&self) -> String;

    /// Its place, the same for all attempts.
    fn place(&self) -> Place;

    /// Writes its line.
    fn write(&self, line: &mut Output<Vec<u8>>);

    fn ack(self);
    fn fail(self, reason: &str);
    fn release(self);
}

pub(in crate::spout) type Place = (TopicPartition, i64);

impl Source for Spout {
    type Work = Delivery;

    async fn next(&mut self) -> Result<Option<Delivery>, Error> {
        Spout::next(self).await
    }
}

impl Work for Delivery {
    fn id(&self) -> String {
        Delivery::id(self).to_string()
    }

    fn place(&self) -> Place {
        (TopicPartition::new(self.topic(), self.partition()), self.offset())
    }

    fn write(&self, line: &mut Output<Vec<u8>>) {
        line::record(line, self);
    }

    fn ack(self) {
        Delivery::ack(self);
    }

    fn fail(self, reason: &str) {
        Delivery::fail(self, reason);
    }

    fn release(self) {
        Delivery::release(self);
    }
}
