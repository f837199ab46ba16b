//! What is remembered of brokers between connections: which of them told their versions lately, verdicts
//! about those that cannot, and refused logins.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connector::BrokerAddress;
use super::versions::LegacyRelease;
use crate::error::Error;

/// How long a verdict holds: a broker may have been upgraded meanwhile.
const VERDICT_LASTS: Duration = Duration::from_secs(5 * 60);
/// For how long an answer to ApiVersions rules out a verdict for any broker of the cluster.
const LATELY: Duration = Duration::from_secs(10 * 60);

/// For how long a broker that has refused a login is not asked again: accounts get locked, and nothing that
/// this client can do makes a wrong password right.
const REFUSAL_LASTS: Duration = Duration::from_secs(10);

/// Shared by all connections to one cluster. The lock is taken only when connecting.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    answered: Option<Instant>,
    verdicts: HashMap<BrokerAddress, (LegacyRelease, Instant)>,
    refusals: HashMap<BrokerAddress, (Error, Instant)>,
}

/// How to begin with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// A verdict holds: speak as to this release.
    Known(LegacyRelease),
    /// Ask; may the answer be a verdict?
    Ask { may_be_legacy: bool },
}

impl Memory {
    pub(super) fn beginning(&self, broker: &BrokerAddress, now: Instant) -> Beginning {
        let memory = self.lock();
        let lately = memory.answered.is_some_and(|at| now.saturating_duration_since(at) < LATELY);
        match memory.verdicts.get(broker) {
            Some((release, at)) if !lately && now.saturating_duration_since(*at) < VERDICT_LASTS => {
                Beginning::Known(*release)
            }
            _ => Beginning::Ask { may_be_legacy: !lately },
        }
    }

    pub(super) fn told_versions(&self, broker: &BrokerAddress, now: Instant) {
        let mut memory = self.lock();
        memory.answered = Some(now);
        memory.verdicts.remove(broker);
    }

    pub(super) fn verdict(&self, broker: &BrokerAddress, release: LegacyRelease, now: Instant) {
        self.lock().verdicts.insert(broker.clone(), (release, now));
    }

    /// Forgets a verdict that turned out wrong.
    pub(super) fn forget(&self, broker: &BrokerAddress) {
        self.lock().verdicts.remove(broker);
    }

    /// A broker has refused the login.
    #[cfg_attr(not(feature = "sasl"), allow(dead_code))]
    pub(super) fn refused(&self, broker: &BrokerAddress, why: &Error, now: Instant) {
        self.lock().refusals.insert(broker.clone(), (why.clone(), now));
    }

    /// How a broker has refused the login a moment ago.
    #[cfg_attr(not(feature = "sasl"), allow(dead_code))]
    pub(super) fn refusal(&self, broker: &BrokerAddress, now: Instant) -> Option<Error> {
        let mut memory = self.lock();
        memory.refusals.retain(|_, (_, at)| now.saturating_duration_since(*at) < REFUSAL_LASTS);
        memory.refusals.get(broker).map(|(why, _)| why.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_is_not_tried_again_for_ten_seconds_at_that_broker() {
        let (broker, other) = (BrokerAddress::new("one", 9092), BrokerAddress::new("other", 9092));
        let (memory, start) = (Memory::default(), Instant::now());
        memory.refused(&broker, &Error::config("wrong password"), start);
        assert!(memory.refusal(&broker, start + Duration::from_millis(9_999)).is_some());
        assert!(memory.refusal(&other, start).is_none());
        assert!(memory.refusal(&broker, start + REFUSAL_LASTS).is_none());
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn b1_a_verdict_is_remembered_for_five_minutes_and_for_its_broker_alone() {
        let (old, other) = (BrokerAddress::new("old", 9092), BrokerAddress::new("other", 9092));
        let (memory, now) = (Memory::default(), Instant::now());
        memory.verdict(&old, LegacyRelease::V0_9, now);
        assert_eq!(memory.beginning(&old, now + 4 * MINUTE), Beginning::Known(LegacyRelease::V0_9));
        assert_eq!(memory.beginning(&old, now + 5 * MINUTE), Beginning::Ask { may_be_legacy: true });
        assert_eq!(memory.beginning(&other, now), Beginning::Ask { may_be_legacy: true });
        memory.forget(&old);
        assert_eq!(memory.beginning(&old, now), Beginning::Ask { may_be_legacy: true });
    }

    #[test]
    fn an_answer_rules_out_verdicts_in_the_whole_cluster_for_a_time() {
        let (new, other) = (BrokerAddress::new("new", 9092), BrokerAddress::new("other", 9092));
        let (memory, now) = (Memory::default(), Instant::now());
        memory.verdict(&other, LegacyRelease::V0_8_2, now);
        memory.told_versions(&new, now);
        assert_eq!(memory.beginning(&other, now + MINUTE), Beginning::Ask { may_be_legacy: false });
        assert_eq!(memory.beginning(&new, now + 11 * MINUTE), Beginning::Ask { may_be_legacy: true });
    }
}
