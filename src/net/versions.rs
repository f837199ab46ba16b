use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, ApiVersionsResponse, Request, Versions};

/// The versions of each API that one broker speaks, as negotiated on one connection.
///
/// They are asked again on every connection: an upgrade changes them (librdkafka#4870).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerVersions {
    ranges: BTreeMap<ApiKey, Versions>,
    source: VersionSource,
}

/// How the versions of a broker became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionSource {
    /// The broker told them (0.10 on).
    Advertised,
    /// The broker cannot tell; it behaves as this release does.
    Detected(LegacyRelease),
    /// The caller said what the broker is.
    Configured(LegacyRelease),
}

/// Brokers from before ApiVersions (0.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LegacyRelease {
    V0_8_0,
    V0_8_1,
    V0_8_2,
    V0_9,
}

impl LegacyRelease {
    /// What these brokers accept: key and last version (the first is 0). Seen in their sources.
    const fn table(self) -> &'static [(i16, i16)] {
        match self {
            LegacyRelease::V0_8_0 => &[(0, 0), (1, 0), (2, 0), (3, 0)],
            // Offsets version 0: the broker keeps them in ZooKeeper.
            LegacyRelease::V0_8_1 => &[(0, 0), (1, 0), (2, 0), (3, 0), (8, 0), (9, 0)],
            // It registers JoinGroup and Heartbeat too, unfinished: left out.
            LegacyRelease::V0_8_2 => &[(0, 0), (1, 0), (2, 0), (3, 0), (8, 1), (9, 1), (10, 0)],
            LegacyRelease::V0_9 => &[
                (0, 1),
                (1, 1),
                (2, 0),
                (3, 0),
                (8, 2),
                (9, 1),
                (10, 0),
                (11, 0),
                (12, 0),
                (13, 0),
                (14, 0),
                (15, 0),
                (16, 0),
            ],
        }
    }
}

impl fmt::Display for LegacyRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LegacyRelease::V0_8_0 => "0.8.0",
            LegacyRelease::V0_8_1 => "0.8.1",
            LegacyRelease::V0_8_2 => "0.8.2",
            LegacyRelease::V0_9 => "0.9",
        })
    }
}

impl BrokerVersions {
    /// From the answer to ApiVersions.
    pub fn advertised(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter().map(|api| {
            let mut range = Versions { min: api.min_version, max: api.max_version };
            // 4.x says 0 for the sake of old librdkafka, but closes on 0–2 (KAFKA-18659).
            if api.api_key == ApiKey::PRODUCE.0 && range.max >= 12 {
                range.min = range.min.max(3);
            }
            (ApiKey(api.api_key), range)
        });
        BrokerVersions { ranges: ranges.collect(), source: VersionSource::Advertised }
    }

    /// Of a release that cannot tell by itself.
    pub fn legacy(release: LegacyRelease, source: VersionSource) -> Self {
        let range = |&(key, max): &(i16, i16)| (ApiKey(key), Versions { min: 0, max });
        BrokerVersions { ranges: release.table().iter().map(range).collect(), source }
    }

    /// How they became known.
    pub fn source(&self) -> VersionSource {
        self.source
    }

    /// What the broker speaks of an API; `None` if it does not have it.
    pub fn range(&self, api: ApiKey) -> Option<Versions> {
        self.ranges.get(&api).copied()
    }

    /// All APIs of the broker, by key.
    pub fn iter(&self) -> impl Iterator<Item = (ApiKey, Versions)> + '_ {
        self.ranges.iter().map(|(api, range)| (*api, *range))
    }

    /// The newest version of `R` that both sides speak.
    pub fn choose<R: Request>(&self) -> Result<i16> {
        self.choose_within::<R>(R::VERSIONS)
    }

    /// The newest version of `R` that both sides speak and that lies within `allowed`: for what this
    /// request needs, or what the caller pinned.
    pub fn choose_within<R: Request>(&self, allowed: Versions) -> Result<i16> {
        let ours = allowed.intersection(R::VERSIONS).unwrap_or(Versions::NONE);
        let broker = self.range(R::KEY);
        broker
            .and_then(|range| range.intersection(ours))
            .map(|both| both.max)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported { ours, broker }).with_api(R::KEY, ours.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::protocol::{ApiVersionRange, ApiVersionsRequest, FetchRequest, MetadataRequest};

    fn advertised(ranges: &[(i16, i16, i16)]) -> BrokerVersions {
        let api_keys = ranges.iter().map(|&(api_key, min_version, max_version)| ApiVersionRange {
            api_key,
            min_version,
            max_version,
        });
        BrokerVersions::advertised(&ApiVersionsResponse {
            api_keys: api_keys.collect(),
            ..ApiVersionsResponse::default()
        })
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        let versions = advertised(&[(1, 4, 11), (3, 0, 99)]);
        assert_eq!(versions.choose::<FetchRequest>().unwrap(), 11);
        assert_eq!(versions.choose::<MetadataRequest>().unwrap(), MetadataRequest::VERSIONS.max);
        let capped = Versions { min: 0, max: 7 };
        assert_eq!(versions.choose_within::<FetchRequest>(capped).unwrap(), 7);
    }

    #[test]
    fn b3_the_minimum_of_the_broker_counts_too_and_both_ranges_are_named() {
        let versions = advertised(&[(1, 4, 18)]);
        let error = versions.choose_within::<FetchRequest>(Versions { min: 0, max: 3 }).unwrap_err();
        assert!(error.to_string().contains("this client speaks 0–3, the broker 4–18"), "{error}");
        assert_eq!(error.fault(), Fault::Caller);
        let error = versions.choose_within::<FetchRequest>(Versions { min: 19, max: 30 }).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    }

    #[test]
    fn an_api_that_is_missing_from_the_list_is_not_sent() {
        let error = advertised(&[(1, 4, 18)]).choose::<MetadataRequest>().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { broker: None, .. }), "{error:?}");
        assert!(
            BrokerVersions::legacy(LegacyRelease::V0_9, VersionSource::Detected(LegacyRelease::V0_9))
                .choose::<ApiVersionsRequest>()
                .is_err()
        );
    }

    #[test]
    fn case_51_produce_starts_at_3_on_a_4_x_broker_whatever_it_says() {
        let min = |versions: BrokerVersions| versions.range(ApiKey::PRODUCE).map(|range| range.min);
        assert_eq!(min(advertised(&[(0, 0, 13)])), Some(3));
        assert_eq!(min(advertised(&[(0, 0, 12)])), Some(3));
        assert_eq!(min(advertised(&[(0, 0, 11)])), Some(0));
    }

    #[test]
    fn case_47_releases_before_0_10_have_what_their_sources_have() {
        let of = |release| BrokerVersions::legacy(release, VersionSource::Detected(release));
        let has = |release, key| of(release).range(ApiKey(key)).map(|range| range.max);
        assert_eq!(has(LegacyRelease::V0_8_0, 9), None, "OffsetFetch");
        assert_eq!(has(LegacyRelease::V0_8_1, 9), Some(0));
        assert_eq!(has(LegacyRelease::V0_8_2, 10), Some(0), "FindCoordinator");
        assert_eq!(has(LegacyRelease::V0_8_2, 11), None, "unfinished JoinGroup");
        assert_eq!(has(LegacyRelease::V0_9, 1), Some(1));
    }
}
