//! Frames: a 4-byte size, a header, a body.
//!
//! Request header 1 (2 from the first flexible version on) and response header 0 (1 likewise, but
//! always 0 for ApiVersions, KIP-511).

use bytes::Bytes;

use super::message::{Message, read_tags};
use super::{ApiKey, ErrorCode, Field, Request, Version};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// What stands before the body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub request_api_key: ApiKey,
    /// Its version.
    pub request_api_version: i16,
    /// Comes back in the answer.
    pub correlation_id: i32,
    /// Names the client in the broker's logs and quotas; never null or empty from us (KAFKA-3088).
    pub client_id: Option<String>,
}

/// A whole request frame, its size in front.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Bytes, EncodeError> {
    check_version::<R>(version)?;
    let version = R::version(version);
    frame(|writer| {
        writer.i16(R::KEY.0);
        writer.i16(version.number);
        writer.i32(correlation_id);
        // The client id keeps its 2-byte length in header 2 too.
        writer.field("client_id").string_length(Some(client_id.len()), false)?;
        writer.raw(client_id.as_bytes());
        if version.flexible {
            writer.unsigned_varint(0);
        }
        request.write(writer, version)
    })
}

/// A whole response frame, its size in front.
pub fn encode_response<R: Request>(
    response: &R::Response,
    version: i16,
    correlation_id: i32,
) -> Result<Bytes, EncodeError> {
    check_version::<R>(version)?;
    let version = R::version(version);
    frame(|writer| {
        writer.i32(correlation_id);
        if response_header_is_flexible(R::KEY, version) {
            writer.unsigned_varint(0);
        }
        response.write(writer, version)
    })
}

/// Reads a request frame (without its size): header and body, to the last byte.
pub fn decode_request<R: Request>(frame: &Bytes) -> Result<(RequestHeader, R), DecodeError> {
    let mut reader = Reader::of_frame(frame, "request_api_key");
    let header = RequestHeader::read(&mut reader)?;
    if header.request_api_key != R::KEY {
        let problem = Problem::Value { found: header.request_api_key.0.into(), expected: R::NAME };
        return Err(DecodeError { field: "request_api_key", position: 0, problem });
    }
    let version = known_version::<R>(header.request_api_version)?;
    skip_header_tags(&mut reader, version.flexible)?;
    let request = R::read(&mut reader, version)?;
    reader.field(R::NAME).finish()?;
    Ok((header, request))
}

/// Reads a response frame (without its size): correlation id and body, to the last byte.
///
/// An ApiVersions answer that says "no such version" (error 35) is read in the layout of version 0,
/// whatever was asked: that is what every broker sends then (KIP-511).
pub fn decode_response<R: Request>(frame: &Bytes, version: i16) -> Result<(i32, R::Response), DecodeError> {
    let asked = known_version::<R>(version)?;
    let mut reader = Reader::of_frame(frame, "correlation_id");
    let correlation_id = reader.i32()?;
    skip_header_tags(&mut reader, response_header_is_flexible(R::KEY, asked))?;
    let version = response_version(R::KEY, asked, &reader);
    let response = R::Response::read(&mut reader, version)?;
    reader.field(R::Response::NAME).finish()?;
    Ok((correlation_id, response))
}

/// Header 1 of a response has a tag buffer; an ApiVersions response never has that header, so that
/// a client can read it before it knows the broker (KIP-511).
pub(super) fn response_header_is_flexible(key: ApiKey, version: Version) -> bool {
    version.flexible && key != ApiKey::API_VERSIONS
}

/// The version that a response body is in. Only error 35 comes in version 0 whatever was asked;
/// others of ApiVersions (42, 129) come in the version asked for.
pub(super) fn response_version(key: ApiKey, asked: Version, body: &Reader<'_>) -> Version {
    let unsupported = || body.clone().i16() == Ok(ErrorCode::UNSUPPORTED_VERSION.0);
    if key == ApiKey::API_VERSIONS && unsupported() { Version { number: 0, flexible: false } } else { asked }
}

pub(super) fn skip_header_tags(reader: &mut Reader<'_>, flexible: bool) -> Result<(), DecodeError> {
    if flexible { read_tags(reader, |_, _| Ok(())) } else { Ok(()) }
}

pub(super) fn unknown_version(version: i16) -> DecodeError {
    let problem = Problem::Value { found: version.into(), expected: "a version that this crate speaks" };
    DecodeError { field: "request_api_version", position: 2, problem }
}

fn known_version<R: Request>(version: i16) -> Result<Version, DecodeError> {
    if R::VERSIONS.contains(version) { Ok(R::version(version)) } else { Err(unknown_version(version)) }
}

impl RequestHeader {
    /// Reads the fields that all header versions share; the tag buffer of header 2 comes after.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let request_api_key = ApiKey(reader.field("request_api_key").i16()?);
        let request_api_version = reader.field("request_api_version").i16()?;
        let correlation_id = reader.field("correlation_id").i32()?;
        let client_id = match reader.field("client_id").string_length(false)? {
            Some(length) => Some(reader.text(length)?.to_owned()),
            None => None,
        };
        Ok(RequestHeader { request_api_key, request_api_version, correlation_id, client_id })
    }
}

fn check_version<R: Request>(version: i16) -> Result<(), EncodeError> {
    if R::VERSIONS.contains(version) {
        Ok(())
    } else {
        Err(EncodeError::Version { message: R::NAME, version })
    }
}

fn frame(write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    writer.i32(0);
    write(&mut writer)?;
    let size = writer.len() - 4;
    let size = i32::try_from(size).map_err(|_| EncodeError::TooLong { field: "size", length: size })?;
    writer.patch_i32(0, size);
    Ok(writer.into_bytes())
}
