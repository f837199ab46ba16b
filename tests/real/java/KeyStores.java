import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;

/**
 * KeyStores DIRECTORY PASSWORD NAME…: NAME.pem and NAME.key (PKCS#8, elliptic curve) become NAME.p12, and ca.pem
 * becomes trust.p12. Brokers before 2.7 take no PEM (KIP-651).
 */
public final class KeyStores {
    public static void main(String[] args) throws Exception {
        Path dir = Paths.get(args[0]);
        char[] password = args[1].toCharArray();
        Certificate ca = certificate(dir.resolve("ca.pem"));
        KeyStore trust = empty();
        trust.setCertificateEntry("ca", ca);
        write(trust, dir.resolve("trust.p12"), password);
        for (int i = 2; i < args.length; i++) {
            String name = args[i];
            KeyStore store = empty();
            Certificate[] chain = {certificate(dir.resolve(name + ".pem")), ca};
            store.setKeyEntry(name, key(dir.resolve(name + ".key")), password, chain);
            write(store, dir.resolve(name + ".p12"), password);
        }
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(Path pem) throws Exception {
        return CertificateFactory.getInstance("X.509")
            .generateCertificate(new ByteArrayInputStream(Files.readAllBytes(pem)));
    }

    private static PrivateKey key(Path pem) throws Exception {
        String text = new String(Files.readAllBytes(pem), StandardCharsets.US_ASCII);
        byte[] der = Base64.getMimeDecoder().decode(text.replaceAll("-----[A-Z ]+-----", ""));
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
    }

    private static void write(KeyStore store, Path path, char[] password) throws Exception {
        try (OutputStream out = Files.newOutputStream(path)) {
            store.store(out, password);
        }
    }
}
