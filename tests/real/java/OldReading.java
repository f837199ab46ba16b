import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import kafka.api.FetchRequestBuilder;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** The SimpleConsumer of 0.8, the model of ours. */
final class OldReading implements Reading {
    private final Context context;

    OldReading(Context context) {
        this.context = context;
    }

    @Override public List<String> read(String topic, int partition, long from, long end, boolean committed) {
        String[] broker = context.brokers.split(",")[0].split(":");
        SimpleConsumer consumer =
            new SimpleConsumer(broker[0], Integer.parseInt(broker[1]), 30_000, 1 << 20, "driver");
        List<String> lines = new ArrayList<>();
        try {
            long next = from;
            while (next < end) {
                FetchResponse response = consumer.fetch(new FetchRequestBuilder().clientId("driver")
                    .addFetch(topic, partition, next, 16 << 20).build());
                if (response.hasError()) {
                    throw new IllegalStateException("error code " + response.errorCode(topic, partition));
                }
                long before = next;
                for (MessageAndOffset message : response.messageSet(topic, partition)) {
                    if (message.offset() < next) continue;
                    lines.add(message.offset() + "\t-\t-\t" + Driver.bytes(array(message.message().key())) + "\t"
                        + Driver.bytes(array(message.message().payload())));
                    next = message.nextOffset();
                }
                if (next == before) throw new IllegalStateException("nothing at " + next + ", wanted up to " + end);
            }
        } finally {
            consumer.close();
        }
        return lines;
    }

    private static byte[] array(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] array = new byte[buffer.remaining()];
        buffer.get(array);
        return array;
    }
}
