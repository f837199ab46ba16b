//! The codecs of requests and responses, seen from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod corner_cases;
mod generate;
mod readme;
mod round_trips;
mod schemas;
mod second_opinion;
mod vectors;
