import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.serializer.Encoder;
import kafka.utils.VerifiableProperties;

/**
 * The Scala producer of 0.8.0 and 0.8.1. A flush sends one message set for each partition.
 *
 * It partitions by key only, and sends records without one where it likes. So the key given to it is the record
 * itself: the partitioner below takes the partition from it, the encoder its key, which may be null.
 */
public final class ScalaProducing implements Producing {
    private final Producer<Sent, byte[]> producer;
    private final List<KeyedMessage<Sent, byte[]>> waiting = new ArrayList<>();

    ScalaProducing(Context context, Properties settings) {
        Properties all = new Properties();
        all.putAll(settings);
        all.setProperty("metadata.broker.list", context.brokers);
        all.setProperty("producer.type", "sync");
        all.setProperty("request.required.acks", "-1");
        all.setProperty("message.send.max.retries", "0");
        all.setProperty("serializer.class", "kafka.serializer.DefaultEncoder");
        all.setProperty("key.serializer.class", "ScalaProducing$KeyOf");
        all.setProperty("partitioner.class", "ScalaProducing$PartitionOf");
        String codec = all.getProperty("compression.type");
        if (codec != null) {
            all.remove("compression.type");
            all.setProperty("compression.codec", codec);
        }
        producer = new Producer<>(new ProducerConfig(all));
    }

    @Override public void add(Sent record) {
        waiting.add(new KeyedMessage<>(record.topic, record, record.value));
    }

    /** It tells no offsets: they follow from the order. */
    @Override public List<String> flush() {
        producer.send(waiting);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < waiting.size(); i++) lines.add("-\t-");
        waiting.clear();
        return lines;
    }

    @Override public void begin() {
        throw new UnsupportedOperationException("transactions came with 0.11");
    }

    @Override public void end(boolean commit) {
        begin();
    }

    @Override public void close() {
        producer.close();
    }

    public static final class KeyOf implements Encoder<Sent> {
        public KeyOf(VerifiableProperties settings) { }

        @Override public byte[] toBytes(Sent record) {
            return record.key;
        }
    }

    @SuppressWarnings("rawtypes")
    public static final class PartitionOf implements Partitioner {
        public PartitionOf(VerifiableProperties settings) { }

        @Override public int partition(Object record, int partitions) {
            return ((Sent) record).partition;
        }
    }
}
