//! `--metrics`: what can be seen from outside.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{ACKS, Said, clicks, finished, kill, over, script, spout_with, until};

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of a metric, if it is there.
fn value(page: &str, metric: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok())
}

#[test]
fn metrics_health_and_readiness_are_served() {
    let broker = clicks(2, 10);
    let more = ["--metrics", "0", "--exec", &script(ACKS)];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    let mut said = Said::of(&mut child);
    let line = said.until("serving http://127.0.0.1:");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let of_0 = "{topic=\"clicks\",partition=\"0\"}";
    until("all is done", || {
        value(&get(address, "/metrics"), &format!("downspout_acked_total{of_0}")) == Some(5.0)
    });
    let page = get(address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    for (metric, expected) in [
        (format!("downspout_latest_offset{of_0}"), 5.0),
        (format!("downspout_completed_offset{of_0}"), 5.0),
        (format!("downspout_lag_records{of_0}"), 0.0),
        (format!("downspout_stopped{of_0}"), 0.0),
        ("downspout_ready".to_owned(), 1.0),
        ("downspout_exec_deaths_total".to_owned(), 0.0),
    ] {
        assert_eq!(value(&page, &metric), Some(expected), "{metric}");
    }
    assert!(get(address, "/healthz").ends_with("\r\n\r\nalive\n"));
    assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
    assert!(get(address, "/").starts_with("HTTP/1.1 404 "));
    kill(child.id(), "-TERM");
    assert_eq!(finished(child).code, 143);
}

#[test]
fn a_partition_that_stopped_turns_readiness_red_and_says_why() {
    let broker = clicks(2, 10);
    let text = "read hello; while read -r line; do ID; case $id in clicks/1/*) echo \"fail $id no\";; *) echo \"ack $id\";; esac; done";
    let more = ["--metrics", "0", "--exec", &script(text), "--retry-limit", "1", "--on-exhausted", "stop"];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    let line = Said::of(&mut child).until("serving http://127.0.0.1:");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    until("it stopped", || get(address, "/readyz").starts_with("HTTP/1.1 503 "));
    let why = get(address, "/readyz");
    assert!(why.contains("clicks/1 stopped: "), "{why}");
    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
    let page = get(address, "/metrics");
    assert_eq!(value(&page, "downspout_stopped{topic=\"clicks\",partition=\"1\"}"), Some(1.0));
    assert_eq!(value(&page, "downspout_ready"), Some(0.0));
    kill(child.id(), "-TERM");
    assert_eq!(finished(child).code, 5);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let broker = clicks(1, 0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = super::run(&broker, &["--metrics", &address]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains(&format!("cannot listen on {address} for --metrics")), "{}", run.err);
}
