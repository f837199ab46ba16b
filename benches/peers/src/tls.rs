//! The same topics through the same relay, without TLS and with it.

mod relay;

use std::time::Duration;

use self::relay::Relay;
use crate::Result;
use crate::broker::Broker;
use crate::clients::Client;
use crate::meter::Report;
use crate::topics::{TOPICS, Topic};

/// The table. The relay, the broker and the client share the machine: where they fill its cores, the
/// client's CPU time tells more than the records per second.
pub fn compare(downspout: &str, rest: &[&str]) -> Result<()> {
    let (seconds, words) = crate::seconds_and_words(rest);
    println!("load before: {}", crate::load());
    println!(
        "| topic | client | M records/s, plain | TLS | TLS / plain | CPU ns per record, plain | TLS | TLS / plain |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut failed = 0;
    for topic in TOPICS.iter().filter(|topic| topic.codec == "none" && !topic.is_old()) {
        let line = |client: &Client| format!("| {topic} | {} |", client.title());
        let wanted = |client: &Client| words.iter().all(|word| line(client).contains(word));
        let clients: Vec<Client> =
            Client::all().into_iter().filter(|client| client.speaks_tls() && wanted(client)).collect();
        if clients.is_empty() {
            continue;
        }
        let broker = Broker::start(downspout, topic)?;
        for client in clients {
            match both(client, topic, &broker, seconds) {
                Ok((plain, tls)) => println!("{} {}", line(&client), row(&plain, &tls)),
                Err(error) => {
                    failed += 1;
                    println!("{} failed: {error} ||||||", line(&client));
                }
            }
        }
    }
    println!("load after: {}", crate::load());
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed").into()) }
}

fn both(client: Client, topic: &Topic, broker: &Broker, time: Duration) -> Result<(Report, Report)> {
    let plain = Relay::plain(broker.address)?;
    let secure = Relay::with_tls(broker.address)?;
    let run =
        |relay: &Relay| crate::runs::run(client, topic, relay.address, relay.ca.as_deref(), time, || {});
    Ok((run(&plain)?, run(&secure)?))
}

fn row(plain: &Report, tls: &Report) -> String {
    let speed = |report: &Report| report.records as f64 / report.seconds / 1e6;
    let cpu = |report: &Report| report.cpu_seconds * 1e9 / report.records as f64;
    format!(
        "{:.2} | {:.2} | {:.2} | {:.0} | {:.0} | {:.2} |",
        speed(plain),
        speed(tls),
        speed(tls) / speed(plain),
        cpu(plain),
        cpu(tls),
        cpu(tls) / cpu(plain),
    )
}
