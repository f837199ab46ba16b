//! Releases that the broker can be: which versions they speak, and their habits.
//!
//! The ranges stand in `releases.txt`; the habits are the ones that a client can tell apart.

use std::fmt;
use std::str::FromStr;

use crate::protocol::{ApiKey, Versions};

const TABLE: &str = include_str!("releases.txt");

macro_rules! releases {
    ($($variant:ident $name:literal)+) => {
        /// A release of Kafka that the embedded broker can behave as, oldest first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Release {
            $($variant,)+
        }

        impl Release {
            /// All of them, oldest first.
            pub const ALL: &'static [Release] = &[$(Release::$variant,)+];
            /// The newest.
            pub const LATEST: Release = Release::ALL[Release::ALL.len() - 1];

            /// The release's number, such as `0.8.2.2`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Release::$variant => $name,)+
                }
            }
        }
    };
}

releases! {
    V0_8_0 "0.8.0"
    V0_8_1 "0.8.1.1"
    V0_8_2 "0.8.2.2"
    V0_9_0 "0.9.0.1"
    V0_10_0 "0.10.0.1"
    V0_10_2 "0.10.2.2"
    V0_11_0 "0.11.0.3"
    V1_0 "1.0.2"
    V1_1 "1.1.1"
    V2_0 "2.0.1"
    V2_1 "2.1.1"
    V2_4 "2.4.1"
    V2_8 "2.8.2"
    V3_3 "3.3.2"
    V3_9 "3.9.1"
    V4_0 "4.0.1"
    V4_1 "4.1.1"
    V4_2 "4.2.0"
    V4_3 "4.3.0"
    V4_4 "4.4.0"
}

/// What a broker does with a request that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnknown {
    /// Closes the connection.
    Close,
    /// Answers nothing and goes on reading: 0.9 throws in its network thread (before KAFKA-3088).
    Ignore,
}

impl Release {
    /// The APIs and their versions, as the release itself advertises them (or, before 0.10, as it
    /// accepts them), by ascending key.
    pub fn apis(self) -> Vec<(ApiKey, Versions)> {
        let line = TABLE.lines().find_map(|line| line.strip_prefix(self.name())?.strip_prefix(' '));
        line.unwrap_or_default().split(' ').filter_map(parse_range).collect()
    }

    /// The version by which this release reads, and answers, a request of `version`; `None` if it
    /// refuses it.
    ///
    /// Before 0.10 (for Fetch: 0.10.1) the version of the oldest APIs is not checked: anything newer
    /// is taken for the newest one that the release knows.
    pub(crate) fn reads_as(self, key: ApiKey, version: i16, known: Versions) -> Option<i16> {
        // 4.x advertises Produce 0–2 for an old librdkafka's sake and refuses them (KAFKA-18659).
        if self >= Release::V4_0 && key == ApiKey(0) && version < 3 {
            return None;
        }
        if known.contains(version) {
            return Some(version);
        }
        let unchecked = match key.0 {
            1 => self <= Release::V0_10_0,
            0 | 2 | 3 | 9 => self <= Release::V0_9_0,
            8 => self == Release::V0_8_1,
            _ => false,
        };
        (unchecked && version > known.max).then_some(known.max)
    }

    /// What becomes of unknown keys and versions.
    pub(crate) fn on_unknown(self) -> OnUnknown {
        if self == Release::V0_9_0 { OnUnknown::Ignore } else { OnUnknown::Close }
    }

    /// Whether the answer to an ApiVersions request of an unknown version says which versions would
    /// have been known (KIP-511).
    pub(crate) fn tells_its_api_versions(self) -> bool {
        self >= Release::V2_4
    }

    /// Whether Metadata lists all live brokers, not only those with a part in the topics returned.
    pub(crate) fn lists_all_brokers(self) -> bool {
        self >= Release::V0_8_2
    }

    /// Whether topics have ids (KIP-516).
    pub(crate) fn has_topic_ids(self) -> bool {
        self >= Release::V2_8
    }

    /// Whether it runs without ZooKeeper here.
    pub(crate) fn is_kraft(self) -> bool {
        self >= Release::V3_3
    }

    /// Whether an error answer to FindCoordinator carries correlation id 0.
    pub(crate) fn forgets_correlation_id(self) -> bool {
        self == Release::V0_8_2
    }

    /// The broker's own limit of a Fetch answer (KIP-541).
    pub(crate) fn fetch_max_bytes(self) -> usize {
        if self >= Release::V2_8 { 57_671_680 } else { i32::MAX as usize }
    }

    /// The newest message format that the release writes.
    pub fn magic(self) -> i8 {
        if self <= Release::V0_9_0 {
            0
        } else if self <= Release::V0_10_2 {
            1
        } else {
            2
        }
    }
}

fn parse_range(text: &str) -> Option<(ApiKey, Versions)> {
    let (key, range) = text.split_once(':')?;
    let (min, max) = range.split_once('-')?;
    Some((ApiKey(key.parse().ok()?), Versions { min: min.parse().ok()?, max: max.parse().ok()? }))
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such release in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRelease(String);

impl fmt::Display for UnknownRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no release {:?}; there are", self.0)?;
        Release::ALL.iter().try_for_each(|release| write!(f, " {release}"))
    }
}

impl std::error::Error for UnknownRelease {}

/// Takes a whole number (`0.8.2.2`) or the beginning of one (`0.8.2`, `4`: the newest that fits).
impl FromStr for Release {
    type Err = UnknownRelease;

    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let fits =
            |name: &str| name.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let found = Release::ALL.iter().rev().find(|release| !text.is_empty() && fits(release.name()));
        found.copied().ok_or_else(|| UnknownRelease(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_a_row_in_ascending_order() {
        for release in Release::ALL {
            let apis = release.apis();
            assert!(apis.len() >= 4, "{release}");
            assert!(apis.windows(2).all(|pair| pair[0].0 < pair[1].0), "{release}");
            let metadata = apis.iter().find(|(key, _)| *key == ApiKey::METADATA);
            assert_eq!(metadata.map(|(_, versions)| versions.min), Some(0), "{release}");
        }
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows, Release::ALL.len());
    }

    #[test]
    fn a_release_is_found_by_the_beginning_of_its_number() {
        assert_eq!("0.8.2.2".parse(), Ok(Release::V0_8_2));
        assert_eq!("0.8.2".parse(), Ok(Release::V0_8_2));
        assert_eq!("0.10".parse(), Ok(Release::V0_10_2));
        assert_eq!("4".parse(), Ok(Release::V4_4));
        assert!("0.7".parse::<Release>().is_err());
        assert!("".parse::<Release>().is_err());
    }

    #[test]
    fn old_releases_take_any_version_of_the_oldest_apis_for_their_newest() {
        let known = Versions { min: 0, max: 0 };
        assert_eq!(Release::V0_8_0.reads_as(ApiKey::FETCH, 7, known), Some(0));
        assert_eq!(Release::V0_10_0.reads_as(ApiKey::FETCH, 3, Versions { min: 0, max: 2 }), Some(2));
        assert_eq!(Release::V0_10_0.reads_as(ApiKey::METADATA, 2, Versions { min: 0, max: 1 }), None);
        assert_eq!(Release::V4_0.reads_as(ApiKey(0), 2, Versions { min: 0, max: 12 }), None);
    }
}
