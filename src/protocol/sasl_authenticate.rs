//! SaslAuthenticate (key 36): carries the tokens of a login (KIP-152). 1: how long it lasts
//! (KIP-368).

use bytes::Bytes;

use super::ErrorCode;
use super::api::request;

request!(SaslAuthenticateRequest => SaslAuthenticateResponse, SASL_AUTHENTICATE, 0-2, flexible 2);

message! {
    /// A token of the client.
    SaslAuthenticateRequest {
        /// The token. A secret with most mechanisms: never log it.
        [0+] auth_bytes: Bytes;
    }

    /// A token of the broker.
    SaslAuthenticateResponse {
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// The error in words.
        [0+, null 0+] error_message: Option<String> = String::new();
        /// The token.
        [0+] auth_bytes: Bytes;
        /// After how many ms the broker wants a new login on this connection; 0 for never
        /// (KIP-368).
        [1+, ignorable] session_lifetime_ms: i64;
    }
}
