use zeroize::Zeroizing;

use super::bearer::{BearerToken, TokenError};
use super::scram::{Hash, Scram};
use super::{Mechanism, Password, Sasl};
use crate::error::LoginTrouble;

/// The client's side of one login, as a plain state machine: for those who carry the messages themselves.
///
/// It ends: after at most three messages of the broker's.
#[derive(Debug)]
#[must_use]
pub struct SaslExchange(State);

#[derive(Debug)]
enum State {
    Plain(Password),
    Scram(Scram),
    Bearer {
        token: BearerToken,
        /// What the broker has against the token.
        objection: Option<String>,
    },
}

/// What comes after a message of the broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslTurn {
    /// This is to be said.
    Say(SaslMessage),
    /// The login is complete.
    Done,
}

/// What is said to the broker; with most mechanisms a secret.
pub type SaslMessage = Zeroizing<Vec<u8>>;

impl Sasl {
    /// Begins a login; asks the provider for a token where one is needed.
    pub async fn exchange(&self) -> Result<SaslExchange, LoginTrouble> {
        let scram =
            |hash, who: &Password| Scram::new(hash, &who.user, who.password.clone()).map(State::Scram);
        let state = match &self.0 {
            Mechanism::Plain(who) => Ok(State::Plain(who.clone())),
            Mechanism::Scram256(who) => scram(Hash::Sha256, who),
            Mechanism::Scram512(who) => scram(Hash::Sha512, who),
            Mechanism::OAuthBearer(provider) => {
                let token = provider.token().await.map_err(|why| match why {
                    TokenError::Unavailable(why) => LoginTrouble::NoToken(why),
                    TokenError::Refused(why) => {
                        LoginTrouble::Refused { mechanism: "OAUTHBEARER", message: Some(why) }
                    }
                })?;
                token.check().map_err(LoginTrouble::NoToken)?;
                Ok(State::Bearer { token, objection: None })
            }
        };
        state.map(SaslExchange)
    }
}

impl SaslExchange {
    /// The first message.
    pub fn first(&self) -> SaslMessage {
        Zeroizing::new(match &self.0 {
            // RFC 4616; nobody acts for somebody else.
            State::Plain(who) => ["\0", &who.user, "\0", who.password.expose()].concat().into_bytes(),
            State::Scram(scram) => scram.first().into_bytes(),
            State::Bearer { token, .. } => token.first_message().into_bytes(),
        })
    }

    /// The broker's next message.
    pub fn heard(&mut self, message: &[u8]) -> Result<SaslTurn, LoginTrouble> {
        match &mut self.0 {
            State::Plain(_) => Ok(SaslTurn::Done),
            State::Scram(scram) => {
                let answer = scram.heard(message)?;
                Ok(answer.map_or(SaslTurn::Done, |answer| SaslTurn::Say(Zeroizing::new(answer.into_bytes()))))
            }
            State::Bearer { objection: None, .. } if message.is_empty() => Ok(SaslTurn::Done),
            State::Bearer { objection: objection @ None, .. } => {
                *objection = Some(String::from_utf8_lossy(message).chars().take(1000).collect());
                // RFC 7628 §3.2.3: the failure is acknowledged, then refused.
                Ok(SaslTurn::Say(Zeroizing::new(vec![0x01])))
            }
            State::Bearer { objection, .. } => {
                Err(LoginTrouble::Refused { mechanism: "OAUTHBEARER", message: objection.take() })
            }
        }
    }

    /// What the broker has said already against this login, if it then refuses it without a word.
    pub(super) fn objection(&self) -> Option<String> {
        match &self.0 {
            State::Bearer { objection, .. } => objection.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_says_all_at_once() {
        let mut plain = SaslExchange(State::Plain(Password::new("alice", "alice-secret")));
        assert_eq!(plain.first().as_slice(), b"\0alice\0alice-secret");
        assert_eq!(plain.heard(b""), Ok(SaslTurn::Done));
    }

    #[test]
    fn a_token_and_its_extensions_are_written_as_rfc_7628_has_it() {
        let token = BearerToken::new("abc").authorization_id("a=b,c").extension("logicalCluster", "lkc-1");
        let bearer = SaslExchange(State::Bearer { token, objection: None });
        assert_eq!(
            bearer.first().as_slice(),
            b"n,a=a=3Db=2Cc,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
        );
        let bearer = SaslExchange(State::Bearer { token: BearerToken::new("abc"), objection: None });
        assert_eq!(bearer.first().as_slice(), b"n,,\x01auth=Bearer abc\x01\x01");
    }

    #[test]
    fn a_refused_token_is_acknowledged_and_its_reason_told() {
        let mut bearer = SaslExchange(State::Bearer { token: BearerToken::new("abc"), objection: None });
        let reason = br#"{"status":"invalid_token"}"#;
        assert_eq!(bearer.heard(reason), Ok(SaslTurn::Say(Zeroizing::new(vec![1]))));
        assert_eq!(bearer.objection().as_deref(), Some(r#"{"status":"invalid_token"}"#));
        // A broker that never ends is refused at its second message.
        assert!(matches!(bearer.heard(reason), Err(LoginTrouble::Refused { message: Some(_), .. })));
    }
}
