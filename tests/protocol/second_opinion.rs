//! The crate `kafka-protocol`, generated from the same definitions by other hands, reads what we
//! write and writes what we read, byte for byte.

use bytes::{Bytes, BytesMut};
use downspout::protocol::{APIS, Api, ApiKey, any};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use proptest::prelude::*;

use crate::generate::{Side, body};
use crate::round_trips::config;

/// Reads a body and writes it back with the other crate.
fn through<M: Message + Encodable + Decodable>(body: &Bytes, version: i16) -> Option<Bytes> {
    let known = M::VERSIONS;
    (known.min <= version && version <= known.max).then(|| {
        let mut rest = body.clone();
        let message = M::decode(&mut rest, version).unwrap();
        assert!(rest.is_empty(), "{} bytes left", rest.len());
        let mut out = BytesMut::new();
        message.encode(&mut out, version).unwrap();
        assert_eq!(message.compute_size(version).unwrap(), out.len());
        out.freeze()
    })
}

macro_rules! peers {
    ($($name:ident: $request:ident, $response:ident;)+) => {
        fn through_theirs(api: &Api, side: Side, body: &Bytes, version: i16) -> Option<Bytes> {
            match (api.name, side) {
                $(
                    (stringify!($name), Side::Request) => through::<theirs::$request>(body, version),
                    (stringify!($name), Side::Response) => through::<theirs::$response>(body, version),
                )+
                (name, _) => panic!("{name} has no peer"),
            }
        }
    };
}

peers! {
    Produce: ProduceRequest, ProduceResponse;
    Fetch: FetchRequest, FetchResponse;
    ListOffsets: ListOffsetsRequest, ListOffsetsResponse;
    Metadata: MetadataRequest, MetadataResponse;
    OffsetCommit: OffsetCommitRequest, OffsetCommitResponse;
    OffsetFetch: OffsetFetchRequest, OffsetFetchResponse;
    FindCoordinator: FindCoordinatorRequest, FindCoordinatorResponse;
    JoinGroup: JoinGroupRequest, JoinGroupResponse;
    Heartbeat: HeartbeatRequest, HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest, LeaveGroupResponse;
    SyncGroup: SyncGroupRequest, SyncGroupResponse;
    ListGroups: ListGroupsRequest, ListGroupsResponse;
    SaslHandshake: SaslHandshakeRequest, SaslHandshakeResponse;
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
    InitProducerId: InitProducerIdRequest, InitProducerIdResponse;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    SaslAuthenticate: SaslAuthenticateRequest, SaslAuthenticateResponse;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn kafka_protocol_reads_and_writes_the_same_bytes(
        entropy in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut compared = 0;
        for api in APIS {
            for version in api.versions.min..=api.versions.max {
                for side in [Side::Request, Side::Response] {
                    let body = Bytes::from(body(api, side, api.version(version).unwrap(), &entropy));
                    let ours = read(api, side, version, &body);
                    let Some(back) = through_theirs(api, side, &ours.encode().unwrap(), version) else { continue };
                    prop_assert_eq!(&back, &body, "{} {:?} v{}", api.name, side, version);
                    prop_assert_eq!(read(api, side, version, &back), ours);
                    compared += 1;
                }
            }
        }
        prop_assert_eq!(compared, COMPARED);
    }
}

/// Messages × versions that both crates have.
const COMPARED: usize = 258;

fn read(api: &Api, side: Side, version: i16, body: &Bytes) -> any::AnyMessage {
    let read = match side {
        Side::Request => any::decode_request_body,
        Side::Response => any::decode_response_body,
    };
    let key: ApiKey = api.key;
    read(key, version, body).unwrap()
}
