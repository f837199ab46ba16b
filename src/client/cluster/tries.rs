use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::Shared;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::net::Backoff;

/// The tries of one call.
pub(super) struct Tries {
    deadline: Instant,
    failures: u32,
}

impl Tries {
    pub(super) fn new(shared: &Shared) -> Self {
        Tries { deadline: deadline(shared.settings.api_timeout), failures: 0 }
    }

    /// How many there were so far.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits, if another try can help and there is time; gives the error back if not.
    pub(super) async fn pause(&mut self, why: Error) -> Result<()> {
        const PAUSE: Backoff = Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
        // Whoever wants to wait for a topic says so.
        if !may_pass(&why) || is_unknown(&why) {
            return Err(why);
        }
        self.failures = self.failures.saturating_add(1);
        let until = Instant::now() + PAUSE.after(self.failures);
        if until >= self.deadline {
            return Err(why);
        }
        sleep_until(until).await;
        Ok(())
    }

    /// Likewise, and reads metadata anew, unless it is newer by now than `seen`, which the failed try
    /// went by.
    pub(super) async fn again(&mut self, shared: &Shared, seen: u64, why: Error) -> Result<()> {
        let why = why.with_principal(shared.settings.client.principal.as_ref());
        self.pause(why.clone()).await?;
        // A failure to read it is met again by the next try, which says more about it.
        match timeout_at(self.deadline, shared.refresh(seen)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(why),
        }
    }
}

/// The end of that time, from now; far away for times without an end.
pub(super) fn deadline(timeout: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    Instant::now() + timeout.min(FAR)
}

/// Whether it may be well later, without anybody doing anything.
pub(super) fn may_pass(why: &Error) -> bool {
    matches!(why.retry(), Retry::Again | Retry::RefreshMetadata)
}

pub(super) fn is_unknown(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::UnknownTopic { .. })
}
