import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** The Java consumer as it is in 0.9. */
class PlainReading implements Reading {
    private final Context context;

    PlainReading(Context context) {
        this.context = context;
    }

    @Override public List<String> read(String topic, int partition, long from, long end, boolean committed)
        throws Exception {
        Properties settings = new Properties();
        settings.setProperty("bootstrap.servers", context.brokers);
        settings.setProperty("enable.auto.commit", "false");
        settings.setProperty("auto.offset.reset", "earliest");
        settings.setProperty("max.partition.fetch.bytes", "16777216");
        settings.setProperty("fetch.max.wait.ms", "50"); // closing waits for the last fetch
        settings.setProperty("isolation.level", committed ? "read_committed" : "read_uncommitted");
        settings.setProperty("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.setProperty("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        TopicPartition place = new TopicPartition(topic, partition);
        List<String> lines = new ArrayList<>();
        long deadline = System.nanoTime() + 30_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            // assign took a List in 0.9 and a Collection later
            method("assign").invoke(consumer, Collections.singletonList(place));
            consumer.seek(place, from);
            while (consumer.position(place) < end) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("at " + consumer.position(place) + " of " + end + " after 30 s");
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    if (record.offset() < end) lines.add(line(record));
                }
            }
        }
        return lines;
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try { // 2.0 and later
            return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class
                .getMethod("poll", java.time.Duration.class).invoke(consumer, java.time.Duration.ofMillis(200));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class.getMethod("poll", long.class)
                .invoke(consumer, 200L);
        }
    }

    private static Method method(String name) {
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (method.getName().equals(name)) return method;
        }
        throw new IllegalStateException(name);
    }

    protected String line(ConsumerRecord<byte[], byte[]> record) {
        return record.offset() + "\t" + time(record) + "\t" + Driver.bytes(record.key()) + "\t"
            + Driver.bytes(record.value());
    }

    protected String time(ConsumerRecord<byte[], byte[]> record) {
        return "-\t-";
    }
}
