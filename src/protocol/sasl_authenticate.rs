//! SaslAuthenticate (key 36): carries the tokens of a login (KIP-152). 1: how long it lasts
//! (KIP-368).

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

use super::api::request;
use super::{ErrorCode, Field, Kind, Version, Visitor};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

request!(SaslAuthenticateRequest => SaslAuthenticateResponse, SASL_AUTHENTICATE, 0-2, flexible 2);

message! {
    /// A token of the client.
    SaslAuthenticateRequest {
        /// The token.
        [0+] auth_bytes: SaslToken;
    }

    /// A token of the broker.
    SaslAuthenticateResponse {
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// The error in words.
        [0+, null 0+] error_message: Option<String> = String::new();
        /// The token.
        [0+] auth_bytes: SaslToken;
        /// After how many ms the broker wants a new login on this connection; 0 for never
        /// (KIP-368).
        [1+, ignorable] session_lifetime_ms: i64;
    }
}

/// A message of a SASL mechanism. With most of them a secret, so `Debug` shows its size alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SaslToken(pub Bytes);

impl Deref for SaslToken {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl<T: Into<Bytes>> From<T> for SaslToken {
    fn from(bytes: T) -> Self {
        SaslToken(bytes.into())
    }
}

impl fmt::Debug for SaslToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** ({} bytes)", self.len())
    }
}

impl Field for SaslToken {
    const KIND: Kind = Bytes::KIND;

    fn smallest(version: Version) -> usize {
        Bytes::smallest(version)
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        Bytes::read(reader, version).map(SaslToken)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        self.0.write(writer, version)
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        self.0.visit(version, visitor);
    }
}
