import java.util.*;

/** Random contents from a seed, with the corners more often than chance would give them. */
public final class Chance extends Random {
    public Chance(long seed) {
        super(seed);
    }

    public boolean in(int n) {
        return nextInt(n) == 0;
    }

    @SafeVarargs
    public final <T> T of(T... choices) {
        return choices[nextInt(choices.length)];
    }

    public int between(int least, int most) {
        return least + nextInt(most - least + 1);
    }

    /** How many records a set gets. */
    public int count() {
        return switch (nextInt(12)) {
            case 0, 1, 2 -> 1;
            case 3, 4, 5 -> 2;
            case 6, 7, 8, 9 -> between(3, 12);
            case 10 -> between(13, 120);
            default -> in(8) ? between(500, 2000) : between(20, 60);
        };
    }

    public byte[] text(int length) {
        String words = "alpha beta gamma delta \u00fcber \u65e5\u672c \ud83e\udd80 \"quoted\" back\\slash tab\tline\n\u007f\u0001";
        byte[] from = words.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        byte[] bytes = new byte[length];
        int at = nextInt(from.length);
        for (int i = 0; i < length; i++) bytes[i] = from[(at + i) % from.length];
        return bytes;
    }

    public byte[] noise(int length) {
        byte[] bytes = new byte[length];
        nextBytes(bytes);
        return bytes;
    }

    public byte[] key() {
        return switch (nextInt(6)) {
            case 0, 1 -> null;
            case 2 -> new byte[0];
            case 3 -> noise(between(1, 20));
            default -> text(between(1, 40));
        };
    }

    /** `records` is how many share the set, so that only small ones hold large values. */
    public byte[] value(int records) {
        if (records < 4 && in(40)) return in(2) ? text(between(60_000, 300_000)) : noise(between(60_000, 300_000));
        return switch (nextInt(10)) {
            case 0 -> null;
            case 1 -> new byte[0];
            case 2 -> noise(between(1, 60));
            case 3 -> records < 40 ? text(between(1000, 9000)) : text(3);
            case 4 -> records < 40 ? noise(between(100, 3000)) : noise(3);
            case 5 -> new byte[records < 40 ? between(1, 5000) : 7];
            default -> text(between(1, 100));
        };
    }

    public long baseOffset() {
        return switch (nextInt(6)) {
            case 0 -> 0;
            case 1 -> nextInt(10);
            case 2 -> between(100, 100_000);
            case 3 -> Integer.MAX_VALUE - 5L + nextInt(10);
            case 4 -> (1L << 53) - 3 + nextInt(8);
            default -> Long.MAX_VALUE - (1L << 33) - nextInt(1000);
        };
    }

    /** A timestamp that the builders take: -1 or more. */
    public long timestamp(long around) {
        return switch (nextInt(20)) {
            case 0 -> -1;
            case 1 -> 0;
            case 2 -> Long.MAX_VALUE - nextInt(3);
            case 3 -> around + (1L << 31) + nextInt(5);
            case 4 -> Math.max(0, around - nextInt(1 << 30));
            default -> around + nextInt(2000);
        };
    }
}
