import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * One JVM with one release's own classes, told what to do line by line, so that a test pays for one start only.
 *
 * A command is one line of tab-separated fields; bytes are base64, "-" is null. The answer is any number of lines
 * and then "ok", or "error" and a base64 stack trace. The driver ends with its input.
 *
 * Only this file is the same for all releases: it uses no Kafka class. What differs is behind three interfaces,
 * whose implementations are named on the command line and compiled against that release alone.
 */
public final class Driver {
    /** Where the running command's System.out goes: tools print their results there. */
    private static ByteArrayOutputStream captured;

    private final Topics topics;
    private final Class<?> producing;
    private final Reading reading;
    private final Map<String, Producing> producers = new HashMap<>();
    private final PrintStream answers;

    /** Driver RELEASE BROKERS ZOOKEEPER TOPICS-CLASS PRODUCING-CLASS READING-CLASS */
    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        // Scala's Console keeps the first System.out it sees, so this one has to last.
        System.setOut(new PrintStream(new OutputStream() {
            @Override public void write(int b) {
                if (captured != null) captured.write(b); else System.err.write(b);
            }
        }, true, "UTF-8"));
        new Driver(args, answers).serve();
    }

    private Driver(String[] args, PrintStream answers) throws Exception {
        this.answers = answers;
        Context context = new Context(args[0], args[1], args[2]);
        this.topics = (Topics) make(Class.forName(args[3]), context);
        this.producing = Class.forName(args[4]);
        this.reading = (Reading) make(Class.forName(args[5]), context);
        this.context = context;
    }

    private final Context context;

    private static Object make(Class<?> type, Object... args) throws Exception {
        try {
            return type.getDeclaredConstructors()[0].newInstance(args);
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                run(line.split("\t", -1));
                if (line.startsWith("send\t")) continue; // its flush is answered
                answers.println("ok");
            } catch (Throwable thrown) {
                StringWriter trace = new StringWriter();
                thrown.printStackTrace(new PrintWriter(trace));
                answers.println("error\t" + bytes(trace.toString().getBytes(StandardCharsets.UTF_8)));
            }
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void run(String[] f) throws Throwable {
        switch (f[0]) {
            case "create": // topic, replicas of each partition (0,1,2;1,2,0), config=value ...
                topics.create(f[1], replicas(f[2]), pairs(f, 3));
                break;
            case "grow": // topic, replicas of each partition, those that it has already first
                topics.grow(f[1], replicas(f[2]));
                break;
            case "delete": // topic; it goes a while after the answer
                topics.delete(f[1]);
                break;
            case "in-sync": // topic, partition; answers the ids of the replicas in sync
                answers.println(topics.inSync(f[1], Integer.parseInt(f[2])));
                break;
            case "alter": // topic, config=value ... (all the settings it shall have)
                topics.alter(f[1], pairs(f, 2));
                break;
            case "delete-records": // topic, partition, before this offset
                topics.deleteRecords(f[1], Integer.parseInt(f[2]), Long.parseLong(f[3]));
                break;
            case "producer": // name, setting=value ...
                producers.put(f[1], (Producing) make(producing, context, pairs(f, 2)));
                break;
            case "send": { // producer, topic, partition, timestamp, key, value, (header key, header value) ...
                Sent sent = new Sent(f[2], Integer.parseInt(f[3]), f[4].equals("-") ? null : Long.valueOf(f[4]),
                    bytes(f[5]), bytes(f[6]));
                for (int i = 7; i < f.length; i += 2) {
                    sent.headers.add(new Object[] {new String(bytes(f[i]), StandardCharsets.UTF_8), bytes(f[i + 1])});
                }
                producers.get(f[1]).add(sent);
                break;
            }
            case "flush": // producer; answers "offset timestamp" for each record since the last flush, in order
                for (String line : producers.get(f[1]).flush()) answers.println(line);
                break;
            case "begin":
                producers.get(f[1]).begin();
                break;
            case "commit":
                producers.get(f[1]).end(true);
                break;
            case "abort":
                producers.get(f[1]).end(false);
                break;
            case "close":
                producers.remove(f[1]).close();
                break;
            case "read": { // topic, partition, from, end, committed|uncommitted; answers the records in [from, end)
                long end = Long.parseLong(f[4]);
                for (String line : reading.read(f[1], Integer.parseInt(f[2]), Long.parseLong(f[3]), end,
                    f[5].equals("committed"))) answers.println(line);
                break;
            }
            case "tool": // class, arguments ...; answers what its main printed
                for (String line : tool(f[1], Arrays.copyOfRange(f, 2, f.length)).split("\r?\n")) answers.println(line);
                break;
            default:
                throw new IllegalArgumentException("no such command: " + f[0]);
        }
    }

    private static String tool(String name, String[] args) throws Throwable {
        captured = new ByteArrayOutputStream();
        try {
            Class<?> type = Class.forName(name);
            Method main;
            try {
                main = type.getDeclaredMethod("mainNoExit", String[].class); // the Java tools' main always exits
                main.setAccessible(true);
            } catch (NoSuchMethodException scala) {
                main = type.getMethod("main", String[].class);
            }
            main.invoke(null, (Object) args);
            System.out.flush();
            return new String(captured.toByteArray(), StandardCharsets.UTF_8);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        } finally {
            captured = null;
        }
    }

    private static List<List<Integer>> replicas(String field) {
        List<List<Integer>> partitions = new ArrayList<>();
        for (String partition : field.split(";")) {
            List<Integer> ids = new ArrayList<>();
            for (String id : partition.split(",")) ids.add(Integer.valueOf(id));
            partitions.add(ids);
        }
        return partitions;
    }

    private static Properties pairs(String[] fields, int from) {
        Properties pairs = new Properties();
        for (int i = from; i < fields.length; i++) {
            int at = fields[i].indexOf('=');
            pairs.setProperty(fields[i].substring(0, at), fields[i].substring(at + 1));
        }
        return pairs;
    }

    static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }

    static String bytes(byte[] value) {
        return value == null ? "-" : Base64.getEncoder().encodeToString(value);
    }
}

/** What every implementation is made with. */
final class Context {
    final String release;
    final String brokers;
    final String zookeeper;

    Context(String release, String brokers, String zookeeper) {
        this.release = release;
        this.brokers = brokers;
        this.zookeeper = zookeeper;
    }

    /** Whether this release is the given one or newer. */
    boolean since(int... wanted) {
        String[] have = release.split("\\.");
        for (int i = 0; i < wanted.length; i++) {
            int part = Integer.parseInt(have[i]);
            if (part != wanted[i]) return part > wanted[i];
        }
        return true;
    }
}

/** One record to produce. */
final class Sent {
    final String topic;
    final int partition;
    final Long timestamp;
    final byte[] key;
    final byte[] value;
    final List<Object[]> headers = new ArrayList<>();

    Sent(String topic, int partition, Long timestamp, byte[] key, byte[] value) {
        this.topic = topic;
        this.partition = partition;
        this.timestamp = timestamp;
        this.key = key;
        this.value = value;
    }
}

interface Topics {
    /** Given are the replicas of each partition, the preferred leader first. */
    void create(String topic, List<List<Integer>> replicas, Properties config) throws Exception;

    /** Adds partitions; given are the replicas of all, with those that it has. */
    void grow(String topic, List<List<Integer>> replicas) throws Exception;

    void delete(String topic) throws Exception;

    /** The ids of the replicas in sync, with commas. */
    String inSync(String topic, int partition) throws Exception;

    void alter(String topic, Properties config) throws Exception;

    void deleteRecords(String topic, int partition, long before) throws Exception;
}

interface Producing {
    void add(Sent record) throws Exception;

    List<String> flush() throws Exception;

    void begin() throws Exception;

    void end(boolean commit) throws Exception;

    void close() throws Exception;
}

interface Reading {
    /** Lines "offset, timestamp, type, key, value, (header key, header value) ...". */
    List<String> read(String topic, int partition, long from, long end, boolean committed) throws Exception;
}
