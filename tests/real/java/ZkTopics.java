import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Topics of 0.8.0 to 0.10.2: the nodes that TopicCommand writes; the controller does the rest. */
final class ZkTopics implements Topics {
    private final Context context;
    private final ZooKeeper zookeeper;

    ZkTopics(Context context) throws Exception {
        this.context = context;
        CountDownLatch connected = new CountDownLatch(1);
        zookeeper = new ZooKeeper(context.zookeeper, 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        connected.await();
    }

    @Override public void create(String topic, List<List<Integer>> replicas, Properties config) throws Exception {
        if (!config.isEmpty()) write("/config/topics/" + topic, config(config));
        grow(topic, replicas);
    }

    @Override public void grow(String topic, List<List<Integer>> replicas) throws Exception {
        StringBuilder json = new StringBuilder("{\"version\":1,\"partitions\":{");
        for (int p = 0; p < replicas.size(); p++) {
            json.append(p == 0 ? "" : ",").append('"').append(p).append("\":")
                .append(replicas.get(p).toString().replace(" ", ""));
        }
        write("/brokers/topics/" + topic, json.append("}}").toString());
    }

    /** 0.8.1 and later. Brokers forget it long before the controller has removed it. */
    @Override public void delete(String topic) throws Exception {
        write("/admin/delete_topics/" + topic, "");
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (zookeeper.exists("/admin/delete_topics/" + topic, false) != null
            || zookeeper.exists("/brokers/topics/" + topic, false) != null) {
            if (System.nanoTime() > deadline) throw new IllegalStateException(topic + " is still there after 30 s");
            Thread.sleep(20);
        }
    }

    @Override public String inSync(String topic, int partition) throws Exception {
        byte[] state = zookeeper.getData("/brokers/topics/" + topic + "/partitions/" + partition + "/state", false, null);
        String json = new String(state, StandardCharsets.UTF_8);
        int from = json.indexOf('[', json.indexOf("\"isr\""));
        return json.substring(from + 1, json.indexOf(']', from));
    }

    @Override public void alter(String topic, Properties config) throws Exception {
        write("/config/topics/" + topic, config(config));
        String change = context.since(0, 10, 1) ? "{\"version\":2,\"entity_path\":\"topics/" + topic + "\"}"
            : context.since(0, 9) ? "{\"version\":1,\"entity_type\":\"topics\",\"entity_name\":\"" + topic + "\"}"
            : "\"" + topic + "\"";
        zookeeper.create("/config/changes/config_change_", utf8(change), Ids.OPEN_ACL_UNSAFE,
            CreateMode.PERSISTENT_SEQUENTIAL);
    }

    @Override public void deleteRecords(String topic, int partition, long before) {
        throw new UnsupportedOperationException("DeleteRecords came with 0.11");
    }

    private static String config(Properties config) {
        StringBuilder json = new StringBuilder("{\"version\":1,\"config\":{");
        String comma = "";
        for (String name : config.stringPropertyNames()) {
            json.append(comma).append('"').append(name).append("\":\"").append(config.getProperty(name)).append('"');
            comma = ",";
        }
        return json.append("}}").toString();
    }

    private void write(String path, String text) throws Exception {
        // 0.8 makes its folders when they are first used.
        for (int slash = path.indexOf('/', 1); slash > 0; slash = path.indexOf('/', slash + 1)) {
            String folder = path.substring(0, slash);
            if (zookeeper.exists(folder, false) == null) {
                zookeeper.create(folder, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
        }
        if (zookeeper.exists(path, false) == null) {
            zookeeper.create(path, utf8(text), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } else {
            zookeeper.setData(path, utf8(text), -1);
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
