#[cfg(feature = "sasl")]
use super::sasl::Sasl;
#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{BrokerAddress, ByteStream};
use crate::error::Result;

/// How connections to brokers are protected, and who they are for: TLS, SASL, both or neither.
///
/// | Kafka's `security.protocol` | here |
/// |---|---|
/// | `PLAINTEXT` | `Security::plaintext()` |
/// | `SSL` | `Security::plaintext().tls(…)` |
/// | `SASL_PLAINTEXT` | `Security::plaintext().sasl(…)` |
/// | `SASL_SSL` | `Security::plaintext().tls(…).sasl(…)` |
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Security {
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
    #[cfg(feature = "sasl")]
    pub(super) sasl: Option<Sasl>,
}

impl Security {
    /// Neither TLS nor SASL: the default.
    pub fn plaintext() -> Self {
        Security::default()
    }

    /// Speaks TLS.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Logs in with SASL.
    #[cfg(feature = "sasl")]
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = Some(sasl);
        self
    }

    /// Who connects, as brokers name it in their access lists (`User:alice`), as far as it can be told here.
    pub fn principal(&self) -> Option<String> {
        #[cfg(feature = "sasl")]
        if let Some(sasl) = &self.sasl {
            return sasl.principal();
        }
        #[cfg(feature = "tls")]
        if let Some(principal) = self.tls.as_ref().and_then(Tls::principal) {
            return Some(principal);
        }
        Some("User:ANONYMOUS".to_owned())
    }

    /// Whether TLS is spoken.
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Reads what has to be read, and says what is wrong with it.
    pub(super) fn check(&self) -> Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.check();
        }
        Ok(())
    }

    /// Protects a stream that was just opened. The caller sets a deadline.
    pub(super) async fn secure(
        &self,
        broker: &BrokerAddress,
        stream: Box<dyn ByteStream>,
    ) -> Result<Box<dyn ByteStream>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.secure(broker, stream).await.map_err(|why| why.with_broker(broker));
        }
        let _ = broker;
        Ok(stream)
    }
}
