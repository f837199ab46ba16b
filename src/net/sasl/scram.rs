//! SCRAM (RFC 5802, with SHA-256: RFC 7677): the client's side, as a plain state machine.
//!
//! Three messages of the broker's are none of these: a nonce that is not ours made longer, an iteration count that
//! makes the password easy to guess or takes forever, and an end without the proof that it knows the password too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use crate::error::LoginTrouble;
use crate::net::Secret;

/// What Kafka's own brokers and clients insist on; RFC 7677 asks for no less.
const FEWEST_ITERATIONS: u32 = 4096;
/// Eight times what Kafka's brokers allow; some 50 ms of work.
const MOST_ITERATIONS: u32 = 131_072;
/// No channel binding, nobody else's identity: `n,,`, and the same in base64.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_IN_BASE64: &str = "biws";

/// The hash of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// One login.
#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    password: Secret,
    nonce: String,
    /// The first message, without its header.
    first_bare: String,
    /// What the broker's signature must be checked with, once ours is sent.
    proof_due: Option<ProofDue>,
}

#[derive(Debug)]
struct ProofDue {
    server_key: Zeroizing<Vec<u8>>,
    signed: String,
}

impl Scram {
    /// A login with a nonce by chance.
    pub(super) fn new(hash: Hash, user: &str, password: Secret) -> Result<Self, LoginTrouble> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|why| {
            LoginTrouble::Malformed(format!("this machine gives no random numbers for a nonce: {why}"))
        })?;
        Ok(Scram::with_nonce(hash, user, password, BASE64.encode(random)))
    }

    fn with_nonce(hash: Hash, user: &str, password: Secret, nonce: String) -> Self {
        // Kafka takes names and passwords as they are, without SASLprep.
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Scram { hash, password, nonce, first_bare, proof_due: None }
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// The broker's next message: what is to be said to it, or nothing if it has proven itself.
    pub(super) fn heard(&mut self, message: &[u8]) -> Result<Option<String>, LoginTrouble> {
        let message = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        match self.proof_due.take() {
            None => self.answer(message).map(Some),
            Some(due) => self.check(&due, message).map(|()| None),
        }
    }

    /// The broker's first message asks for a proof of the password.
    fn answer(&mut self, challenge: &str) -> Result<String, LoginTrouble> {
        if challenge.is_empty() {
            return Err(LoginTrouble::Impostor("it says nothing where it must ask for a proof".into()));
        }
        let mut parts = challenge.split(',');
        let nonce = attribute(parts.next(), "r=", "a nonce")?;
        let salt = attribute(parts.next(), "s=", "a salt")?;
        let iterations = attribute(parts.next(), "i=", "an iteration count")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(LoginTrouble::Impostor("its nonce is not ours with its own behind it".into()));
        }
        let salt = BASE64.decode(salt).map_err(|_| malformed("the salt is not base64"))?;
        if salt.is_empty() {
            return Err(malformed("the salt is empty"));
        }
        let iterations: u32 =
            iterations.parse().map_err(|_| malformed("the iteration count is no number that can be"))?;
        if !(FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(&iterations) {
            return Err(malformed(&format!(
                "it asks for {iterations} iterations; from {FEWEST_ITERATIONS} (fewer would make the password easy to guess) to {MOST_ITERATIONS} are done"
            )));
        }
        let without_proof = format!("c={GS2_HEADER_IN_BASE64},r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.first_bare);

        let salted = self.hash.salted(self.password.expose(), &salt, iterations);
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let stored_key = self.hash.digest(&client_key);
        let signature = self.hash.hmac(&stored_key, signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature.iter()).map(|(key, sign)| key ^ sign).collect();
        let server_key = self.hash.hmac(&salted, b"Server Key");
        self.proof_due = Some(ProofDue { server_key, signed });
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// The broker's last message proves that it knows the password.
    fn check(&self, due: &ProofDue, last: &str) -> Result<(), LoginTrouble> {
        let first_part = last.split(',').next().unwrap_or_default();
        if let Some(error) = first_part.strip_prefix("e=") {
            return Err(LoginTrouble::Refused {
                mechanism: self.hash.mechanism(),
                message: Some(error.to_owned()),
            });
        }
        let Some(signature) = first_part.strip_prefix("v=") else {
            return Err(LoginTrouble::Impostor("its last message has no signature".into()));
        };
        let signature = BASE64.decode(signature).map_err(|_| malformed("the signature is not base64"))?;
        if self.hash.is_signature(&due.server_key, due.signed.as_bytes(), &signature) {
            Ok(())
        } else {
            Err(LoginTrouble::Impostor("its signature is wrong".into()))
        }
    }
}

fn attribute<'a>(part: Option<&'a str>, name: &str, what: &str) -> Result<&'a str, LoginTrouble> {
    part.and_then(|part| part.strip_prefix(name))
        .ok_or_else(|| malformed(&format!("where {what} ({name}…) must stand, there is {part:?}")))
}

fn malformed(why: &str) -> LoginTrouble {
    LoginTrouble::Malformed(why.to_owned())
}

/// The same for both hashes, whose types have nothing in common that is easy to name.
macro_rules! by_hash {
    ($hash:expr, $Hash:ident => $body:expr) => {
        match $hash {
            Hash::Sha256 => {
                type $Hash = Sha256;
                $body
            }
            Hash::Sha512 => {
                type $Hash = Sha512;
                $body
            }
        }
    };
}

impl Hash {
    fn mechanism(self) -> &'static str {
        match self {
            Hash::Sha256 => "SCRAM-SHA-256",
            Hash::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn digest(self, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        by_hash!(self, H => Zeroizing::new(H::digest(bytes).to_vec()))
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        by_hash!(self, H => match Hmac::<H>::new_from_slice(key) {
            Ok(hmac) => Zeroizing::new(hmac.chain_update(bytes).finalize().into_bytes().to_vec()),
            // HMAC takes keys of any length.
            Err(_) => Zeroizing::default(),
        })
    }

    /// Compared in a time that does not depend on where they differ.
    fn is_signature(self, key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        by_hash!(self, H => Hmac::<H>::new_from_slice(key)
            .is_ok_and(|hmac| hmac.chain_update(bytes).verify_slice(signature).is_ok()))
    }

    fn salted(self, password: &str, salt: &[u8], iterations: u32) -> Zeroizing<Vec<u8>> {
        by_hash!(self, H => {
            let mut salted = Zeroizing::new(vec![0; <H as Digest>::output_size()]);
            pbkdf2::pbkdf2_hmac::<H>(password.as_bytes(), salt, iterations, &mut salted);
            salted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 §3.
    fn of_the_rfc() -> Scram {
        Scram::with_nonce(Hash::Sha256, "user", "pencil".into(), "rOprNGfwEbeRWgbNEkqO".into())
    }

    const FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    #[test]
    fn the_example_of_rfc_7677() {
        let mut scram = of_the_rfc();
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(
            scram.heard(FIRST).unwrap().unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(scram.heard(LAST), Ok(None));
    }

    #[test]
    fn a_broker_that_does_not_know_the_password_is_an_impostor() {
        let wrong = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=";
        let table: [&[u8]; 6] = [
            wrong.as_bytes(),
            b"v=",
            b"v=AAAA",
            b"",
            b"v",
            b"x=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ];
        for last in table {
            let mut scram = of_the_rfc();
            scram.heard(FIRST).unwrap();
            let trouble = scram.heard(last).unwrap_err();
            assert!(
                matches!(trouble, LoginTrouble::Impostor(_) | LoginTrouble::Malformed(_)),
                "{trouble:?} of {last:?}"
            );
        }
        // The proof is due in the second message, whatever the first was.
        for first in [b"".as_slice(), LAST] {
            assert!(of_the_rfc().heard(first).is_err());
        }
        // After the end nothing is believed any more.
        let mut scram = of_the_rfc();
        scram.heard(FIRST).unwrap();
        scram.heard(LAST).unwrap();
        assert!(scram.heard(LAST).is_err());
    }

    #[test]
    fn the_broker_s_own_words_are_told() {
        let mut scram = of_the_rfc();
        scram.heard(FIRST).unwrap();
        let refused =
            LoginTrouble::Refused { mechanism: "SCRAM-SHA-256", message: Some("invalid-proof".to_owned()) };
        assert_eq!(scram.heard(b"e=invalid-proof"), Err(refused));
    }

    #[test]
    fn first_messages_that_lie_are_refused() {
        let nonce = "rOprNGfwEbeRWgbNEkqO";
        let table = [
            ("r=other,s=W22Z,i=4096".to_owned(), "nonce"),
            (format!("r={nonce},s=W22Z,i=4096"), "nonce"),
            (format!("r=x{nonce},s=W22Z,i=4096"), "nonce"),
            (format!("r={nonce}x,s=W22Z,i=1"), "1 iterations"),
            (format!("r={nonce}x,s=W22Z,i=4095"), "4095 iterations"),
            (format!("r={nonce}x,s=W22Z,i=131073"), "131073 iterations"),
            (format!("r={nonce}x,s=W22Z,i=4294967295"), "iterations"),
            (format!("r={nonce}x,s=W22Z,i=99999999999999999999"), "iteration count"),
            (format!("r={nonce}x,s=W22Z,i=-1"), "iteration count"),
            (format!("r={nonce}x,s=W22Z"), "iteration count"),
            (format!("r={nonce}x,s=,i=4096"), "salt is empty"),
            (format!("r={nonce}x,s=?,i=4096"), "not base64"),
            (format!("r={nonce}x,i=4096"), "a salt"),
            // An extension that must be understood, and is not.
            (format!("m=1,r={nonce}x,s=W22Z,i=4096"), "a nonce"),
            ("e=other-error".to_owned(), "a nonce"),
        ];
        for (first, named) in table {
            let trouble = of_the_rfc().heard(first.as_bytes()).unwrap_err().to_string();
            assert!(trouble.contains(named), "{trouble} of {first}");
        }
        assert!(of_the_rfc().heard(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn a_name_may_hold_commas_and_equal_signs() {
        let scram = Scram::with_nonce(Hash::Sha512, "a=b,c", "".into(), "n".into());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn no_two_logins_have_the_same_nonce() {
        let first = || Scram::new(Hash::Sha256, "user", "pencil".into()).unwrap().first();
        assert_ne!(first(), first());
    }

    /// A broker that knows the password, for what has no example in an RFC.
    #[test]
    fn sha_512_is_answered_by_its_own_rules() {
        let mut scram = Scram::with_nonce(Hash::Sha512, "alice", "alice-secret".into(), "abc".into());
        let challenge = format!("r=abcdef,s={},i=8192", BASE64.encode(b"salt"));
        let last = scram.heard(challenge.as_bytes()).unwrap().unwrap();
        let (without_proof, proof) = last.rsplit_once(",p=").unwrap();
        let proof = BASE64.decode(proof).unwrap();
        let hash = Hash::Sha512;
        let salted = hash.salted("alice-secret", b"salt", 8192);
        let signed = format!("n=alice,r=abc,{challenge},{without_proof}");
        let stored = hash.digest(&hash.hmac(&salted, b"Client Key"));
        let signature = hash.hmac(&stored, signed.as_bytes());
        let key: Vec<u8> = proof.iter().zip(signature.iter()).map(|(a, b)| a ^ b).collect();
        assert_eq!(hash.digest(&key), stored);
        let server = hash.hmac(&hash.hmac(&salted, b"Server Key"), signed.as_bytes());
        assert_eq!(scram.heard(format!("v={}", BASE64.encode(&*server)).as_bytes()), Ok(None));
    }
}
