//! The broker's side of the mechanisms, for one user; written from the RFCs alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use crate::gate::Lie;

pub(crate) const USER: &str = "alice";
pub(crate) const PASSWORD: &str = "alice-s3cret";
pub(crate) const TOKEN: &str = "t0ken-of-alice";

/// What is said to a message.
pub(crate) enum Said {
    Goes(Vec<u8>),
    Done(Vec<u8>),
    Refuses(&'static str),
}

pub(crate) struct Server {
    mechanism: String,
    lie: Option<Lie>,
    /// SCRAM: the client's first message without its header, and the answer to it.
    first: Option<(String, String)>,
    objected: bool,
}

impl Server {
    pub(crate) fn of(mechanism: &str, lie: Option<Lie>) -> Server {
        Server { mechanism: mechanism.to_owned(), lie, first: None, objected: false }
    }

    pub(crate) fn heard(&mut self, token: &[u8]) -> Said {
        if let Some(Lie::Says(words)) = self.lie {
            return Said::Goes(words.to_vec());
        }
        match self.mechanism.as_str() {
            "PLAIN" => match token {
                _ if token == format!("\0{USER}\0{PASSWORD}").as_bytes() => Said::Done(Vec::new()),
                _ => Said::Refuses("Authentication failed: Invalid username or password"),
            },
            "OAUTHBEARER" => self.bearer(token),
            "SCRAM-SHA-256" => self.scram::<Sha256>(token),
            _ => self.scram::<Sha512>(token),
        }
    }

    fn bearer(&mut self, token: &[u8]) -> Said {
        if token == format!("n,,\x01auth=Bearer {TOKEN}\x01\x01").as_bytes() {
            return Said::Done(Vec::new());
        }
        if self.objected && token == [1] {
            return Said::Refuses(r#"{"status":"invalid_token"}"#);
        }
        self.objected = true;
        Said::Goes(br#"{"status":"invalid_token"}"#.to_vec())
    }

    fn scram<H: Digest + hmac::EagerHash>(&mut self, token: &[u8]) -> Said
    where
        Hmac<H>: Mac + KeyInit + Clone,
    {
        let token = String::from_utf8(token.to_vec()).unwrap();
        let Some((first, challenge)) = &self.first else {
            let bare = token.strip_prefix("n,,").unwrap().to_owned();
            let nonce = bare.split_once(",r=").unwrap().1.to_owned();
            if !bare.starts_with(&format!("n={USER},")) {
                return Said::Refuses(
                    "Authentication failed during authentication due to invalid credentials",
                );
            }
            let iterations = if let Some(Lie::Iterations(count)) = self.lie { count } else { 4096 };
            let challenge = format!("r={nonce}server,s={},i={iterations}", BASE64.encode(b"salt"));
            self.first = Some((bare, challenge.clone()));
            return Said::Goes(challenge.into_bytes());
        };
        let (without_proof, proof) = token.rsplit_once(",p=").unwrap();
        let password = if self.lie == Some(Lie::WrongProof) { "another" } else { PASSWORD };
        let salted = salted::<H>(password.as_bytes(), b"salt", 4096);
        let signed = format!("{first},{challenge},{without_proof}");
        let client_key = hmac::<H>(&salted, b"Client Key");
        let signature = hmac::<H>(&H::digest(&client_key), signed.as_bytes());
        let expected: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
        match self.lie {
            Some(Lie::SkipsProof) => return Said::Done(Vec::new()),
            Some(Lie::WrongProof) => {}
            _ if BASE64.decode(proof).unwrap() != expected => {
                return Said::Refuses(
                    "Authentication failed during authentication due to invalid credentials",
                );
            }
            _ => {}
        }
        let server = hmac::<H>(&hmac::<H>(&salted, b"Server Key"), signed.as_bytes());
        Said::Done(format!("v={}", BASE64.encode(server)).into_bytes())
    }
}

fn hmac<H: Digest + hmac::EagerHash>(key: &[u8], bytes: &[u8]) -> Vec<u8>
where
    Hmac<H>: Mac + KeyInit,
{
    let hmac = <Hmac<H> as KeyInit>::new_from_slice(key).unwrap();
    hmac.chain_update(bytes).finalize().into_bytes().to_vec()
}

/// PBKDF2 with one block (RFC 5802 §2.2, `Hi`).
fn salted<H: Digest + hmac::EagerHash>(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8>
where
    Hmac<H>: Mac + KeyInit,
{
    let mut last = hmac::<H>(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last.clone();
    for _ in 1..iterations {
        last = hmac::<H>(password, &last);
        sum.iter_mut().zip(&last).for_each(|(sum, last)| *sum ^= last);
    }
    sum
}
