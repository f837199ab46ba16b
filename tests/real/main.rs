//! Downspout against real Kafka brokers, one test per release. See `harness` for how they are had and run.
//!
//! A release's checks share one broker and one JVM of that release's own classes, because starting them is most of
//! the cost. Each check has a name; a failure says the release, the check, what was expected and what came.
//!
//! The releases of the default run are always tested; the others are ignored tests, run by
//! `cargo test --test real --features cli -- --include-ignored` (`tests/run --all`).
//!
//! `zookeeper` has sessions with real ZooKeepers, what befalls them, and what is found there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![allow(unreachable_pub, missing_docs)]

mod checkpoints;
mod cli;
mod clusters;
mod compacted;
mod corpus;
#[allow(dead_code, unused_imports)] // a tool box: what a test may need
mod harness;
mod lifecycle;
mod negotiation;
mod offsets;
mod produce;
mod raw;
mod reads;
mod record;
mod security;
mod simple_consumer;
mod simple_reads;
mod spout;
mod spout_lives;
mod stage;
mod storm;
mod transactions;
mod upgraded;
mod versions;
mod zookeeper;

macro_rules! releases {
    ($($test:ident $release:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { stage::run($release); })*

        /// A release that is in the table and not here would never be tested.
        #[test]
        fn every_release_of_the_table_has_its_test() {
            let tests: &[(&str, bool)] = &[$(($release, concat!($(stringify!($attribute))?).is_empty())),*];
            let table: Vec<(&str, bool)> = harness::RELEASES.iter().map(|r| (r.name, r.default_run)).collect();
            assert_eq!(tests, table);
        }
    };
}

releases! {
    kafka_0_8_0 "0.8.0";
    kafka_0_8_1_1 "0.8.1.1";
    kafka_0_8_2_2 "0.8.2.2";
    kafka_0_9_0_1 "0.9.0.1";
    kafka_0_10_0_1 "0.10.0.1";
    kafka_0_10_1_1 "0.10.1.1" #[ignore = "with tests/run --all"];
    kafka_0_10_2_2 "0.10.2.2";
    kafka_0_11_0_3 "0.11.0.3";
    kafka_1_0_2 "1.0.2" #[ignore = "with tests/run --all"];
    kafka_1_1_1 "1.1.1";
    kafka_2_0_1 "2.0.1";
    kafka_2_1_1 "2.1.1" #[ignore = "with tests/run --all"];
    kafka_2_2_2 "2.2.2" #[ignore = "with tests/run --all"];
    kafka_2_3_1 "2.3.1" #[ignore = "with tests/run --all"];
    kafka_2_4_1 "2.4.1";
    kafka_2_5_1 "2.5.1" #[ignore = "with tests/run --all"];
    kafka_2_7_2 "2.7.2" #[ignore = "with tests/run --all"];
    kafka_2_8_2 "2.8.2";
    kafka_3_0_2 "3.0.2" #[ignore = "with tests/run --all"];
    kafka_3_3_2 "3.3.2" #[ignore = "with tests/run --all"];
    kafka_3_5_2 "3.5.2" #[ignore = "with tests/run --all"];
    kafka_3_7_2 "3.7.2" #[ignore = "with tests/run --all"];
    kafka_3_8_1 "3.8.1" #[ignore = "with tests/run --all"];
    kafka_3_9_1 "3.9.1" #[ignore = "with tests/run --all"];
    kafka_3_9_2 "3.9.2";
    kafka_4_0_1 "4.0.1" #[ignore = "with tests/run --all"];
    kafka_4_0_2 "4.0.2" #[ignore = "with tests/run --all"];
    kafka_4_1_1 "4.1.1" #[ignore = "with tests/run --all"];
    kafka_4_1_2 "4.1.2" #[ignore = "with tests/run --all"];
    kafka_4_2_0 "4.2.0" #[ignore = "with tests/run --all"];
    kafka_4_2_2 "4.2.2" #[ignore = "with tests/run --all"];
    kafka_4_3_0 "4.3.0" #[ignore = "with tests/run --all"];
    kafka_4_3_1 "4.3.1" #[ignore = "with tests/run --all"];
    kafka_4_4_0 "4.4.0";
}
