import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** The Java consumer from 0.11 on: records have headers. */
final class HeaderReading extends TimedReading {
    HeaderReading(Context context) {
        super(context);
    }

    @Override protected String line(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder(super.line(record));
        for (Header header : record.headers()) {
            line.append('\t').append(Driver.bytes(header.key().getBytes(StandardCharsets.UTF_8))).append('\t')
                .append(Driver.bytes(header.value()));
        }
        return line.toString();
    }
}
