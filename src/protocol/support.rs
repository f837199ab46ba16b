//! Every API that this crate speaks, as one table: its versions, and the first broker with each.

use super::any::{ReadBoxed, read_boxed};
use super::*;

/// An API that this crate speaks.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    /// Its key on the wire.
    pub key: ApiKey,
    /// Kafka's name for it.
    pub name: &'static str,
    /// The versions that this crate speaks.
    pub versions: Versions,
    /// The first version with compact lengths and tagged fields (KIP-482); `i16::MAX` for none.
    pub first_flexible: i16,
    /// The first stable broker release with each version, from version 0 on.
    pub since: &'static [&'static str],
    /// Fields of the request.
    pub request: &'static [FieldSpec],
    /// Fields of the response.
    pub response: &'static [FieldSpec],
    pub(super) read_request: ReadBoxed,
    pub(super) read_response: ReadBoxed,
}

impl Api {
    /// The API with that key, if this crate speaks it.
    pub fn of(key: ApiKey) -> Option<&'static Api> {
        APIS.iter().find(|api| api.key == key)
    }

    /// `number` as a version of this API, if this crate speaks it.
    pub fn version(&self, number: i16) -> Option<Version> {
        let known = self.versions.contains(number);
        known.then_some(Version { number, flexible: number >= self.first_flexible })
    }

    /// The first stable broker release with that version.
    pub fn since(&self, version: i16) -> Option<&'static str> {
        usize::try_from(version).ok().and_then(|version| self.since.get(version)).copied()
    }
}

macro_rules! apis {
    ($($request:ident since [$($since:literal)+];)+) => {
        /// Every API that this crate speaks, by key.
        pub static APIS: &[Api] = &[$( Api {
            key: <$request as Request>::KEY,
            name: match stringify!($request).split_at(stringify!($request).len() - "Request".len()) {
                (name, _) => name,
            },
            versions: <$request as Request>::VERSIONS,
            first_flexible: <$request as Request>::FIRST_FLEXIBLE,
            since: &[$($since),+],
            request: <$request as Message>::FIELDS,
            response: <<$request as Request>::Response as Message>::FIELDS,
            read_request: read_boxed::<$request>,
            read_response: read_boxed::<<$request as Request>::Response>,
        }, )+];
    };
}

apis! {
    ProduceRequest since
        ["0.8.0" "0.9" "0.10.0" "0.11" "1.0" "1.0" "2.0" "2.1" "2.4" "2.8" "3.7" "3.8" "4.0" "4.1"];
    FetchRequest since
        ["0.8.0" "0.9" "0.10.0" "0.10.1" "0.11" "0.11" "1.0" "1.1" "2.0" "2.1" "2.1" "2.3" "2.7" "3.1"
         "3.5" "3.5" "3.7" "3.9" "4.1"];
    ListOffsetsRequest since
        ["0.8.0" "0.10.1" "0.11" "2.0" "2.1" "2.2" "2.8" "3.0" "3.5" "3.9" "4.0" "4.2"];
    MetadataRequest since
        ["0.8.0" "0.10.0" "0.10.1" "0.11" "0.11" "1.0" "2.0" "2.1" "2.3" "2.4" "2.8" "2.8" "3.1" "4.0"];
    OffsetCommitRequest since
        ["0.8.1" "0.8.2" "0.9" "0.11" "2.0" "2.1" "2.1" "2.3" "2.4" "3.7" "4.2"];
    OffsetFetchRequest since
        ["0.8.1" "0.8.2" "0.10.2" "0.11" "2.0" "2.1" "2.4" "2.5" "3.0" "3.7" "4.2"];
    FindCoordinatorRequest since ["0.8.2" "0.11" "2.0" "2.4" "3.0" "3.8" "3.9"];
    JoinGroupRequest since ["0.9" "0.10.1" "0.11" "2.0" "2.2" "2.3" "2.4" "2.5" "3.2" "3.2"];
    HeartbeatRequest since ["0.9" "0.11" "2.0" "2.3" "2.4"];
    LeaveGroupRequest since ["0.9" "0.11" "2.0" "2.4" "2.4" "3.2"];
    SyncGroupRequest since ["0.9" "0.11" "2.0" "2.3" "2.4" "2.5"];
    ListGroupsRequest since ["0.9" "0.11" "2.0" "2.4" "2.6" "3.8"];
    SaslHandshakeRequest since ["0.10.0" "1.0"];
    ApiVersionsRequest since ["0.10.0" "0.11" "2.0" "2.4" "3.9" "4.4"];
    InitProducerIdRequest since ["0.11" "2.0" "2.4" "2.5" "2.7" "3.8"];
    OffsetForLeaderEpochRequest since ["0.11" "2.0" "2.1" "2.3" "2.8"];
    SaslAuthenticateRequest since ["1.0" "2.2" "2.5"];
    ConsumerGroupHeartbeatRequest since ["3.7" "4.0"];
}

/// The table of versions in the README, in Markdown.
pub fn versions_table() -> String {
    let mut table = String::from(
        "| API (key) | Versions | Flexible from | First broker with each version |\n|---|---|---|---|\n",
    );
    for api in APIS {
        let flexible = match api.first_flexible {
            i16::MAX => String::from("–"),
            first => first.to_string(),
        };
        let mut since = Vec::new();
        for (versions, release) in runs(api.since) {
            since.push(format!("{versions} → {release}"));
        }
        let (key, versions, since) = (api.key.0, api.versions, since.join(", "));
        table += &format!("| {} ({key}) | {versions} | {flexible} | {since} |\n", api.name);
    }
    table
}

/// Neighbouring versions that came with the same release.
fn runs(since: &[&'static str]) -> Vec<(Versions, &'static str)> {
    let mut runs: Vec<(Versions, &'static str)> = Vec::new();
    for (version, release) in (0..).zip(since) {
        match runs.last_mut() {
            Some((versions, last)) if last == release => versions.max = version,
            _ => runs.push((Versions { min: version, max: version }, release)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_names_its_first_broker_and_releases_never_go_back() {
        let order =
            |release: &str| -> Vec<u32> { release.split('.').map(|part| part.parse().unwrap()).collect() };
        for api in APIS {
            assert_eq!(api.since.len(), api.versions.max as usize + 1, "{}", api.name);
            assert!(api.since.is_sorted_by_key(|release| order(release)), "{}", api.name);
            assert_eq!(api.key.name(), Some(api.name));
        }
        assert!(APIS.is_sorted_by_key(|api| api.key));
    }

    #[test]
    fn neighbours_of_one_release_share_an_entry() {
        assert_eq!(Api::of(ApiKey::FETCH).unwrap().since(4), Some("0.11"));
        assert!(versions_table().contains(
            "| FindCoordinator (10) | 0–6 | 3 | 0 → 0.8.2, 1 → 0.11, 2 → 2.0, 3 → 2.4, 4 → 3.0, 5 → 3.8, 6 → 3.9 |\n"
        ));
    }
}
