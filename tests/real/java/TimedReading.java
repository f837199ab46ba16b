import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The Java consumer of 0.10: records have timestamps. */
class TimedReading extends PlainReading {
    TimedReading(Context context) {
        super(context);
    }

    @Override protected String time(ConsumerRecord<byte[], byte[]> record) {
        return record.timestamp() + "\t" + record.timestampType();
    }
}
