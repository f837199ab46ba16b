//! ApiVersions (key 18): which APIs, and which versions of them, a broker speaks.

use super::ErrorCode;
use super::api::request;

request!(ApiVersionsRequest => ApiVersionsResponse, API_VERSIONS, 0-5, flexible 3);

message! {
    /// Asks a broker which APIs it speaks. From version 3 on it says who asks (KIP-511).
    ApiVersionsRequest {
        /// Letters, digits, `-` and `.`; other characters are refused with error 42.
        [3+, ignorable] client_software_name: String;
        /// As the name.
        [3+, ignorable] client_software_version: String;
        /// The cluster that the client thinks it talks to (KIP-1242).
        [5+, null 5+, ignorable] cluster_id: Option<String>;
        /// The broker that the client thinks it talks to; −1 for unknown.
        [5+, ignorable] node_id: i32 = -1;
    }

    /// What a broker speaks.
    ApiVersionsResponse {
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// One entry per API.
        [0+] api_keys: Vec<ApiVersionRange>;
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// Features the broker supports.
        [3+, tag 0, ignorable] supported_features: Vec<SupportedFeature>;
        /// Age of the finalized features; −1 for unknown.
        [3+, tag 1, ignorable] finalized_features_epoch: i64 = -1;
        /// Features in force in the cluster.
        [3+, tag 2, ignorable] finalized_features: Vec<FinalizedFeature>;
        /// Whether the cluster is ready to migrate from ZooKeeper.
        [3+, tag 3, ignorable] zk_migration_ready: bool;
    }

    /// The versions of one API.
    ApiVersionRange {
        /// The API's key.
        [0+] api_key: i16;
        /// First version.
        [0+] min_version: i16;
        /// Last version.
        [0+] max_version: i16;
    }

    /// A feature and the levels of it that the broker supports.
    SupportedFeature {
        /// Its name.
        [3+] name: String;
        /// Lowest level.
        [3+] min_version: i16;
        /// Highest level.
        [3+] max_version: i16;
    }

    /// A feature and the levels in force.
    FinalizedFeature {
        /// Its name.
        [3+] name: String;
        /// Highest level in force.
        [3+] max_version_level: i16;
        /// Lowest level in force.
        [3+] min_version_level: i16;
    }
}
