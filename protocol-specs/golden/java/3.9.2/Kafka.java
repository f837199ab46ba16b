import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.function.BooleanSupplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.network.TransferableChannel;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter;
import org.apache.kafka.common.utils.*;

/** What is particular to 3.9. */
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
        var result = MemoryRecords.readableRecords(ByteBuffer.wrap(set)).filterTo(new TopicPartition("t", 0), new RecordFilter(now, chance.of(0L, 86_400_000L, 1L << 45)) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(batch.magic() < 2 ? BatchRetention.DELETE_EMPTY : retention, chance.in(2));
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.Record record) {
                return keep.getAsBoolean();
            }
        }, out, Integer.MAX_VALUE, NO_CACHING);
        ByteBuffer kept = result.outputBuffer();
        kept.flip();
        return Lines.copy(kept);
    }

    /** As it goes to a consumer: converted while it is sent, and filled up to the size that was announced (KIP-283). */
    static byte[] downConvert(byte[] set, byte magic, Chance chance) throws Exception {
        try {
            var records = MemoryRecords.readableRecords(ByteBuffer.wrap(set));
            long first = records.batches().iterator().next().baseOffset();
            var lazy = new LazyDownConversionRecords(new TopicPartition("t", 0), records, magic, first, Time.SYSTEM);
            var sink = new Sink();
            var send = lazy.toSend();
            while (!send.completed()) send.writeTo(sink);
            return sink.bytes.toByteArray();
        } catch (org.apache.kafka.common.errors.UnsupportedCompressionTypeException | java.util.NoSuchElementException e) {
            return null;
        }
    }

    static byte[] compress(byte[] plain, byte magic, int codec) throws Exception {
        var out = new ByteBufferOutputStream(plain.length + 100);
        try (var stream = compression(codec, new Chance(plain.length)).wrapForOutput(out, magic)) {
            stream.write(plain);
        }
        out.buffer().flip();
        return Lines.copy(out.buffer());
    }

    static final class Sink implements TransferableChannel {
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public boolean hasPendingWrites() {
            return false;
        }

        @Override
        public long transferFrom(FileChannel file, long position, long count) {
            throw new UnsupportedOperationException();
        }

        @Override
        public long write(ByteBuffer[] from, int offset, int length) {
            long all = 0;
            for (int i = offset; i < offset + length; i++) all += write(from[i]);
            return all;
        }

        @Override
        public long write(ByteBuffer[] from) {
            return write(from, 0, from.length);
        }

        @Override
        public int write(ByteBuffer from) {
            int size = from.remaining();
            byte[] piece = new byte[size];
            from.get(piece);
            bytes.write(piece, 0, size);
            return size;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() { }
    }
}
