import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.utils.internals.*;

/** What is particular to 4.4. */
final class Kafka {
    static final int CODECS = 5;
    static final BufferSupplier NO_CACHING = BufferSupplier.NO_CACHING;

    static MemoryRecordsBuilder builder(ByteBuffer buffer, byte magic, int codec, Chance chance, TimestampType type, long base,
            long appended, long producer, short epoch, int sequence, boolean transactional, int leaderEpoch) {
        return MemoryRecords.builder(buffer, magic, compression(codec, chance), type, base, appended, producer, epoch,
            sequence, transactional, leaderEpoch);
    }

    /** At any level that the codec has. */
    static Compression compression(int codec, Chance chance) {
        return switch (codec) {
            case 1 -> Compression.gzip().level(chance.of(1, 6, 9)).build();
            case 2 -> Compression.snappy().build();
            case 3 -> Compression.lz4().level(chance.of(1, 9, 17)).build();
            case 4 -> Compression.zstd().level(chance.of(-7, 1, 3, 22)).build();
            default -> Compression.NONE;
        };
    }

    static String codec(RecordBatch batch) {
        return batch.compressionType().name;
    }

    static byte[] filter(byte[] set, BooleanSupplier keep, Chance chance, long now) {
        RecordFilter.BatchRetention retention = chance.of(RecordFilter.BatchRetention.DELETE_EMPTY, RecordFilter.BatchRetention.RETAIN_EMPTY);
        ByteBuffer out = ByteBuffer.allocate(set.length + 200);
        var result = MemoryRecords.readableRecords(ByteBuffer.wrap(set)).filterTo(new RecordFilter(now, chance.of(0L, 86_400_000L, 1L << 45)) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(batch.magic() < 2 ? BatchRetention.DELETE_EMPTY : retention, chance.in(2));
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.internal.Record record) {
                return keep.getAsBoolean();
            }
        }, out, NO_CACHING, Integer.MAX_VALUE);
        ByteBuffer kept = result.outputBuffer();
        kept.flip();
        return Lines.copy(kept);
    }

    /** No more in 4.0. */
    static byte[] downConvert(byte[] set, byte magic, Chance chance) {
        return null;
    }

    static byte[] compress(byte[] plain, byte magic, int codec) throws Exception {
        var out = new ByteBufferOutputStream(plain.length + 100);
        try (var stream = compression(codec, new Chance(plain.length)).wrapForOutput(out, magic)) {
            stream.write(plain);
        }
        out.buffer().flip();
        return Lines.copy(out.buffer());
    }
}
