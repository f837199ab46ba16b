import java.io.ByteArrayOutputStream;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Record sets of magic 0, 1 and 2 from the client classes of 0.11 to 4.4, read back by the same.
 * What differs between the releases is in the class Kafka, one for each.
 * Arguments: release, file to write, seed, how many.
 */
public final class Batches {
    static Chance chance;
    static final long NOW = 1_600_000_000_000L;

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
                byte[] inner = damagedInside();
                cases.add(release + " #" + (seed + i) + " damaged inside", inner, read(inner));
            }
        }
    }

    static long next;
    /** What fills up a down-conversion is the end of a set. */
    static boolean ended;

    static byte[] set() throws Exception {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        next = chance.baseOffset();
        ended = false;
        for (int part = chance.in(3) ? 1 : chance.between(1, 6); part > 0 && !ended; part--) {
            all.write(part());
            next += chance.in(2) ? 0 : chance.between(1, 1000);
        }
        return all.toByteArray();
    }

    static byte[] part() throws Exception {
        if (chance.in(6)) return control();
        byte[] batch = batch(chance.in(2) ? 2 : chance.nextInt(3), -1);
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(batch));
        switch (chance.nextInt(8)) {
            case 0 -> { // the broker's clock, set in place
                for (MutableRecordBatch one : records.batches())
                    if (one.magic() > 0) one.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, chance.timestamp(NOW));
            }
            case 1 -> { // offsets given out by the broker, in place
                long to = next + chance.between(0, 500);
                for (MutableRecordBatch one : records.batches()) {
                    boolean wrapper = one.isCompressed();
                    if (one.magic() == 2 || one.magic() == 1 && wrapper) {
                        long last = to + (one.lastOffset() - one.baseOffset());
                        one.setLastOffset(last);
                        to = last + 1;
                    } else return batch;
                }
                next = Math.max(next, to);
            }
            case 2 -> {
                for (MutableRecordBatch one : records.batches())
                    if (one.magic() == 2) one.setPartitionLeaderEpoch(chance.nextInt());
            }
            case 3, 4, 5 -> {
                int share = chance.of(2, 2, 3, 10, 1000);
                byte[] kept = Kafka.filter(batch, () -> !chance.in(share), chance, NOW);
                // The cleaner drops whole batches that it need not remember.
                if (kept.length > 0 || chance.in(2)) return kept;
            }
            case 6 -> {
                byte[] down = Kafka.downConvert(batch, (byte) chance.nextInt(2), chance);
                ended = down != null;
                if (ended) return down;
            }
            default -> { }
        }
        return batch;
    }

    /** `codec` −1 is any that the format may have. */
    static byte[] batch(int magic, int codec) {
        for (int tries = 0; ; tries++) {
            try {
                return build(magic, codec < 0 ? chance.nextInt(magic < 2 ? 4 : Kafka.CODECS) : codec);
            } catch (IllegalArgumentException | IllegalStateException e) {
                if (tries > 20) throw e;
            }
        }
    }

    static byte[] build(int magic, int codec) {
        TimestampType type = magic > 0 && chance.in(4) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        boolean idempotent = magic == 2 && chance.in(3);
        boolean transactional = idempotent && chance.in(2);
        long producer = idempotent ? chance.of(0L, 7L, 4000L, Long.MAX_VALUE) : -1;
        long base = next;
        MemoryRecordsBuilder builder = Kafka.builder(ByteBuffer.allocate(chance.between(64, 4096)), (byte) magic, codec, chance,
            type, base, chance.timestamp(NOW), producer, (short) (idempotent ? chance.nextInt(1 << 15) : -1),
            idempotent ? chance.of(0, 1000, Integer.MAX_VALUE - 1) : -1, transactional, chance.of(-1, 0, 5, Integer.MAX_VALUE));
        int count = chance.count();
        long offset = base;
        for (int i = 0; i < count; i++) {
            Header[] headers = new Header[magic == 2 && chance.in(3) ? chance.between(1, chance.in(20) ? 200 : 4) : 0];
            for (int h = 0; h < headers.length; h++)
                headers[h] = new RecordHeader(chance.of("", "h", "h", "trace-id", "\u00fcml\u00e4ut", "\u65e5\u672c"),
                    chance.of(null, new byte[0], chance.text(5), chance.noise(9)));
            builder.appendWithOffset(offset, chance.timestamp(NOW), chance.key(), chance.value(count), headers);
            offset += chance.in(10) ? chance.between(1, 300) : chance.in(400) ? 1 << 29 : 1;
            if (offset - base > Integer.MAX_VALUE) break;
        }
        byte[] bytes = Lines.copy(builder.build().buffer());
        next = offset;
        return bytes;
    }

    static byte[] control() throws Exception {
        if (chance.in(2)) {
            ByteBuffer buffer = ByteBuffer.allocate(200);
            MemoryRecords.writeEndTransactionalMarker(buffer, next++, NOW, chance.nextInt(10), chance.of(0L, 7L, 4000L),
                (short) chance.nextInt(5), new EndTransactionMarker(chance.of(ControlRecordType.COMMIT, ControlRecordType.ABORT), chance.nextInt(99)));
            buffer.flip();
            byte[] marker = Lines.copy(buffer);
            // A cleaner may take the record and leave the batch, or set a delete horizon.
            return chance.in(3) ? Kafka.filter(marker, () -> chance.in(2), chance, NOW) : marker;
        }
        if (chance.in(3)) {
            ByteBuffer buffer = ByteBuffer.allocate(61);
            int gap = chance.between(0, 1000);
            DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, 7, (short) 1, 5, next, next + gap, 3,
                chance.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME), NOW, chance.in(2), chance.in(2));
            next += gap + 1;
            return buffer.array();
        }
        List<Method> notes = new ArrayList<>();
        for (Method method : MemoryRecords.class.getMethods())
            if (Modifier.isStatic(method.getModifiers()) && method.getName().matches("with.*(Message|Record)") && method.getParameterCount() >= 4)
                notes.add(method);
        notes.sort(Comparator.comparing(Method::getName));
        if (notes.isEmpty()) return new byte[0];
        Method method = chance.of(notes.toArray(new Method[0]));
        Object[] values = new Object[method.getParameterCount()];
        values[0] = next++;
        values[1] = NOW;
        values[2] = 4;
        if (values.length == 5) values[3] = ByteBuffer.allocate(512);
        values[values.length - 1] = method.getParameterTypes()[values.length - 1].getConstructor().newInstance();
        return Lines.copy(((MemoryRecords) method.invoke(null, values)).buffer());
    }

    /** A compressed batch whose records were damaged before they were compressed. */
    static byte[] damagedInside() throws Exception {
        next = chance.nextInt(1000);
        int magic = chance.in(2) ? 2 : chance.nextInt(2);
        int codec = 1 + chance.nextInt(magic < 2 ? 3 : Kafka.CODECS - 1);
        byte[] plain = batch(magic, 0);
        int from = magic == 2 ? 61 : 0;
        byte[] inner = Arrays.copyOfRange(plain, from, plain.length);
        int n = chance.between(1, 2);
        if (magic < 2 && chance.in(2)) inner = Damage.one(inner, chance);
        else if (magic < 2 && chance.in(4)) inner = Arrays.copyOf(inner, chance.nextInt(inner.length));
        else for (; n > 0; n--) inner[chance.in(2) ? chance.nextInt(Math.min(40, inner.length)) : chance.nextInt(inner.length)] += chance.of(1, -1, 64, 128, 3);
        byte[] packed = Kafka.compress(inner, (byte) magic, codec);
        ByteBuffer out;
        if (magic == 2) {
            out = ByteBuffer.allocate(61 + packed.length);
            out.put(plain, 0, 61).put(packed);
            out.put(22, (byte) (out.get(22) & ~7 | codec));
        } else {
            int head = magic == 1 ? 34 : 26;
            out = ByteBuffer.allocate(head + packed.length);
            out.putLong(next + 10).putInt(0).putInt(0).put((byte) magic).put((byte) codec);
            if (magic == 1) out.putLong(NOW);
            out.putInt(-1).putInt(packed.length).put(packed);
        }
        out.putInt(8, out.capacity() - 12);
        Damage.sum(out.array(), 0, out.capacity());
        return out.array();
    }

    static String read(byte[] bytes) {
        Lines lines = new Lines();
        try {
            Long next = null;
            int valid = 0;
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
                batch.ensureValid();
                next = Math.max(next == null ? Long.MIN_VALUE : next, batch.nextOffset());
                valid += batch.sizeInBytes();
                String codec = Kafka.codec(batch);
                Long producer = batch.hasProducerId() ? batch.producerId() : null;
                // The lazy one, so that what comes before damage is seen.
                try (var records = batch.streamingIterator(Kafka.NO_CACHING)) {
                    while (records.hasNext()) {
                        var record = records.next();
                        record.ensureValid(); // as the consumer does: for magic 0 and 1 the inner checksum
                        boolean stamped = batch.magic() > 0;
                        String type = !stamped ? null : record.hasTimestampType(TimestampType.LOG_APPEND_TIME) ? "LogAppendTime" : "CreateTime";
                        // A record of magic 2 does not know its batch's type.
                        if (batch.magic() == 2) type = batch.timestampType() == TimestampType.LOG_APPEND_TIME ? "LogAppendTime" : "CreateTime";
                        lines.record(record.offset(), stamped ? record.timestamp() : null, type, Lines.copy(record.key()), Lines.copy(record.value()));
                        for (Header header : record.headers()) lines.header(header.key().getBytes(StandardCharsets.UTF_8), header.value());
                        String control = batch.isControlBatch() ? ControlRecordType.parse(record.key()).name().toLowerCase(Locale.ROOT) : null;
                        lines.end(batch.magic(), codec, batch.isTransactional(), producer, control);
                    }
                }
            }
            lines.last(next, bytes.length - valid);
        } catch (Throwable e) {
            lines.failed(e);
        }
        return lines.toString();
    }
}
