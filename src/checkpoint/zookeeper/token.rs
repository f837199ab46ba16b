//! Who claimed a document: one last key of it, which everybody else passes over.
//!
//! ```json
//! {"topology":{…},"offset":4,…,"topic":"t","claim":"9f3c"}
//! ```
//!
//! A claim writes what is there already. Two owners that do so at once, and lose their answers, could not
//! tell whose write it is that they find; the key makes it plain.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

const BEGIN: &str = ",\"claim\":\"";
const END: &str = "\"}";

/// A run as a name that needs no escapes, in JSON or in a path.
pub(super) fn name(run: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !run.is_empty() && run.chars().all(is_plain) {
        true => run.to_owned(),
        false => format!("_{}", BASE64_URL_SAFE_NO_PAD.encode(run)),
    }
}

/// A name that nobody else has.
pub(super) fn random() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("by-hand-{:016x}", RandomState::new().hash_one(std::time::SystemTime::now()))
}

/// The document with this claim in place of any that was in it.
pub(super) fn claimed(document: &[u8], name: &str) -> Vec<u8> {
    let bare = without(document);
    let end = bare.iter().rposition(|byte| *byte == b'}').unwrap_or(bare.len());
    [&bare[..end], BEGIN.as_bytes(), name.as_bytes(), END.as_bytes()].concat()
}

/// The document without a claim.
pub(super) fn without(document: &[u8]) -> Vec<u8> {
    let claim = document.windows(BEGIN.len()).rposition(|bytes| bytes == BEGIN.as_bytes());
    let Some(begin) = claim else { return document.to_vec() };
    let value = &document[begin + BEGIN.len()..];
    match value.strip_suffix(END.as_bytes()) {
        Some(name) if !name.iter().any(|byte| matches!(byte, b'"' | b'\\')) => {
            [&document[..begin], b"}"].concat()
        }
        _ => document.to_vec(),
    }
}

/// Who claimed it, if that was the last that happened to it.
pub(super) fn claimant(document: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(document).ok()?;
    document.get("claim")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_one_last_key_and_goes_without_a_trace() {
        let document = br#"{"offset":4,"topic":"t"}"#;
        let first = claimed(document, "one");
        assert_eq!(first, br#"{"offset":4,"topic":"t","claim":"one"}"#);
        let second = claimed(&first, "two");
        assert_eq!(second, br#"{"offset":4,"topic":"t","claim":"two"}"#);
        assert_eq!((claimant(&second).as_deref(), claimant(document)), (Some("two"), None));
        assert_eq!(without(&second), document);
        // What only looks like one stays.
        let odd = br#"{"name":",\"claim\":\"x\"","offset":4}"#;
        assert_eq!(without(odd), odd);
        assert_eq!(without(&claimed(odd, "one")), odd);
    }

    #[test]
    fn any_run_is_a_name() {
        assert_eq!(name("9f3c-1_a"), "9f3c-1_a");
        for run in ["", "a/b", "\"", "né"] {
            let name = name(run);
            assert!(!name.is_empty() && !name.contains(['/', '"', '\\']), "{name}");
        }
        assert_ne!(name("a/b"), name("a/c"));
    }
}
