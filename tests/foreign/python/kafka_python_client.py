"""Writes with kafka-python in every codec, and reads it back as a member of a group."""

import sys

from kafka import KafkaConsumer, KafkaProducer

address, codecs = sys.argv[1], sys.argv[2:]
written = []
for codec in codecs:
    producer = KafkaProducer(
        bootstrap_servers=address, acks="all", compression_type=None if codec == "none" else codec
    )
    for i in range(10):
        value = ("%s %d %s" % (codec, i, "x" * 100)).encode()
        producer.send("python", value, partition=0)
        written.append(value)
    producer.flush()
    producer.close()

consumer = KafkaConsumer(
    "python",
    bootstrap_servers=address,
    group_id="readers",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    consumer_timeout_ms=20000,
)
read = []
for record in consumer:
    read.append(record.value)
    if len(read) == len(written):
        break
consumer.commit()
consumer.close()
if read != written:
    sys.exit("%d records of %d came back: %r" % (len(read), len(written), read[:3]))
