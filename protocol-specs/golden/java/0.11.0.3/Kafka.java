import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter;

/** What is particular to 0.11. */
final class Kafka {
    static final int CODECS = 4;
    static final BufferSupplier NO_CACHING = BufferSupplier.NO_CACHING;

    static MemoryRecordsBuilder builder(ByteBuffer buffer, byte magic, int codec, Chance chance, TimestampType type, long base,
            long appended, long producer, short epoch, int sequence, boolean transactional, int leaderEpoch) {
        return MemoryRecords.builder(buffer, magic, CompressionType.forId(codec), type, base, appended, producer, epoch,
            sequence, transactional, leaderEpoch);
    }

    static String codec(RecordBatch batch) {
        return batch.compressionType().name;
    }

    static byte[] filter(byte[] set, BooleanSupplier keep, Chance chance, long now) {
        RecordFilter.BatchRetention retention = chance.of(RecordFilter.BatchRetention.DELETE_EMPTY, RecordFilter.BatchRetention.RETAIN_EMPTY);
        ByteBuffer out = ByteBuffer.allocate(set.length + 200);
        var result = MemoryRecords.readableRecords(ByteBuffer.wrap(set)).filterTo(new TopicPartition("t", 0), new RecordFilter() {
            @Override
            protected BatchRetention checkBatchRetention(RecordBatch batch) {
                return batch.magic() < 2 ? BatchRetention.DELETE_EMPTY : retention;
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.Record record) {
                return keep.getAsBoolean();
            }
        }, out, Integer.MAX_VALUE, NO_CACHING);
        ByteBuffer kept = result.output;
        kept.flip();
        return Lines.copy(kept);
    }

    static byte[] downConvert(byte[] set, byte magic, Chance chance) {
        try {
            MemoryRecords down = MemoryRecords.readableRecords(ByteBuffer.wrap(set)).downConvert(magic, 0);
            return Lines.copy(down.buffer());
        } catch (IllegalArgumentException e) {
            return null; // records with headers
        }
    }

    static byte[] compress(byte[] plain, byte magic, int codec) throws Exception {
        var out = new org.apache.kafka.common.utils.ByteBufferOutputStream(plain.length + 100);
        try (var stream = CompressionType.forId(codec).wrapForOutput(out, magic)) {
            stream.write(plain);
        }
        out.buffer().flip();
        return Lines.copy(out.buffer());
    }
}
