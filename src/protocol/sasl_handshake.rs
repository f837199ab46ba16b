//! SaslHandshake (key 17): chooses how to log in (KIP-43).
//!
//! After version 0 the tokens travel bare (a 4-byte length and the token); after version 1 in
//! SaslAuthenticate (KIP-152). No version above 1 can ever come (KAFKA-9577).

use super::ErrorCode;
use super::api::request;

request!(SaslHandshakeRequest => SaslHandshakeResponse, SASL_HANDSHAKE, 0-1, flexible i16::MAX);

message! {
    /// Chooses a mechanism.
    SaslHandshakeRequest {
        /// Its name: `PLAIN`, `SCRAM-SHA-256`, …
        [0+] mechanism: String;
    }

    /// Whether the broker takes the mechanism.
    SaslHandshakeResponse {
        /// The error, or 0; 33 for a mechanism that the broker does not take.
        [0+] error_code: ErrorCode;
        /// The mechanisms that it takes.
        [0+] mechanisms: Vec<String>;
    }
}
