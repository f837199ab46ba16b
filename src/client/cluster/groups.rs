//! Calls at a group's coordinator.

use super::Cluster;
use super::tries::Tries;
use crate::client::{Committed, CommittedOffset, Coordinator, GroupOffset, OffsetStorage};
use crate::error::{Error, ErrorKind, Result};
use crate::net::BrokerAddress;
use crate::protocol::ErrorCode;

impl Cluster {
    /// The broker that keeps a group's offsets (0.8.2 on), found once and then known until it is
    /// another one.
    pub async fn coordinator(&self, group: &str) -> Result<Coordinator> {
        self.shared.check_open()?;
        let known = self.shared.coordinators().get(group).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.find_coordinator(group).await {
                Ok(found) => {
                    self.shared.coordinators().insert(group.to_owned(), found.clone());
                    return Ok(found);
                }
                // None could be reached: perhaps they are elsewhere by now.
                Err(why) if is_unreachable(&why) => tries.again(&self.shared, seen, why).await?,
                Err(why) => tries.pause(why).await?,
            }
        }
    }

    async fn find_coordinator(&self, group: &str) -> Result<Coordinator> {
        let mut why = None;
        for address in self.any_broker().await? {
            match self.shared.at(&address).find_coordinator(group).await {
                Ok(found) => return Ok(found),
                Err(error) if is_unreachable(&error) => why = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(why.unwrap_or_else(|| Error::broker_code(ErrorCode::COORDINATOR_NOT_AVAILABLE)))
    }

    /// The brokers, those first to which there is a connection.
    async fn any_broker(&self) -> Result<Vec<BrokerAddress>> {
        let mut picture = self.shared.picture();
        if picture.brokers.is_empty() {
            picture = self.shared.refresh(picture.serial).await?;
        }
        let mut brokers: Vec<BrokerAddress> =
            picture.brokers.values().map(|broker| broker.address.clone()).collect();
        brokers.sort_by_key(|address| !self.shared.is_connected(address));
        Ok(brokers)
    }

    /// Keeps positions for a group at its coordinator, outside any membership; on 0.8.1 (or by
    /// setting) a broker keeps them in ZooKeeper. Not fenced: a group with live members refuses it
    /// (error 25 or 22).
    pub async fn commit_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<Vec<Committed>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let broker = self.offsets_broker(group, &tries).await?;
            let answer = self.shared.at(&broker).commit_offsets(group, offsets).await;
            let inside = |answer: &Vec<Committed>| mendable(answer.iter().map(|one| &one.error));
            if !self.once_more(group, &mut tries, wrong_broker(&answer, inside)).await {
                return answer;
            }
        }
    }

    /// Positions kept for a group, in the order of asking.
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> Result<Vec<CommittedOffset>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let broker = self.offsets_broker(group, &tries).await?;
            let answer = self.shared.at(&broker).fetch_offsets(group, partitions).await;
            let inside = |answer: &Vec<CommittedOffset>| mendable(answer.iter().map(|one| &one.error));
            if !self.once_more(group, &mut tries, wrong_broker(&answer, inside)).await {
                return answer;
            }
        }
    }

    /// All positions kept for a group in Kafka (0.10.2 on, KIP-88).
    pub async fn fetch_all_offsets(&self, group: &str) -> Result<Vec<CommittedOffset>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let broker = self.offsets_broker(group, &tries).await?;
            let answer = self.shared.at(&broker).fetch_all_offsets(group).await;
            let inside = |answer: &Vec<CommittedOffset>| mendable(answer.iter().map(|one| &one.error));
            if !self.once_more(group, &mut tries, wrong_broker(&answer, inside)).await {
                return answer;
            }
        }
    }

    /// Whether a broker keeps offsets in ZooKeeper: the offset alone, and nothing beside it.
    pub(crate) async fn keeps_offsets_in_zookeeper(&self, group: &str) -> Result<bool> {
        match self.shared.settings.client.offset_storage {
            OffsetStorage::ZooKeeper => Ok(true),
            OffsetStorage::Kafka => self.coordinator(group).await.map(|_| false),
            OffsetStorage::Newest => match self.coordinator(group).await {
                Ok(_) => Ok(false),
                Err(why) if has_no_coordinators(&why) => Ok(true),
                Err(why) => Err(why),
            },
        }
    }

    /// The coordinator is looked for anew by whoever needs it next.
    pub(crate) fn forget_coordinator(&self, group: &str) {
        self.shared.coordinators().remove(group);
    }

    /// Whether to ask a coordinator again, after a pause.
    async fn once_more(&self, group: &str, tries: &mut Tries, why: Option<Error>) -> bool {
        let Some(why) = why else { return false };
        if why.code() != Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            self.shared.coordinators().remove(group);
        }
        tries.pause(why).await.is_ok()
    }

    /// The coordinator, or any broker where offsets are kept in ZooKeeper.
    async fn offsets_broker(&self, group: &str, tries: &Tries) -> Result<BrokerAddress> {
        let storage = self.shared.settings.client.offset_storage;
        if storage != OffsetStorage::ZooKeeper {
            match self.coordinator(group).await {
                Ok(found) => return Ok(found.address),
                Err(why) if storage == OffsetStorage::Newest && has_no_coordinators(&why) => {}
                Err(why) => return Err(why),
            }
        }
        let any = self.any_broker().await?;
        // Another one after each failure.
        let turn = tries.failures() as usize % any.len().max(1);
        any.into_iter().nth(turn).ok_or_else(|| Error::broker_code(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    }
}

fn is_unreachable(why: &Error) -> bool {
    matches!(
        why.kind(),
        ErrorKind::Connect(_)
            | ErrorKind::Io(_)
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::Unresponsive(_)
            | ErrorKind::WrongProtocol(_)
    )
}

/// What is wrong with an answer that another broker, or a later moment, may mend.
fn wrong_broker<T>(answer: &Result<T>, inside: impl Fn(&T) -> Option<Error>) -> Option<Error> {
    match answer {
        Ok(answer) => inside(answer),
        Err(why) => Some(why.clone()),
    }
}

fn mendable<'a>(errors: impl Iterator<Item = &'a Option<Error>>) -> Option<Error> {
    errors.flatten().find(|why| may_be_mended(why)).cloned()
}

fn may_be_mended(why: &Error) -> bool {
    matches!(
        why.code(),
        Some(
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::NOT_COORDINATOR
                // The topic was made anew: its id is asked for again.
                | ErrorCode::UNKNOWN_TOPIC_ID
                | ErrorCode::INCONSISTENT_TOPIC_ID
        )
    )
}

/// 0.8.0 and 0.8.1.
fn has_no_coordinators(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::Unsupported { broker: None, .. })
}
