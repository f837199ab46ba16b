//! The codecs of requests and responses, seen from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod schemas;
mod vectors;
