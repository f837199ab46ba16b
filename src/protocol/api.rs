use std::fmt;

use super::Version;
use super::message::{Message, Versions};

/// A request: what it asks, in which versions, and the type of its answer.
pub trait Request: Message {
    /// The API's key on the wire.
    const KEY: ApiKey;
    /// The versions that this crate speaks.
    const VERSIONS: Versions;
    /// The first version with compact lengths and tagged fields (KIP-482); `i16::MAX` for none.
    const FIRST_FLEXIBLE: i16;
    /// What answers it.
    type Response: Message;

    /// `number` as a version of this API.
    fn version(number: i16) -> Version {
        Version { number, flexible: number >= Self::FIRST_FLEXIBLE }
    }
}

/// Ties a request to its key, versions, first flexible version and response.
macro_rules! request {
    ($request:ident => $response:ident, $key:ident, $min:literal - $max:literal, flexible $flexible:expr) => {
        impl $crate::protocol::Request for $request {
            const KEY: $crate::protocol::ApiKey = $crate::protocol::ApiKey::$key;
            const VERSIONS: $crate::protocol::Versions = $crate::protocol::Versions { min: $min, max: $max };
            const FIRST_FLEXIBLE: i16 = $flexible;
            type Response = $response;
        }
    };
}
pub(super) use request;

/// The key of an API; unknown ones are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

#[allow(missing_docs)]
impl ApiKey {
    pub const FETCH: ApiKey = ApiKey(1);
    pub const METADATA: ApiKey = ApiKey(3);
    pub const API_VERSIONS: ApiKey = ApiKey(18);
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
