//! Certificates and keys in files: replaced, damaged, of another kind.

use std::path::Path;

use super::*;

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[tokio::test(start_paused = true)]
async fn files_that_were_replaced_count_from_the_next_connection_on() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    write(&path, &scene.ca.pem);
    let front = scene.front();
    let dialer = Dialer::default()
        .connector(Arc::new(front.clone()))
        .security(Security::plaintext().tls(Tls::new().ca_file(&path)))
        .unwrap();
    let address = scene.broker.addr().parse().unwrap();
    dialer.dial(&address).await.unwrap();

    // Another authority, with a name of another length: files of one length and second are told apart by their time.
    let other = Authority::new("the next authority");
    let issued = other.issue("broker", &[host(&scene.broker)], Valid::Now);
    front.reconfigure(&Server::with(&issued));
    let error = dialer.dial(&address).await.unwrap_err();
    assert!(matches!(tls_trouble(&error), TlsTrouble::UnknownIssuer { .. }), "{error:?}");
    write(&path, &other.pem);
    dialer.dial(&address).await.unwrap();

    // Half a file, and none: those before go on.
    write(&path, &other.pem[..other.pem.len() / 2]);
    dialer.dial(&address).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    dialer.dial(&address).await.unwrap();
    // And back.
    write(&path, &scene.ca.pem);
    front.reconfigure(&Server::with(&scene.issued));
    dialer.dial(&address).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_that_was_renewed_is_shown_next_time() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    let expired = scene.ca.issue("alice", &[], Valid::Past);
    write(&chain, &expired.chain);
    write(&key, &expired.key);
    let server = Server { client_ca: Some(&scene.ca.pem), ..Server::with(&scene.issued) };
    let front = Front::before(&scene.broker, &server);
    let tls = scene.tls().client_certificate_files(&chain, &key);
    let dialer = Dialer::default()
        .connector(Arc::new(front))
        .security(Security::plaintext().tls(tls.clone()))
        .unwrap();
    let address = scene.broker.addr().parse().unwrap();
    let error = dialer.dial(&address).await.unwrap_err();
    assert!(matches!(tls_trouble(&error), TlsTrouble::Refused { .. }), "{error:?}");
    // The certificate first: for a moment the key is not its own, and the old pair goes on.
    let renewed = scene.ca.issue("alice the second", &[], Valid::Now);
    write(&chain, &renewed.chain);
    assert!(dialer.dial(&address).await.is_err());
    write(&key, &renewed.key);
    dialer.dial(&address).await.unwrap();
    assert_eq!(tls.principal().as_deref(), Some("User:CN=alice the second,O=Example"));
}

#[test]
fn what_cannot_be_used_is_said_at_the_start_with_the_command_that_helps() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let alice = scene.ca.issue("alice", &[], Valid::Now);
    let bob = scene.ca.issue("bob", &[], Valid::Now);
    let said = |tls: Tls| {
        let error = Dialer::default().security(Security::plaintext().tls(tls)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Config(_)), "{error:?}");
        error.to_string()
    };

    assert!(said(Tls::new().ca_file(folder.path().join("none"))).contains("cannot be read"));
    let files: [(&[u8], &str); 8] = [
        (b"", "holds no certificate"),
        (b"hello", "holds no certificate"),
        (alice.key.as_bytes(), "holds no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB", "-----END"),
        (b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", "base64"),
        (b"\xfe\xed\xfe\xed\0\0\0\x02", "keytool -importkeystore"),
        (b"\x30\x82\x0a\x00\x02\x01\x03", "openssl pkcs12"),
        (b"\xff\xfe\x00", "is not PEM"),
    ];
    for (bytes, words) in files {
        std::fs::write(&path, bytes).unwrap();
        let sentence = said(Tls::new().ca_file(&path));
        assert!(sentence.contains(words), "{words:?} is missing: {sentence}");
    }

    let keys = [
        (bob.key.as_str(), "not the one of the certificate"),
        ("", "holds no private key"),
        (alice.chain.as_str(), "holds no private key"),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "openssl pkey",
        ),
        ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", "openssl pkey"),
        ("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", "cannot be used"),
    ];
    for (key, words) in keys {
        let sentence = said(scene.tls().client_certificate_pem(&alice.chain, key));
        assert!(sentence.contains(words), "{words:?} is missing: {sentence}");
    }
    let half = &alice.key[..alice.key.len() / 2];
    let sentence = said(scene.tls().client_certificate_pem(&alice.chain, half));
    let secret: String = half.lines().skip(1).take(1).collect();
    assert!(!sentence.contains(&secret), "a key is never shown: {sentence}");
    assert!(said(scene.tls().server_name("a b")).contains("neither a host name nor an address"));
}
