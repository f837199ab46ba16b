//! Consuming the same endless topics with Downspout and with other clients, in one run.
//!
//! Each client runs in a process of its own (this program again), so that its CPU time and memory
//! are its own. It reads each topic twice: straight from the broker, for its speed, and through a
//! relay that counts what it receives. `--tls` is another table: with and without TLS. See `benches/README.md`.

mod broker;
mod clients;
mod meter;
mod relay;
mod runs;
mod tls;
mod topics;

use std::process::ExitCode;
use std::time::Duration;

use crate::clients::Client;
use crate::topics::TOPICS;

/// The outcome of a step; an error ends it, whatever it was.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["--client", name, topic, address, seconds] => runs::child(name, topic, address, seconds),
        ["--broker", downspout, "--tls", ref rest @ ..] => tls::compare(downspout, rest),
        ["--broker", downspout, ref rest @ ..] => compare(downspout, rest),
        _ => {
            Err("usage: --broker PATH-OF-DOWNSPOUT [--tls] [SECONDS] [WORD…]; benches/peers/run does it"
                .into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The table. Of the rest, a number is how many seconds a run takes; a line must hold all other words.
fn compare(downspout: &str, rest: &[&str]) -> Result<()> {
    let (seconds, words) = seconds_and_words(rest);
    println!("load before: {}", load());
    println!(
        "| topic | client | M records/s | MiB/s of values | CPU ns per record | peak RSS, MiB | received per byte |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut failed = 0;
    for topic in &TOPICS {
        let line = |client: &Client| format!("| {topic} | {} |", client.title());
        let wanted = |client: &Client| words.iter().all(|word| line(client).contains(word));
        let clients: Vec<Client> =
            Client::all().into_iter().filter(|client| client.reads(topic) && wanted(client)).collect();
        if clients.is_empty() {
            continue;
        }
        let broker = broker::Broker::start(downspout, topic)?;
        let record_size = broker.record_size()?;
        for client in clients {
            let measured = runs::both(client, topic, &broker, record_size, seconds);
            match measured {
                Ok(measured) => println!("{} {measured}", line(&client)),
                Err(error) => {
                    failed += 1;
                    println!("{} failed: {error} |||||", line(&client));
                }
            }
        }
    }
    println!("load after: {}", load());
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed").into()) }
}

fn seconds_and_words<'a>(rest: &[&'a str]) -> (Duration, Vec<&'a str>) {
    let seconds = rest.iter().find_map(|word| word.parse::<u64>().ok()).unwrap_or(3).max(1);
    let words = rest.iter().copied().filter(|word| word.parse::<u64>().is_err()).collect();
    (Duration::from_secs(seconds), words)
}

/// How busy the machine was in the last minute; the runs themselves keep two cores busy.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} on {cores} cores", load.split(' ').next().unwrap_or("unknown"))
}
