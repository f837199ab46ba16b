import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** The Java producer as it is in 0.8.2 and 0.9: no timestamps, no headers, no flush(). */
class PlainProducing implements Producing {
    protected final KafkaProducer<byte[], byte[]> producer;
    private final List<Sent> waiting = new ArrayList<>();

    PlainProducing(Context context, Properties settings) throws Exception {
        Properties all = new Properties();
        all.setProperty("bootstrap.servers", context.brokers);
        all.setProperty("acks", "all");
        all.setProperty("linger.ms", "10");
        all.setProperty("batch.size", "65536");
        all.setProperty("max.request.size", "8388608");
        all.setProperty("buffer.memory", "67108864");
        all.setProperty("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        all.setProperty("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        all.putAll(settings);
        producer = new KafkaProducer<>(all);
    }

    @Override public void add(Sent record) {
        waiting.add(record);
    }

    @Override public List<String> flush() throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (Sent record : waiting) futures.add(producer.send(record(record)));
        waiting.clear();
        List<String> lines = new ArrayList<>();
        for (Future<RecordMetadata> future : futures) {
            RecordMetadata metadata = future.get(60, TimeUnit.SECONDS);
            lines.add(metadata.offset() + "\t" + timestamp(metadata));
        }
        return lines;
    }

    protected ProducerRecord<byte[], byte[]> record(Sent record) {
        return new ProducerRecord<>(record.topic, record.partition, record.key, record.value);
    }

    protected String timestamp(RecordMetadata metadata) {
        return "-";
    }

    @Override public void begin() throws Exception {
        throw new UnsupportedOperationException("transactions came with 0.11");
    }

    @Override public void end(boolean commit) throws Exception {
        begin();
    }

    @Override public void close() {
        producer.close();
    }
}
