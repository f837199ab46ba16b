import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The Java producer from 0.11 on: headers and transactions. */
final class HeaderProducing extends TimedProducing {
    HeaderProducing(Context context, Properties settings) throws Exception {
        super(context, settings);
        if (settings.containsKey("transactional.id")) producer.initTransactions();
    }

    @Override protected ProducerRecord<byte[], byte[]> record(Sent record) {
        ProducerRecord<byte[], byte[]> made = super.record(record);
        for (Object[] header : record.headers) made.headers().add((String) header[0], (byte[]) header[1]);
        return made;
    }

    @Override public void begin() {
        producer.beginTransaction();
    }

    @Override public void end(boolean commit) {
        if (commit) producer.commitTransaction(); else producer.abortTransaction();
    }
}
