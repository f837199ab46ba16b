//! InitProducerId (key 22): an id for an idempotent or transactional producer (KIP-98).
//!
//! 3: carries on with an epoch after an error (KIP-360) · 4: may return 90 · 5: may return 120.
//! Version 6 (two-phase commit) is not stable in any release up to 4.4.

use super::ErrorCode;
use super::api::request;

request!(InitProducerIdRequest => InitProducerIdResponse, INIT_PRODUCER_ID, 0-5, flexible 2);

message! {
    /// Asks for a producer id.
    InitProducerIdRequest {
        /// The transactional id, null for a producer that is only idempotent.
        [0+, null 0+] transactional_id: Option<String> = String::new();
        /// After how long the broker aborts a transaction that stands still, in ms.
        [0+] transaction_timeout_ms: i32;
        /// The id held so far, −1 for none (KIP-360).
        [3+] producer_id: i64 = -1;
        /// The epoch held so far, −1 for none (KIP-360).
        [3+] producer_epoch: i16 = -1;
    }

    /// A producer id.
    InitProducerIdResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 1 on).
        [0+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// The id.
        [0+] producer_id: i64 = -1;
        /// Its epoch.
        [0+] producer_epoch: i16;
    }
}
