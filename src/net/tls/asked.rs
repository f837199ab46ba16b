//! Whether the broker has asked for a certificate in the handshake that is under way. Some refuse one, or its absence, by
//! closing the connection (seen on 0.9 and 0.10).

use std::cell::Cell;
use std::sync::Arc;

use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, SignatureScheme};

tokio::task_local! {
    static ASKED: Cell<Option<Asked>>;
}

/// The broker has asked for a certificate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// There was one to show.
    pub(super) shown: bool,
}

/// What comes of a handshake, and whether it was asked for a certificate in it.
pub(super) async fn watched<T>(handshake: impl Future<Output = T>) -> (T, Option<Asked>) {
    let watched = async {
        let outcome = handshake.await;
        (outcome, ASKED.with(Cell::get))
    };
    ASKED.scope(Cell::new(None), watched).await
}

/// Lets handshakes with this configuration be [`watched`].
pub(super) fn watch(config: &mut ClientConfig) {
    config.client_auth_cert_resolver = Arc::new(Watched(Arc::clone(&config.client_auth_cert_resolver)));
}

#[derive(Debug)]
struct Watched(Arc<dyn ResolvesClientCert>);

impl ResolvesClientCert for Watched {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let found = self.0.resolve(issuers, schemes);
        // Nobody may be watching.
        let _ = ASKED.try_with(|asked| asked.set(Some(Asked { shown: found.is_some() })));
        found
    }

    fn only_raw_public_keys(&self) -> bool {
        self.0.only_raw_public_keys()
    }

    fn has_certs(&self) -> bool {
        self.0.has_certs()
    }
}
