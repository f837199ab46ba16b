//! A login with each mechanism, whatever the broker says: it ends after three messages, without a panic, and never
//! well unless the broker has proven what it must.

#![no_main]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use downspout::net::{BearerToken, BoxFuture, Sasl, SaslTurn, TokenError, TokenProvider};
use libfuzzer_sys::fuzz_target;

struct Token;

impl TokenProvider for Token {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, TokenError>> {
        Box::pin(std::future::ready(Ok(BearerToken::new("token"))))
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((which, said)) = data.split_first() else { return };
    let sasl = match which % 4 {
        0 => Sasl::plain("user", "pencil"),
        1 => Sasl::scram_sha_256("user", "pencil"),
        2 => Sasl::scram_sha_512("user", "pencil"),
        _ => Sasl::oauth_bearer(Token),
    };
    let mut exchange = match pin!(sasl.exchange()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(exchange)) => exchange,
        other => panic!("{other:?}"),
    };
    let first = exchange.first();
    let first = String::from_utf8_lossy(&first);
    let nonce = first.split_once(",r=").map_or("", |(_, nonce)| nonce);
    // The broker's messages lie between new lines; an `@` stands for the client's nonce.
    let mut messages = said.split(|byte| *byte == b'\n');
    for turn in 1.. {
        assert!(turn <= 3, "it does not end");
        let message = messages.next().unwrap_or_default();
        let mut words = Vec::new();
        for byte in message {
            match byte {
                b'@' => words.extend_from_slice(nonce.as_bytes()),
                other => words.push(*other),
            }
        }
        match exchange.heard(&words) {
            Ok(SaslTurn::Say(answer)) => assert!(answer.len() < 10_000 + words.len() * 2),
            Ok(SaslTurn::Done) => {
                assert!(!matches!(which % 4, 1 | 2), "a signature was guessed");
                return;
            }
            Err(why) => {
                assert!(!why.to_string().contains("pencil"));
                return;
            }
        }
    }
});
