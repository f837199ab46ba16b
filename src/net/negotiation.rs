//! The first words on a connection: ApiVersions, with its two ways of saying "not that version".

use bytes::Bytes;
use std::time::Duration;

use super::connection::{Connection, RequestOptions};
use super::dialer::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, ErrorCode, Request, decode_response};
use crate::wire::Reader;

/// Asks the broker which versions it speaks, newest way first; and whether it is who it is taken for.
pub(super) async fn ask_versions(
    connection: &Connection,
    timeout: Duration,
    identity: Option<&Identity>,
) -> Result<ApiVersionsResponse> {
    let mut version = ApiVersionsRequest::VERSIONS.max;
    loop {
        let request = ApiVersionsRequest {
            client_software_name: env!("CARGO_PKG_NAME").into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            cluster_id: identity.map(|identity| identity.cluster_id.clone()),
            node_id: identity.map_or(-1, |identity| identity.node_id),
        };
        let options = RequestOptions::within(timeout);
        let answer = connection.request(&request, version, options)?.raw().await?;
        let told = understand(&answer, version)
            .map_err(|why| why.with_api(ApiKey::API_VERSIONS, version).with_broker(connection.broker()))?;
        match told {
            Told::Versions(versions) => return Ok(versions),
            Told::AskAgainAt(lower) => version = lower,
        }
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    Versions(ApiVersionsResponse),
    AskAgainAt(i16),
}

/// Reads an answer to ApiVersions `version`.
///
/// A broker that does not know the version answers error 35 in the layout of version 0: up to 2.3
/// with an empty list, since 2.4 with the versions of ApiVersions itself (KIP-511).
fn understand(answer: &Bytes, version: i16) -> Result<Told> {
    let mut reader = Reader::new(answer, "correlation_id");
    reader.i32()?;
    let code = ErrorCode(reader.field("error_code").i16()?);
    let layout = if code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
    let (_, response) = decode_response::<ApiVersionsRequest>(answer, layout)?;
    if code == ErrorCode(0) {
        return Ok(Told::Versions(response));
    }
    let ours = ApiVersionsRequest::VERSIONS;
    if code != ErrorCode::UNSUPPORTED_VERSION || version == ours.min {
        return Err(Error::broker_code(code));
    }
    let theirs = response.api_keys.iter().find(|api| ApiKey(api.api_key) == ApiKey::API_VERSIONS);
    // Each turn goes down by one version at least, so that a broker that always says 35 ends it.
    let lower = theirs.map_or(ours.min, |range| range.max_version.min(version - 1));
    if lower < ours.min {
        return Err(Error::new(ErrorKind::Broker { code, message: None }));
    }
    Ok(Told::AskAgainAt(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: &[u8]) -> Bytes {
        [&[0, 0, 0, 1], bytes].concat().into()
    }

    #[test]
    fn case_44_error_35_is_read_in_the_layout_of_version_0() {
        // 0.10–2.3: an empty list. 2.4 on: one entry, key 18, versions 0–3.
        let empty = answer(&[0, 35, 0, 0, 0, 0]);
        let entry = answer(&[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3]);
        for version in 3..=5 {
            assert_eq!(understand(&empty, version).unwrap(), Told::AskAgainAt(0));
        }
        assert_eq!(understand(&entry, 5).unwrap(), Told::AskAgainAt(3));
        assert_eq!(understand(&entry, 4).unwrap(), Told::AskAgainAt(3));
    }

    #[test]
    fn a_broker_that_always_answers_35_ends_the_negotiation() {
        let entry = answer(&[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 9]);
        let mut version = 5;
        let mut turns = 0;
        while let Ok(Told::AskAgainAt(lower)) = understand(&entry, version) {
            assert!(lower < version);
            version = lower;
            turns += 1;
        }
        assert_eq!((version, turns), (0, 5));
        let nonsense = answer(&[0, 35, 0, 0, 0, 1, 0, 18, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(understand(&nonsense, 3).unwrap_err().code(), Some(ErrorCode::UNSUPPORTED_VERSION));
    }

    #[test]
    fn case_45_unknown_tagged_fields_of_the_answer_are_skipped() {
        let tagged = answer(&[0, 0, 2, 0, 1, 0, 4, 0, 18, 0, 0, 0, 0, 0, 1, 99, 2, 7, 7]);
        let Told::Versions(response) = understand(&tagged, 3).unwrap() else { panic!() };
        assert_eq!(response.api_keys[0].max_version, 18);
    }

    #[test]
    fn another_error_is_an_error() {
        let refused = answer(&[0, 42, 1, 0, 0, 0, 0, 0]);
        assert_eq!(understand(&refused, 3).unwrap_err().code(), Some(ErrorCode(42)));
    }
}
