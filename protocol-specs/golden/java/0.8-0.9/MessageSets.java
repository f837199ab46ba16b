import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import kafka.message.*;
import scala.collection.JavaConversions;

/**
 * Message sets of magic 0 from the Scala classes of 0.8.1 and 0.9, read back by the same.
 * Arguments: release, file to write, seed, how many.
 */
public final class MessageSets {
    static Chance chance;
    /** Since 0.8.2. */
    static boolean lz4;

    public static void main(String[] args) throws Exception {
        String release = args[0];
        lz4 = release.startsWith("0.9");
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
                for (int m = 0; m < 2; m++) {
                    byte[] damaged = Damage.one(set, chance);
                    cases.add(release + " #" + (seed + i) + " damaged " + m, damaged, read(damaged));
                }
            }
        }
    }

    static byte[] set() throws Exception {
        java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
        AtomicLong next = new AtomicLong(chance.baseOffset());
        for (int part = chance.between(1, 4); part > 0; part--) {
            all.write(part(next));
            next.addAndGet(chance.in(2) ? 0 : chance.between(1, 1000));
        }
        return all.toByteArray();
    }

    static CompressionCodec codec() {
        return CompressionCodec$.MODULE$.getCompressionCodec(chance.nextInt(lz4 ? 4 : 3));
    }

    /** One set as a producer or a broker would make it. */
    static byte[] part(AtomicLong next) throws Exception {
        int count = chance.count();
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) messages.add(new Message(chance.value(count), chance.key()));
        CompressionCodec codec = codec();
        ByteBufferMessageSet set = new ByteBufferMessageSet(codec, next, JavaConversions.asScalaBuffer(messages));
        switch (chance.nextInt(6)) {
            case 0 -> { // a broker gives the offsets out anew, maybe in another codec
                ByteBufferMessageSet sent = new ByteBufferMessageSet(codec, JavaConversions.asScalaBuffer(messages));
                set = assign(sent, next, codec());
            }
            case 1 -> { // wrapped once more: 0.8 recurses, 0.9 hands out the inner wrapper as it is
                if (codec.codec() != 0 && !lz4) {
                    long last = next.get() - 1;
                    Message whole = set.shallowIterator().next().message();
                    set = new ByteBufferMessageSet(codec(), new AtomicLong(last), JavaConversions.asScalaBuffer(List.of(whole)));
                }
            }
            case 2 -> { // compacted: what stays is put into a set of its own, with its own offsets
                List<MessageAndOffset> kept = new ArrayList<>();
                var all = set.iterator();
                while (all.hasNext()) {
                    MessageAndOffset message = all.next();
                    if (chance.in(2)) kept.add(message);
                }
                if (!kept.isEmpty()) return compacted(kept, codec);
            }
            default -> { }
        }
        return Lines.copy(set.buffer());
    }

    static ByteBufferMessageSet assign(ByteBufferMessageSet sent, AtomicLong next, CompressionCodec codec) throws Exception {
        for (var method : ByteBufferMessageSet.class.getMethods()) {
            if (method.getName().equals("assignOffsets")) return (ByteBufferMessageSet) method.invoke(sent, next, codec);
            if (method.getName().equals("validateMessagesAndAssignOffsets"))
                return (ByteBufferMessageSet) method.invoke(sent, next, codec, codec, false);
        }
        throw new IllegalStateException("no way to assign offsets");
    }

    /** As the log cleaner writes: plain messages side by side, or one wrapper at the last one's offset. */
    static byte[] compacted(List<MessageAndOffset> kept, CompressionCodec codec) throws Exception {
        java.io.ByteArrayOutputStream plain = new java.io.ByteArrayOutputStream();
        for (MessageAndOffset message : kept) {
            ByteBuffer one = ByteBuffer.allocate(12 + message.message().size());
            one.putLong(message.offset()).putInt(message.message().size()).put(message.message().buffer().duplicate());
            plain.write(one.array());
        }
        if (codec.codec() == 0) return plain.toByteArray();
        java.io.ByteArrayOutputStream packed = new java.io.ByteArrayOutputStream();
        // Its lz4 stream loses what was not flushed before it is closed; a DataOutputStream sees to that.
        try (var out = new java.io.DataOutputStream(CompressionFactory.apply(codec, packed))) {
            out.write(plain.toByteArray());
        }
        Message whole = new Message(packed.toByteArray(), codec);
        ByteBuffer set = ByteBuffer.allocate(12 + whole.size());
        set.putLong(kept.get(kept.size() - 1).offset()).putInt(whole.size()).put(whole.buffer().duplicate());
        return set.array();
    }

    static String read(byte[] bytes) {
        Lines lines = new Lines();
        try {
            Long next = null;
            int valid = 0;
            var shallow = new ByteBufferMessageSet(ByteBuffer.wrap(bytes)).shallowIterator();
            while (shallow.hasNext()) {
                MessageAndOffset entry = shallow.next();
                entry.message().ensureValid();
                int size = 12 + entry.message().size();
                String codec = name(entry.message().compressionCodec());
                var deep = new ByteBufferMessageSet(ByteBuffer.wrap(bytes, valid, size).slice()).iterator();
                while (deep.hasNext()) {
                    MessageAndOffset message = deep.next();
                    message.message().ensureValid();
                    lines.record(message.offset(), null, null, Lines.copy(message.message().key()), Lines.copy(message.message().payload()));
                    lines.end(message.message().magic(), codec, false, null, null);
                }
                valid += size;
                next = Math.max(next == null ? Long.MIN_VALUE : next, entry.offset() + 1);
            }
            lines.last(next, bytes.length - valid);
        } catch (Throwable e) {
            lines.failed(e);
        }
        return lines.toString();
    }

    static String name(CompressionCodec codec) {
        return new String[] {"none", "gzip", "snappy", "lz4"}[codec.codec()];
    }
}
