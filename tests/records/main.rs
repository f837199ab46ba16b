//! Record sets: the vectors, corner cases and users' complaints, by their numbers.
//!
//! `case_N` is row N of the corner cases of the protocol notes; `D…`, `G…` are complaints about
//! other clients. F and G vectors were made and read by other implementations.

#![allow(clippy::unwrap_used, clippy::panic)]

mod compression;
mod corruption;
mod offsets;
mod random;
mod support;
mod transactions;
mod vectors;
mod writing;
