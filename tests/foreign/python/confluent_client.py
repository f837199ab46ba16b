"""Writes with confluent-kafka (librdkafka) in every codec, and reads it back as a member of a group."""

import os
import sys

from confluent_kafka import Consumer, Producer

address, codecs = sys.argv[1], sys.argv[2:]
written = []
for codec in codecs:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "compression.type": codec})
    for i in range(10):
        value = ("%s %d %s" % (codec, i, "x" * 100)).encode()
        producer.produce("python", value, partition=0)
        written.append(value)
    left = producer.flush(20)
    if left:
        sys.exit("%d records in %s were not acknowledged" % (left, codec))

settings = {
    "bootstrap.servers": address,
    "group.id": "readers",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
if os.environ.get("GROUP_PROTOCOL"):
    settings["group.protocol"] = os.environ["GROUP_PROTOCOL"]
consumer = Consumer(settings)
consumer.subscribe(["python"])
read = []
for _ in range(200):
    message = consumer.poll(0.1)
    if message is not None and message.error() is None:
        read.append(message.value())
    if len(read) == len(written):
        break
consumer.commit(asynchronous=False)
consumer.close()
if read != written:
    sys.exit("%d records of %d came back: %r" % (len(read), len(written), read[:3]))
