//! Requests and responses: one file per API, every version, both directions.
//!
//! A message is a table of fields, one line each with the versions that carry it (see `message!`);
//! reading, writing, defaults, and the description used by `downspout decode` all come from that
//! one line. A request names its key, its versions, its first flexible version and its response by
//! type ([`Request`]), so that an answer cannot be taken for another.

#[macro_use]
mod message;

mod api;
mod api_versions;
mod error_code;
mod fetch;
mod field;
mod frame;
mod metadata;

pub use api::{ApiKey, Request};
pub use api_versions::*;
pub use error_code::ErrorCode;
pub use fetch::*;
pub use field::{Field, Version, Visitor};
pub use frame::{RequestHeader, decode_request, decode_response, encode_request, encode_response};
pub use message::{FieldSpec, Kind, Message, Versions};
pub use metadata::*;
