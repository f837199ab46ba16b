import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** The Java producer of 0.10: records have timestamps. */
class TimedProducing extends PlainProducing {
    TimedProducing(Context context, Properties settings) throws Exception {
        super(context, settings);
    }

    @Override protected ProducerRecord<byte[], byte[]> record(Sent record) {
        return new ProducerRecord<>(record.topic, record.partition, record.timestamp, record.key, record.value);
    }

    @Override protected String timestamp(RecordMetadata metadata) {
        return Long.toString(metadata.timestamp());
    }
}
