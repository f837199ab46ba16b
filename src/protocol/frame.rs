//! Frames: a 4-byte size, a header, a body.
//!
//! Request header 1 (2 from the first flexible version on) and response header 0 (1 likewise, but
//! always 0 for ApiVersions, KIP-511).

use bytes::Bytes;

use super::message::{Message, read_tags};
use super::{ApiKey, Field, Request};
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
        if version.flexible && R::KEY != ApiKey::API_VERSIONS {
            writer.unsigned_varint(0);
        }
        response.write(writer, version)
    })
}

/// Reads a request frame (without its size): header and body, to the last byte.
pub fn decode_request<R: Request>(frame: &Bytes) -> Result<(RequestHeader, R), DecodeError> {
    let mut reader = Reader::of_frame(frame, "request_api_key");
    let header = RequestHeader::read(&mut reader)?;
    let version = R::version(header.request_api_version);
    if header.request_api_key != R::KEY {
        return Err(DecodeError {
            field: "request_api_key",
            position: 0,
            problem: Problem::Value { found: header.request_api_key.0.into(), expected: R::NAME },
        });
    }
    if version.flexible {
        read_tags(&mut reader, |_, _| Ok(()))?;
    }
    let request = R::read(&mut reader, version)?;
    reader.field(R::NAME).finish()?;
    Ok((header, request))
}

/// Reads a response frame (without its size): correlation id and body, to the last byte.
pub fn decode_response<R: Request>(frame: &Bytes, version: i16) -> Result<(i32, R::Response), DecodeError> {
    let version = R::version(version);
    let mut reader = Reader::of_frame(frame, "correlation_id");
    let correlation_id = reader.i32()?;
    if version.flexible && R::KEY != ApiKey::API_VERSIONS {
        read_tags(&mut reader, |_, _| Ok(()))?;
    }
    let response = R::Response::read(&mut reader, version)?;
    reader.field(R::Response::NAME).finish()?;
    Ok((correlation_id, response))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::*;

    fn hex(text: &str) -> Bytes {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn p27_fetch_request_12() {
        let p27 = hex(
            "000000520001000c0000000400056b7465737400ffffffff000001f400000001032000000000000000ffffffff0202740200000000000000050000000000000000ffffffffffffffffffffffff001000000000010100",
        );
        let (header, request) = decode_request::<FetchRequest>(&p27.slice(4..)).unwrap();
        assert_eq!(header.client_id.as_deref(), Some("ktest"));
        assert_eq!(request.topics[0].partitions[0].current_leader_epoch, 5);
        assert_eq!(encode_request(&request, 12, 4, "ktest").unwrap(), p27);
    }
}
