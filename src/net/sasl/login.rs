//! A login over a connection: the handshake of the broker's era, then the mechanism's messages.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::Sasl;
use super::exchange::{SaslExchange, SaslTurn};
use crate::error::{Error, ErrorKind, LoginTrouble, Result};
use crate::net::BrokerVersions;
use crate::net::login_lane::{LoginLane, LoginTurn};
use crate::protocol::{ErrorCode, SaslAuthenticateRequest, SaslHandshakeRequest};

/// How the messages of a mechanism travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Bare, after SaslHandshake 0: 0.10 and 0.11.
    Bare,
    /// In SaslAuthenticate of this version, after SaslHandshake 1 (KIP-152).
    Framed(i16),
}

/// Logs in; gives how long the broker lets the login last, if not forever (KIP-368).
pub(in crate::net) async fn log_in(
    sasl: &Sasl,
    versions: &BrokerVersions,
    lane: &LoginLane,
    patience: Duration,
) -> Result<Option<Duration>> {
    let exchange = async {
        let trouble = |trouble| Error::new(ErrorKind::Login(trouble));
        // Before anything is held back: a provider may take its time.
        let exchange = match timeout(patience, sasl.exchange()).await {
            Ok(exchange) => exchange.map_err(trouble)?,
            Err(_) => {
                return Err(trouble(LoginTrouble::NoToken(format!(
                    "the provider gave none within {patience:?}"
                ))));
            }
        };
        let handshake = versions.choose::<SaslHandshakeRequest>()?;
        let way = match handshake {
            0 => Way::Bare,
            _ => Way::Framed(versions.choose::<SaslAuthenticateRequest>()?),
        };
        let turn = lane.begin()?;
        let login = Login { sasl, turn, way, patience };
        match login.converse(handshake, exchange).await {
            Ok(lifetime) => login.turn.end().map(|()| lifetime),
            // The broker closes as well, and says less.
            Err(why) => {
                lane.close(why.clone());
                Err(why)
            }
        }
    };
    exchange.await.map_err(|why| why.with_broker(lane.broker()))
}

struct Login<'a> {
    sasl: &'a Sasl,
    turn: LoginTurn<'a>,
    way: Way,
    patience: Duration,
}

impl Login<'_> {
    async fn converse(&self, handshake: i16, mut exchange: SaslExchange) -> Result<Option<Duration>> {
        self.shake_hands(handshake).await?;
        let mut message = exchange.first();
        loop {
            let (answer, lifetime) = match self.say(&message).await {
                Ok(answer) => answer,
                Err(why) => return Err(with_objection(why, exchange.objection())),
            };
            match exchange.heard(&answer).map_err(|trouble| Error::new(ErrorKind::Login(trouble)))? {
                SaslTurn::Say(next) => message = next,
                SaslTurn::Done => return Ok(lifetime),
            }
        }
    }

    async fn shake_hands(&self, version: i16) -> Result<()> {
        let mechanism = self.sasl.mechanism();
        let request = SaslHandshakeRequest { mechanism: mechanism.to_owned() };
        let answer = self.turn.request(&request, version, self.patience)?.await?;
        let trouble = match answer.error_code {
            ErrorCode(0) => return Ok(()),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                LoginTrouble::NoMechanism { mechanism, offered: answer.mechanisms }
            }
            ErrorCode::ILLEGAL_SASL_STATE => LoginTrouble::NotWanted,
            code => return Err(Error::broker_code(code).with_request::<SaslHandshakeRequest>(version)),
        };
        Err(Error::new(ErrorKind::Login(trouble)))
    }

    async fn say(&self, message: &[u8]) -> Result<(Bytes, Option<Duration>)> {
        match self.way {
            Way::Bare => match self.turn.token(message, self.patience)?.await {
                Ok(answer) => Ok((answer, None)),
                Err(why) if matches!(why.kind(), ErrorKind::Closed | ErrorKind::Io(_)) => {
                    Err(self.refused(None))
                }
                Err(why) => Err(why),
            },
            Way::Framed(version) => {
                let request = SaslAuthenticateRequest { auth_bytes: Bytes::copy_from_slice(message).into() };
                let answer = self.turn.request(&request, version, self.patience)?.await?;
                match answer.error_code {
                    ErrorCode(0) => {
                        let lifetime = u64::try_from(answer.session_lifetime_ms).ok().filter(|ms| *ms > 0);
                        Ok((answer.auth_bytes.0, lifetime.map(Duration::from_millis)))
                    }
                    ErrorCode::SASL_AUTHENTICATION_FAILED => Err(self.refused(answer.error_message)),
                    code => {
                        let kind = ErrorKind::Broker { code, message: answer.error_message };
                        Err(Error::new(kind).with_request::<SaslAuthenticateRequest>(version))
                    }
                }
            }
        }
    }

    fn refused(&self, message: Option<String>) -> Error {
        let message = message.filter(|message| !message.is_empty());
        Error::new(ErrorKind::Login(LoginTrouble::Refused { mechanism: self.sasl.mechanism(), message }))
    }
}

/// What the broker said before it closed without a word.
fn with_objection(why: Error, objection: Option<String>) -> Error {
    match (why.kind(), objection) {
        (ErrorKind::Login(LoginTrouble::Refused { mechanism, message: None }), Some(objection)) => {
            Error::new(ErrorKind::Login(LoginTrouble::Refused { mechanism, message: Some(objection) }))
        }
        _ => why,
    }
}
