//! ApiVersions: the release's own list.

use super::Call;
use crate::protocol::{
    ApiKey, ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse, ErrorCode, Versions,
};
use crate::testing::state::State;

pub(super) fn answer(state: &mut State, call: Call<'_>, request: ApiVersionsRequest) -> ApiVersionsResponse {
    if let Some(error_code) = call.injected.only() {
        return ApiVersionsResponse { error_code, ..Default::default() };
    }
    let named = [&request.client_software_name, &request.client_software_version];
    if call.version >= 3 && !named.into_iter().all(|name| is_valid(name)) {
        return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST, ..Default::default() };
    }
    // KIP-1242: the client says whom it takes this broker for.
    let expected = request.cluster_id.as_deref();
    if expected.is_some_and(|cluster| (cluster, request.node_id) != (&*state.settings.cluster_id, call.node))
    {
        return ApiVersionsResponse { error_code: ErrorCode::REBOOTSTRAP_REQUIRED, ..Default::default() };
    }
    let api_keys = state.apis.iter().map(range).collect();
    ApiVersionsResponse { error_code: ErrorCode(0), api_keys, ..Default::default() }
}

/// To a version that the release does not know, in the layout of version 0.
pub(super) fn unsupported(state: &State) -> ApiVersionsResponse {
    let own = state.apis.iter().filter(|(key, _)| *key == ApiKey::API_VERSIONS).map(range);
    let api_keys = if state.release().tells_its_api_versions() { own.collect() } else { Vec::new() };
    ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, api_keys, ..Default::default() }
}

fn range((key, versions): &(ApiKey, Versions)) -> ApiVersionRange {
    ApiVersionRange { api_key: key.0, min_version: versions.min, max_version: versions.max }
}

/// Letters, digits, `-` and `.`, with a letter or digit at both ends (KIP-511).
fn is_valid(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    name.starts_with(ends) && name.ends_with(ends) && name.chars().all(|c| ends(c) || c == '-' || c == '.')
}
