import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;

/** Topics of 0.11 and later, through the release's AdminClient. */
final class AdminTopics implements Topics {
    private final AdminClient admin;

    AdminTopics(Context context) {
        Properties settings = new Properties();
        settings.setProperty("bootstrap.servers", context.brokers);
        admin = AdminClient.create(settings);
    }

    @Override public void create(String topic, List<List<Integer>> replicas, Properties config) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (String name : config.stringPropertyNames()) configs.put(name, config.getProperty(name));
        Map<Integer, List<Integer>> assignment = new HashMap<>();
        for (int p = 0; p < replicas.size(); p++) assignment.put(p, replicas.get(p));
        NewTopic wanted = new NewTopic(topic, assignment).configs(configs);
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                admin.createTopics(Collections.singleton(wanted)).all().get(20, TimeUnit.SECONDS);
                return;
            } catch (ExecutionException e) {
                // With ZooKeeper a deleted topic is in the way a while after brokers have forgotten it.
                if (!(e.getCause() instanceof TopicExistsException) || System.nanoTime() > deadline) throw e;
                Thread.sleep(50);
            }
        }
    }

    @Override public void grow(String topic, List<List<Integer>> replicas) throws Exception {
        // AdminClient has it from 1.0 on.
        Class<?> partitions = Class.forName("org.apache.kafka.clients.admin.NewPartitions");
        Object wanted = partitions.getMethod("increaseTo", int.class).invoke(null, replicas.size());
        Object result = AdminClient.class.getMethod("createPartitions", Map.class).invoke(admin,
            Collections.singletonMap(topic, wanted));
        wait(result, "all");
    }

    @Override public void delete(String topic) throws Exception {
        admin.deleteTopics(Collections.singleton(topic)).all().get(20, TimeUnit.SECONDS);
    }

    @Override public String inSync(String topic, int partition) throws Exception {
        Map<?, ?> described;
        Object result = admin.describeTopics(Collections.singleton(topic));
        try {
            described = (Map<?, ?>) wait(result, "allTopicNames"); // 3.1 and later
        } catch (NoSuchMethodException old) {
            described = (Map<?, ?>) wait(result, "all");
        }
        StringBuilder ids = new StringBuilder();
        TopicPartitionInfo found = ((TopicDescription) described.get(topic)).partitions().get(partition);
        for (Node replica : found.isr()) ids.append(ids.length() == 0 ? "" : ",").append(replica.id());
        return ids.toString();
    }

    @Override public void alter(String topic, Properties config) throws Exception {
        List<ConfigEntry> entries = new ArrayList<>();
        for (String name : config.stringPropertyNames()) entries.add(new ConfigEntry(name, config.getProperty(name)));
        // alterConfigs is gone from 4.0, where nothing here needs it.
        Object result = AdminClient.class.getMethod("alterConfigs", Map.class).invoke(admin,
            Collections.singletonMap(new ConfigResource(ConfigResource.Type.TOPIC, topic), new Config(entries)));
        wait(result, "all");
    }

    @Override public void deleteRecords(String topic, int partition, long before) throws Exception {
        // AdminClient has it from 1.1 on.
        Class<?> records = Class.forName("org.apache.kafka.clients.admin.RecordsToDelete");
        Object wanted = records.getMethod("beforeOffset", long.class).invoke(null, before);
        Object result = AdminClient.class.getMethod("deleteRecords", Map.class).invoke(admin,
            Collections.singletonMap(new TopicPartition(topic, partition), wanted));
        wait(result, "all");
    }

    private static Object wait(Object result, String method) throws Exception {
        java.lang.reflect.Method all = result.getClass().getMethod(method);
        all.setAccessible(true);
        return ((KafkaFuture<?>) all.invoke(result)).get(20, TimeUnit.SECONDS);
    }
}
