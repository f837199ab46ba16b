package org.apache.storm.kafka; // the ids of its messages are only to be seen from here

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SchemeAsMultiScheme;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;

/**
 * One life of the original storm-kafka spout, without Storm around it. It acks so many records, each tenth only after
 * it failed once, keeps one of its last few unanswered if it is told to, and is deactivated, which commits.
 *
 * Arguments: ZooKeeper's host and port, topic, zkRoot, id, topology id, topology name, wildcard, records to ack,
 * and whether one more is left unanswered.
 * Says a line for each record that came, "emit PARTITION OFFSET VALUE", and for each that was acked,
 * "ack PARTITION OFFSET".
 */
public final class StormSpout {
    public static void main(String[] args) throws Exception {
        String host = args[0];
        int port = Integer.parseInt(args[1]);
        String topic = args[2], root = args[3], id = args[4], topologyId = args[5], topologyName = args[6];
        boolean wildcard = Boolean.parseBoolean(args[7]);
        int wanted = Integer.parseInt(args[8]);
        boolean leaves = Boolean.parseBoolean(args[9]);
        PrintStream out = new PrintStream(System.out, false, "UTF-8");

        Map<Object, Object> conf = new HashMap<>(Utils.readDefaultConfig());
        conf.put(Config.TOPOLOGY_NAME, topologyName);
        conf.put(Config.STORM_ZOOKEEPER_SERVERS, Collections.singletonList(host));
        conf.put(Config.STORM_ZOOKEEPER_PORT, port);
        conf.put("kafka.topic.wildcard.match", wildcard);

        SpoutConfig config = new SpoutConfig(new ZkHosts(host + ":" + port), topic, root, id);
        config.scheme = new SchemeAsMultiScheme(new StringScheme());
        config.retryInitialDelayMs = 1;
        config.fetchMaxWait = 200;
        config.fetchSizeBytes = 1024; // what failed comes again only when all that was fetched is out
        KafkaSpout spout = new KafkaSpout(config);

        Emitted emitted = new Emitted();
        spout.open(conf, context(conf, topologyId), new SpoutOutputCollector(emitted));
        spout.activate();
        Set<String> failed = new HashSet<>();
        int acked = 0;
        long deadline = System.currentTimeMillis() + 20_000;
        while (acked < wanted && System.currentTimeMillis() < deadline) {
            spout.nextTuple();
            for (Object[] tuple : emitted.take()) {
                PartitionManager.KafkaMessageId message = (PartitionManager.KafkaMessageId) tuple[0];
                int partition = message.partition.partition;
                String name = partition + " " + message.offset;
                out.println("emit " + name + " " + tuple[1]);
                // One of the last few is never answered: the checkpoint stays there.
                if (leaves && acked == wanted - 3 && failed.add("unanswered")) {
                    continue;
                }
                if (message.offset % 10 == 4 && failed.add(name)) {
                    spout.fail(message);
                    Thread.sleep(2); // it is due when what was fetched is out
                    continue;
                }
                spout.ack(message);
                acked++;
                out.println("ack " + name);
            }
        }
        spout.deactivate();
        spout.close();
        out.flush();
        System.exit(acked >= wanted ? 0 : 3);
    }

    private static TopologyContext context(Map<Object, Object> conf, String topologyId) {
        Map<Integer, String> tasks = Collections.singletonMap(1, "kafka");
        Map<String, List<Integer>> sorted = Collections.singletonMap("kafka", Collections.singletonList(1));
        Map<String, Map<String, Fields>> streams =
            Collections.singletonMap("kafka", Collections.singletonMap("default", new Fields("str")));
        Map<Integer, Map<Integer, Map<String, IMetric>>> metrics = new HashMap<>();
        return new TopologyContext(new StormTopology(), conf, tasks, sorted, streams, topologyId, ".", ".", 1, 6700,
            Arrays.asList(1), new HashMap<>(), new HashMap<>(), new HashMap<>(), metrics, new clojure.lang.Atom(false));
    }

    private static final class Emitted implements ISpoutOutputCollector {
        private List<Object[]> tuples = new ArrayList<>();

        List<Object[]> take() {
            List<Object[]> taken = tuples;
            tuples = new ArrayList<>();
            return taken;
        }

        @Override
        public List<Integer> emit(String stream, List<Object> tuple, Object id) {
            tuples.add(new Object[] {id, tuple.get(0)});
            return Collections.emptyList();
        }

        @Override
        public void emitDirect(int task, String stream, List<Object> tuple, Object id) {
            throw new UnsupportedOperationException();
        }

        @Override
        public long getPendingCount() {
            return 0;
        }

        @Override
        public void reportError(Throwable why) {
            why.printStackTrace();
        }
    }
}
