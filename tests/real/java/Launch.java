import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another main class, and ends the JVM when standard input is closed: whoever started it holds the other end
 * of that pipe, so a server cannot outlive a test run that crashed or was killed.
 */
public final class Launch {
    public static void main(String[] args) throws Throwable {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException closed) {
                // the same as its end
            }
            Runtime.getRuntime().halt(99);
        }, "parent-watch");
        watch.setDaemon(true);
        watch.start();
        try {
            Class.forName(args[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }
}
