//! Requests and responses: one file per API, every version, both directions.
//!
//! A message is a table of fields, one line each with the versions that carry it (see `message!`);
//! reading, writing, defaults, and the description used by `downspout decode` all come from that
//! one line. A request names its key, its versions, its first flexible version and its response by
//! type ([`Request`]), so that an answer cannot be taken for another. [`APIS`] lists them all with
//! the first broker of each version; [`any`] reads one whose API is known only at run time.

#[macro_use]
mod message;

pub mod any;
mod api;
mod api_versions;
mod consumer_group_heartbeat;
mod consumer_protocol;
mod error_code;
mod fetch;
mod field;
mod find_coordinator;
mod frame;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leader_hints;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sasl_authenticate;
mod sasl_handshake;
mod support;
mod sync_group;

pub use api::{ApiKey, Request};
pub use api_versions::*;
pub use consumer_group_heartbeat::*;
pub use consumer_protocol::*;
pub use error_code::{ErrorCode, Remedy};
pub use fetch::*;
pub use field::{Field, Version, Visitor};
pub use find_coordinator::*;
pub use frame::{RequestHeader, decode_request, decode_response, encode_request, encode_response};
pub use heartbeat::*;
pub use init_producer_id::*;
pub use join_group::*;
pub use leader_hints::*;
pub use leave_group::*;
pub use list_groups::*;
pub use list_offsets::*;
pub use message::{FieldSpec, Kind, Message, Versions};
pub use metadata::*;
pub use offset_commit::*;
pub use offset_fetch::*;
pub use offset_for_leader_epoch::*;
pub use produce::*;
pub use sasl_authenticate::*;
pub use sasl_handshake::*;
pub use support::{APIS, Api, versions_table};
pub use sync_group::*;
