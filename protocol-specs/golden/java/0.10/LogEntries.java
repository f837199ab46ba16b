import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.*;

/**
 * Log entries of magic 0 and 1 from the client classes of 0.10, read back by the same.
 * Arguments: release, file to write, seed, how many.
 */
public final class LogEntries {
    static Chance chance;
    static final long NOW = 1_470_000_000_000L;

    public static void main(String[] args) throws Exception {
        String release = args[0];
        long seed = Long.parseLong(args[2]);
        try (Lines.Cases cases = new Lines.Cases(args[1])) {
            for (int i = 0; i < Integer.parseInt(args[3]); i++) {
                chance = new Chance(seed + i);
                byte[] set = set();
                String how = "";
                if (chance.in(5)) {
                    set = Arrays.copyOf(set, chance.nextInt(set.length + 1));
                    how = " cut";
                }
                cases.add(release + " #" + (seed + i) + how, set, read(set));
                if (set.length > 400_000) continue;
                for (int m = 0; m < 2; m++) {
                    byte[] damaged = Damage.one(set, chance);
                    cases.add(release + " #" + (seed + i) + " damaged " + m, damaged, read(damaged));
                }
            }
        }
    }

    static long next;

    static byte[] set() throws Exception {
        java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
        next = chance.baseOffset();
        for (int part = chance.between(1, 4); part > 0; part--) {
            all.write(part());
            next += chance.in(2) ? 0 : chance.between(1, 1000);
        }
        return all.toByteArray();
    }

    static byte[] part() throws Exception {
        byte magic = (byte) (chance.in(4) ? 0 : 1);
        TimestampType type = magic == 1 && chance.in(4) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        CompressionType codec = CompressionType.forId(chance.nextInt(4));
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(chance.between(64, 4096)), magic, codec, type,
            next, Math.max(0, chance.timestamp(NOW)));
        int count = chance.count();
        for (int i = 0; i < count; i++) {
            next += i > 0 && chance.in(10) ? chance.between(1, 300) : 0;
            builder.appendWithOffset(next++, magic == 0 ? -1 : chance.timestamp(NOW), chance.key(), chance.value(count));
        }
        MemoryRecords records = builder.build();
        byte[] bytes = Lines.copy(records.buffer());
        records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        switch (chance.nextInt(7)) {
            case 0 -> { // what a broker does to a wrapper in place: its time, its offset
                for (LogEntry entry : shallow(records)) {
                    if (entry.magic() == 0 || !entry.isCompressed()) return bytes;
                    set(entry, chance.in(2) ? "setLogAppendTime" : "setCreateTime", Math.max(0, chance.timestamp(NOW)));
                    long offset = entry.offset() + chance.between(1, 5000);
                    set(entry, "setOffset", offset);
                    next = offset + 1;
                }
            }
            case 1, 2 -> {
                int share = chance.of(2, 3, 10);
                ByteBuffer out = ByteBuffer.allocate(bytes.length + 1000);
                records.filterTo(new TopicPartition("t", 0), entry -> !chance.in(share), out, Integer.MAX_VALUE);
                out.flip();
                if (out.remaining() > 0) return Lines.copy(out);
            }
            case 3 -> {
                Records down = records.toMessageFormat((byte) 0);
                return Lines.copy(((MemoryRecords) down).buffer());
            }
            default -> { }
        }
        return bytes;
    }

    /** The class of these entries is not for Java outside its package, only for Scala. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static Iterable<LogEntry> shallow(MemoryRecords records) {
        return (Iterable) records.shallowEntries();
    }

    static void set(LogEntry entry, String method, long value) throws Exception {
        var setter = entry.getClass().getMethod(method, long.class);
        setter.setAccessible(true);
        setter.invoke(entry, value);
    }

    static String read(byte[] bytes) {
        Lines lines = new Lines();
        try {
            Long next = null;
            int valid = 0;
            for (LogEntry entry : shallow(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)))) {
                entry.record().ensureValid();
                next = Math.max(next == null ? Long.MIN_VALUE : next, entry.nextOffset());
                int size = entry.sizeInBytes();
                String codec = entry.record().compressionType().name;
                for (LogEntry one : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes, valid, size).slice()).deepEntries()) {
                    var record = one.record();
                    record.ensureValid();
                    boolean stamped = record.magic() > 0;
                    String type = !stamped ? null : record.timestampType() == TimestampType.LOG_APPEND_TIME ? "LogAppendTime" : "CreateTime";
                    lines.record(one.offset(), stamped ? record.timestamp() : null, type, Lines.copy(record.key()), Lines.copy(record.value()));
                    lines.end(record.magic(), codec, false, null, null);
                }
                valid += size;
            }
            lines.last(next, bytes.length - valid);
        } catch (Throwable e) {
            lines.failed(e);
        }
        return lines.toString();
    }
}
