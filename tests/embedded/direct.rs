//! The core asked without sockets, at times that the test sets.

use super::*;
use downspout::testing::{ConnectionId, Core, Reaction, Settings};

/// A cluster and the time.
pub(crate) struct Direct {
    pub(crate) core: Core,
    now: Duration,
}

impl Direct {
    pub(crate) fn new(release: Release, change: impl FnOnce(&mut Settings)) -> Direct {
        let mut settings = Settings::default();
        settings.release = release;
        change(&mut settings);
        let mut core = Core::new(settings);
        core.create_topic("t", 2);
        Direct { core, now: Duration::ZERO }
    }

    pub(crate) fn connect(&mut self, node: i32) -> ConnectionId {
        self.core.connect(node).unwrap()
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.core.advance(self.now);
    }

    pub(crate) fn send<R: Request>(&mut self, at: ConnectionId, version: i16, request: &R) -> Reaction {
        let frame = encode_request(request, version, 77, "test").unwrap();
        self.core.request(at, frame.slice(4..))
    }

    /// The answer, which must come at once.
    pub(crate) fn ask<R: Request>(&mut self, at: ConnectionId, version: i16, request: R) -> R::Response {
        read::<R>(&self.send(at, version, &request), version)
    }

    /// The answer to what waits, which must be there by now.
    pub(crate) fn resume<R: Request>(&mut self, at: ConnectionId, version: i16) -> R::Response {
        read::<R>(&self.core.resume(at), version)
    }

    pub(crate) fn waits(&mut self, at: ConnectionId) -> bool {
        matches!(self.core.resume(at), Reaction::Wait { .. })
    }

    pub(crate) fn append(&mut self, partition: i32) {
        self.core.append("t", partition, &hex(F12)).unwrap();
    }

    /// The fetch by the topic's id where the version has ids.
    pub(crate) fn by_id(&mut self, mut request: FetchRequest) -> FetchRequest {
        let any = self.connect(1);
        let id = self.ask(any, 12, metadata_of("t")).topics[0].topic_id;
        request.topics.iter_mut().for_each(|topic| topic.topic_id = id);
        request
    }
}

pub(crate) fn read<R: Request>(reaction: &Reaction, version: i16) -> R::Response {
    let Reaction::Answer(frame) = reaction else { panic!("no answer but {reaction:?}") };
    decode_response::<R>(&frame.slice(4..), version).unwrap().1
}

/// Partition, error code, bytes and high watermark of what an answer holds, in its order.
pub(crate) fn summary(answer: &FetchResponse) -> Vec<(i32, i16, usize, i64)> {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let row = |it: &FetchedPartition| {
        let bytes = it.records.as_ref().map_or(0, Bytes::len);
        (it.partition_index, it.error_code.0, bytes, it.high_watermark)
    };
    partitions.map(row).collect()
}
