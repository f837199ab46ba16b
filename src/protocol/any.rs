//! Messages whose API is known only at run time: for tools, fuzzers and tests.

use std::any::Any;
use std::fmt;

use bytes::Bytes;

use super::frame::{self, RequestHeader};
use super::{Api, ApiKey, FieldSpec, Message, Version, Visitor};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// A request of any API.
#[derive(Debug)]
pub struct AnyRequest {
    /// Its header.
    pub header: RequestHeader,
    /// Its body.
    pub message: AnyMessage,
}

/// A response of any API.
#[derive(Debug)]
pub struct AnyResponse {
    /// The request that it answers.
    pub correlation_id: i32,
    /// Its body.
    pub message: AnyMessage,
}

/// A message of any API, and the version that it is in.
pub struct AnyMessage {
    api: &'static Api,
    version: Version,
    body: Box<dyn Body>,
}

/// Reads a request frame (without its size): header and body, to the last byte.
pub fn decode_request(frame: &Bytes) -> Result<AnyRequest, DecodeError> {
    let mut reader = Reader::of_frame(frame, "request_api_key");
    let header = RequestHeader::read(&mut reader)?;
    let (api, version) = find(header.request_api_key, header.request_api_version)?;
    frame::skip_header_tags(&mut reader, version.flexible)?;
    let message = AnyMessage::read(api, version, api.read_request, &mut reader)?;
    Ok(AnyRequest { header, message })
}

/// Reads a response frame (without its size) to a request of `key` in `version`: correlation id and
/// body, to the last byte.
pub fn decode_response(key: ApiKey, version: i16, frame: &Bytes) -> Result<AnyResponse, DecodeError> {
    let (api, asked) = find(key, version)?;
    let mut reader = Reader::of_frame(frame, "correlation_id");
    let correlation_id = reader.i32()?;
    frame::skip_header_tags(&mut reader, frame::response_header_is_flexible(key, asked))?;
    let version = frame::response_version(key, asked, &reader);
    let message = AnyMessage::read(api, version, api.read_response, &mut reader)?;
    Ok(AnyResponse { correlation_id, message })
}

/// Reads a request body alone, to the last byte.
pub fn decode_request_body(key: ApiKey, version: i16, body: &Bytes) -> Result<AnyMessage, DecodeError> {
    let (api, version) = find(key, version)?;
    AnyMessage::read(api, version, api.read_request, &mut Reader::of_frame(body, api.name))
}

/// Reads a response body alone, to the last byte.
pub fn decode_response_body(key: ApiKey, version: i16, body: &Bytes) -> Result<AnyMessage, DecodeError> {
    let (api, version) = find(key, version)?;
    AnyMessage::read(api, version, api.read_response, &mut Reader::of_frame(body, api.name))
}

impl AnyMessage {
    /// The API.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// The version that the bytes were in: version 0 for the answer to an ApiVersions request that
    /// the broker does not know (KIP-511), whatever was asked.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its name: `FetchRequest`, …
    pub fn name(&self) -> &'static str {
        self.body.name()
    }

    /// The table of its fields.
    pub fn fields(&self) -> &'static [FieldSpec] {
        self.body.fields()
    }

    /// Shows it to a visitor, field by field.
    pub fn visit(&self, visitor: &mut dyn Visitor) {
        self.body.visit_body(self.version, visitor);
    }

    /// The body's bytes, without frame and header.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut writer = Writer::new();
        self.body.write_body(&mut writer, self.version)?;
        Ok(writer.into_bytes())
    }

    /// The message as its own type.
    pub fn downcast_ref<M: Message + 'static>(&self) -> Option<&M> {
        self.body.as_any().downcast_ref()
    }

    fn read(
        api: &'static Api,
        version: Version,
        read: ReadBoxed,
        reader: &mut Reader<'_>,
    ) -> Result<AnyMessage, DecodeError> {
        let body = read(reader, version)?;
        reader.field(body.name()).finish()?;
        Ok(AnyMessage { api, version, body })
    }
}

impl PartialEq for AnyMessage {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.body.equals(&*other.body)
    }
}

impl fmt::Debug for AnyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} v{}", self.body, self.version.number)
    }
}

fn find(key: ApiKey, version: i16) -> Result<(&'static Api, Version), DecodeError> {
    let unknown = |field, found: i16, expected| DecodeError {
        field,
        position: 0,
        problem: Problem::Value { found: found.into(), expected },
    };
    let api = Api::of(key).ok_or(unknown("request_api_key", key.0, "an API that this crate speaks"))?;
    let version = api.version(version).ok_or(frame::unknown_version(version))?;
    Ok((api, version))
}

/// A message behind a pointer.
pub trait Body: fmt::Debug + Send + Sync {
    /// As [`Message::NAME`].
    fn name(&self) -> &'static str;
    /// As [`Message::FIELDS`].
    fn fields(&self) -> &'static [FieldSpec];
    /// As [`Field::write`](super::Field::write).
    fn write_body(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError>;
    /// As [`Field::visit`](super::Field::visit).
    fn visit_body(&self, version: Version, visitor: &mut dyn Visitor);
    /// For a downcast.
    fn as_any(&self) -> &dyn Any;
    /// Whether the other one is the same message.
    fn equals(&self, other: &dyn Body) -> bool;
}

impl<M: Message + 'static> Body for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn fields(&self) -> &'static [FieldSpec] {
        M::FIELDS
    }

    fn write_body(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        self.write(writer, version)
    }

    fn visit_body(&self, version: Version, visitor: &mut dyn Visitor) {
        self.visit(version, visitor);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Body) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }
}

/// [`read_boxed`] of one message.
pub(super) type ReadBoxed = fn(&mut Reader<'_>, Version) -> Result<Box<dyn Body>, DecodeError>;

pub(super) fn read_boxed<M: Message + 'static>(
    reader: &mut Reader<'_>,
    version: Version,
) -> Result<Box<dyn Body>, DecodeError> {
    Ok(Box::new(M::read(reader, version)?))
}
