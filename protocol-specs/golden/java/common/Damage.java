import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.*;

/** Damages one entry of a set and makes its checksum right again, so that readers look inside. */
public final class Damage {
    public static byte[] one(byte[] set, Chance chance) {
        byte[] bytes = set.clone();
        List<Integer> entries = new ArrayList<>();
        ByteBuffer in = ByteBuffer.wrap(bytes);
        for (int at = 0; at + 17 <= bytes.length; ) {
            int size = 12 + in.getInt(at + 8);
            if (size < 26 || at + (long) size > bytes.length) break;
            entries.add(at);
            at += size;
        }
        if (entries.isEmpty()) {
            if (bytes.length > 0) bytes[chance.nextInt(bytes.length)] = (byte) chance.nextInt();
            return bytes;
        }
        int at = entries.get(chance.nextInt(entries.size()));
        int size = 12 + in.getInt(at + 8);
        int header = bytes[at + 16] == 2 ? 61 : bytes[at + 16] == 1 ? 34 : 26;
        for (int n = chance.in(3) ? 3 : 1; n > 0; n--) {
            int spot = switch (chance.nextInt(4)) {
                case 0 -> chance.nextInt(Math.min(size, header));
                case 1 -> Math.min(size - 1, header + chance.nextInt(Math.min(24, Math.max(1, size - header))));
                case 2 -> size - 1 - chance.nextInt(Math.min(size, 12));
                default -> chance.nextInt(size);
            };
            byte old = bytes[at + spot];
            bytes[at + spot] = switch (chance.nextInt(6)) {
                case 0 -> (byte) (old ^ 1 << chance.nextInt(8));
                case 1 -> (byte) (old + 1);
                case 2 -> (byte) (old - 1);
                case 3 -> (byte) 0xff;
                case 4 -> 0;
                default -> (byte) chance.nextInt();
            };
        }
        sum(bytes, at, size);
        return bytes;
    }

    /** Puts the right checksum into the entry at `at`. */
    public static void sum(byte[] bytes, int at, int size) {
        if (at + size > bytes.length || size < 22) return;
        boolean batch = bytes[at + 16] == 2;
        Checksum sum = batch ? new CRC32C() : new CRC32();
        int from = batch ? 21 : 16;
        sum.update(bytes, at + from, size - from);
        ByteBuffer.wrap(bytes).putInt(at + (batch ? 17 : 12), (int) sum.getValue());
    }
}
