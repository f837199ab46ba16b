use tokio::time::{Instant, timeout};

use super::*;

const HANDSHAKE: i16 = 17;
const VERSIONS: i16 = 18;
const AUTHENTICATE: i16 = 36;

/// Every lie ends the login with an error in bounded time, on both ways of sending tokens.
#[tokio::test(start_paused = true)]
async fn a_server_that_lies_is_found_out_or_given_up_on() {
    let mut lies = vec![
        Lie::SkipsProof,
        Lie::WrongProof,
        Lie::Iterations(1),
        Lie::Iterations(4095),
        Lie::Iterations(u32::MAX),
        Lie::Says(b""),
        Lie::Says(b"v=AAAA"),
        Lie::Says(b"e=other-error"),
        Lie::Says(b"r=x,s=,i=4096"),
        Lie::Says(&[0xff; 100]),
        Lie::Says(&[b'x'; 60_000]),
    ];
    for key in [VERSIONS, HANDSHAKE, AUTHENTICATE] {
        for size in [-1, 3, 2 << 20, 90 << 20, i32::MAX] {
            lies.push(Lie::Declares(key, size));
        }
        lies.extend([Lie::IsSilent(key), Lie::Closes(key), Lie::Noise(key)]);
    }
    for release in [Release::V0_11_0, Release::V1_1, Release::LATEST] {
        let broker = brokers(release);
        for lie in &lies {
            // 0.11 has bare tokens.
            if release == Release::V0_11_0
                && matches!(
                    lie,
                    Lie::Declares(AUTHENTICATE, _)
                        | Lie::IsSilent(AUTHENTICATE)
                        | Lie::Closes(AUTHENTICATE)
                        | Lie::Noise(AUTHENTICATE)
                )
            {
                continue;
            }
            let gate = Gate::before(&broker);
            gate.change(|rules| rules.lie = Some(lie.clone()));
            let connector = Arc::new(gate.clone());
            let security = Security::plaintext().sasl(Sasl::scram_sha_256(USER, PASSWORD));
            let dialer = Dialer::default().connector(connector).security(security).unwrap();
            let start = Instant::now();
            let address: BrokerAddress = broker.addr().parse().unwrap();
            let dialed = timeout(Duration::from_secs(60), dialer.dial(&address)).await;
            let error = dialed.unwrap_or_else(|_| panic!("{release}: {lie:?} hangs")).unwrap_err();
            assert!(
                start.elapsed() <= Duration::from_secs(15),
                "{release}: {lie:?} took {:?}",
                start.elapsed()
            );
            assert!(!error.to_string().contains(PASSWORD), "{error}");
            let proofless = matches!(lie, Lie::SkipsProof | Lie::WrongProof | Lie::Says(b""));
            if proofless {
                assert!(
                    matches!(login_trouble(&error), LoginTrouble::Impostor(_)),
                    "{release}: {lie:?}: {error:?}"
                );
            }
            if let Lie::Declares(_, size) = lie {
                assert!(
                    matches!(error.kind(), ErrorKind::FrameSize { size: found, .. } if found == size),
                    "{release}: {lie:?}: {error:?}"
                );
            }
        }
    }
}

/// A provider's token is answered with words, for ever.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_is_refused_at_its_second_message() {
    for release in [Release::V0_11_0, Release::LATEST] {
        let broker = brokers(release);
        let gate = Gate::before(&broker);
        gate.change(|rules| rules.lie = Some(Lie::Says(br#"{"status":"again"}"#)));
        let error = cluster(&gate, &broker, Sasl::oauth_bearer(Token(TOKEN))).connect().await.unwrap_err();
        assert!(error.to_string().contains("again"), "{error}");
    }
}
