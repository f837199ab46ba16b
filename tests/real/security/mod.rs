//! Brokers that want TLS and SASL: every release that has any, every way in, every way to get it wrong.
//!
//! A release's checks share one broker with all its listeners, see [`SecureKafka`]. `ways` has how each release can be
//! reached, `wrong` what must not work and what it says, `denied` what somebody known may not do, `renewal` logins
//! that end while they are used, `command` the `downspout` command.

mod command;
mod counted;
mod denied;
mod renewal;
mod ways;
mod wrong;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use downspout::client::{Cluster, SimpleConsumer};
use downspout::net::Security;

use crate::harness::{Driver, Options, Release, SecureKafka, SecureTrouble};
use crate::stage::{Report, Turn, left_out};

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}

/// Many threads: what waits for a broker must not hold up what reads from it.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(future)
}

/// `None`, and said so, where the release can't be had here.
fn start(release: &'static Release, options: Options) -> Option<SecureKafka> {
    match SecureKafka::start(release, options) {
        Ok(kafka) => Some(kafka),
        Err(SecureTrouble::LeftOut(why)) => {
            left_out(release, &why);
            None
        }
        Err(SecureTrouble::Failed(why)) => panic!("{release}: {why}"),
    }
}

async fn cluster(address: SocketAddr, security: &Security) -> downspout::Result<Cluster> {
    Cluster::builder([address.to_string()]).security(security.clone()).connect().await
}

async fn consumer(address: SocketAddr, security: &Security) -> downspout::Result<SimpleConsumer> {
    SimpleConsumer::builder(&address.to_string()).security(security.clone()).connect().await
}

fn run(name: &str) {
    let release = Release::named(name);
    let _turn = Turn::take();
    let start_of_all = Instant::now();
    // Those that are started twice are not to wait long for the end of their first session.
    let quick = Options { session_timeout: Duration::from_secs(2), ..Options::default() };
    let options = if release.since(&[0, 11]) { Options::default() } else { quick };
    let Some(mut kafka) = start(release, options) else { return };
    let mut admin = Driver::start(&kafka.kafka).unwrap();
    for topic in ["secured", "denied", "hidden"] {
        admin.create_topic(&kafka.kafka, topic, 1, &[]).unwrap();
    }
    println!("{release}: up in {:.1?}", start_of_all.elapsed());
    let mut report = Report::of(release);
    report.check("every way in", || ways::write_and_read(&kafka));
    report.check("every wrong way", || wrong::each_says_what_is_wrong(&kafka));
    report.check("what is denied", || denied::all(&kafka, &mut admin));
    report.check("downspout", || command::all(&kafka));
    if !release.since(&[0, 11]) {
        report.check("certificates required", || {
            kafka.require_certificates()?;
            ways::with_certificates_only(&kafka)?;
            wrong::without_certificate(&kafka)
        });
    }
    println!("{release}: all of security in {:.1?}", start_of_all.elapsed());
    report.finish();
}

macro_rules! releases {
    ($($test:ident $release:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { run($release); })*
    };
}

releases! {
    security_of_0_9_0_1 "0.9.0.1";
    security_of_0_10_0_1 "0.10.0.1";
    security_of_0_10_2_2 "0.10.2.2" #[ignore = "with tests/run --all"];
    security_of_0_11_0_3 "0.11.0.3";
    security_of_1_1_1 "1.1.1" #[ignore = "with tests/run --all"];
    security_of_2_0_1 "2.0.1" #[ignore = "with tests/run --all"];
    security_of_2_8_2 "2.8.2";
    security_of_3_9_2 "3.9.2" #[ignore = "with tests/run --all"];
    security_of_4_4_0 "4.4.0";
}
