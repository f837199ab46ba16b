//! Connections to brokers, over any byte stream: requests tied to their answers, deadlines, and which
//! versions the broker speaks.
//!
//! [`Dialer::dial`] opens a [`Connection`] with a [`Connector`] and negotiates [`BrokerVersions`] on
//! it, with a ladder of probes for brokers from before 0.10, which cannot tell them. The protocol
//! itself (`core`, `ladder`) has no socket and no clock.

mod autopsy;
mod backoff;
mod connection;
mod connector;
mod core;
mod diagnosis;
mod dialer;
mod driver;
mod frames;
mod ladder;
mod link;
mod links;
#[cfg(feature = "sasl")]
mod login_lane;
mod memory;
mod negotiation;
#[cfg(feature = "sasl")]
mod sasl;
mod secret;
mod security;
mod throttle;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod versions;

pub use backoff::Backoff;
#[cfg(feature = "testing")]
pub(crate) use backoff::fix_chance;
pub(crate) use backoff::share_by_chance;
pub use connection::{Answer, Connection, ConnectionOptions, RawAnswer, RequestOptions};
pub use connector::{BoxFuture, BrokerAddress, ByteStream, ConnectWith, Connector, TcpConnector};
pub use dialer::Dialer;
pub(crate) use dialer::Identity;
pub(crate) use link::{Exchange, Link, WhenDown};
pub(crate) use links::Links;
#[cfg(feature = "oauth")]
pub use sasl::ClientCredentials;
#[cfg(feature = "sasl")]
pub use sasl::{
    BearerToken, Sasl, SaslExchange, SaslMessage, SaslTurn, TokenError, TokenFile, TokenProvider,
    UnsecuredJwt,
};
pub use secret::Secret;
pub use security::Security;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsVersion, Verification};
pub(crate) use together::together;
pub use versions::{BrokerVersions, LegacyRelease, VersionSource};
