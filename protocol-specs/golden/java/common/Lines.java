import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.*;
import java.util.*;

/** The lines that `downspout decode records` must print, and the file of cases: nothing of Kafka in here. */
public final class Lines {
    private final StringBuilder text = new StringBuilder();

    /** Starts a record's line. `timestamp` and `type` are null for magic 0. */
    public void record(long offset, Long timestamp, String type, byte[] key, byte[] value) {
        text.append("{\"offset\":").append(offset).append(",\"timestamp\":").append(timestamp);
        text.append(",\"timestamp_type\":").append(type == null ? "null" : '"' + type + '"');
        text.append(",\"key\":");
        bytes(key);
        text.append(",\"value\":");
        bytes(value);
        text.append(",\"headers\":[");
        headers = 0;
    }

    private int headers;

    public void header(byte[] key, byte[] value) {
        text.append(headers++ == 0 ? "{\"key\":" : ",{\"key\":");
        bytes(key);
        text.append(",\"value\":");
        bytes(value);
        text.append('}');
    }

    /** Ends a record's line. `producerId` is null where there is none, `control` for data. */
    public void end(int magic, String codec, boolean transactional, Long producerId, String control) {
        text.append("],\"magic\":").append(magic).append(",\"codec\":\"").append(codec);
        text.append("\",\"transactional\":").append(transactional).append(",\"producer_id\":").append(producerId);
        if (control != null) text.append(",\"control\":\"").append(control).append('"');
        text.append("}\n");
    }

    public void last(Long nextOffset, long partialBytes) {
        text.append("{\"next_offset\":").append(nextOffset);
        text.append(",\"partial_bytes\":").append(partialBytes).append("}\n");
    }

    /** The reader gave up: what it threw is for people, not for comparing. */
    public void failed(Throwable error) {
        text.append("{\"java\":");
        string(error.getClass().getSimpleName() + ": " + error.getMessage());
        text.append("}\n");
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private void bytes(byte[] bytes) {
        if (bytes == null) {
            text.append("null");
            return;
        }
        try {
            CharsetDecoder utf8 = StandardCharsets.UTF_8.newDecoder();
            string(utf8.decode(ByteBuffer.wrap(bytes)).toString());
        } catch (CharacterCodingException e) {
            text.append("{\"base64\":\"").append(Base64.getEncoder().encodeToString(bytes)).append("\"}");
        }
    }

    private void string(String string) {
        text.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            switch (c) {
                case '"' -> text.append("\\\"");
                case '\\' -> text.append("\\\\");
                case '\n' -> text.append("\\n");
                case '\r' -> text.append("\\r");
                case '\t' -> text.append("\\t");
                default -> {
                    if (c < 0x20 || c == 0x7f) text.append(String.format("\\u%04x", (int) c));
                    else text.append(c);
                }
            }
        }
        text.append('"');
    }

    public static byte[] copy(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    /** A row of cases, each a name, the bytes of a set and its lines, every one behind its 4-byte size. */
    public static final class Cases implements Closeable {
        private final DataOutputStream out;

        public Cases(String file) throws IOException {
            out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file)));
        }

        public void add(String name, byte[] set, String lines) throws IOException {
            for (byte[] part : new byte[][] {name.getBytes("UTF-8"), set, lines.getBytes("UTF-8")}) {
                out.writeInt(part.length);
                out.write(part);
            }
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }
}
