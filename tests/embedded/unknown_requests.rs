//! What each release does with requests that it does not know.

use super::*;

#[test]
fn api_versions_closes_the_connection_on_0_8() {
    for release in [Release::V0_8_0, Release::V0_8_1, Release::V0_8_2] {
        let broker = broker(release);
        let mut client = Client::to(&broker);
        client.send(&encode_request(&ApiVersionsRequest::default(), 0, 1, "test").unwrap());
        assert!(client.is_closed(), "{release}");
    }
}

#[test]
fn api_versions_is_never_answered_by_0_9_but_what_follows_is() {
    let broker = broker(Release::V0_9_0);
    let mut client = Client::to(&broker);
    client.send(&encode_request(&ApiVersionsRequest::default(), 0, 1, "test").unwrap());
    assert!(client.is_silent());
    assert_eq!(client.ask(0, metadata_of("t")).topics.len(), 1);
}

#[test]
fn every_later_release_lists_what_it_speaks() {
    for release in Release::ALL.iter().copied().filter(|release| *release >= Release::V0_10_0) {
        let broker = broker(release);
        let listed = Client::to(&broker).ask(0, ApiVersionsRequest::default());
        let listed: Vec<_> =
            listed.api_keys.iter().map(|it| (it.api_key, it.min_version, it.max_version)).collect();
        let table: Vec<_> = release.apis().iter().map(|(key, known)| (key.0, known.min, known.max)).collect();
        assert_eq!(listed, table, "{release}");
    }
}

#[test]
fn kip_511_error_35_comes_in_layout_0_and_names_the_range_since_2_4() {
    let ask = |release| {
        let broker = broker(release);
        let mut client = Client::to(&broker);
        client.send(&encode_request(&ApiVersionsRequest::default(), 5, 77, "test").unwrap());
        decode_response::<ApiVersionsRequest>(&client.receive().unwrap(), 0).unwrap().1
    };
    let old = ask(Release::V2_1);
    assert_eq!((old.error_code, old.api_keys.len()), (ErrorCode(35), 0));
    let new = ask(Release::V2_4);
    assert_eq!(new.error_code, ErrorCode(35));
    assert_eq!((new.api_keys[0].api_key, new.api_keys[0].max_version), (18, 3));
}

#[test]
fn kip_511_a_software_name_with_other_characters_is_refused() {
    let broker = broker(Release::V4_4);
    let request = |name: &str| ApiVersionsRequest {
        client_software_name: name.to_owned(),
        client_software_version: "1.0".to_owned(),
        ..Default::default()
    };
    assert_eq!(Client::to(&broker).ask(3, request("down spout")).error_code, ErrorCode(42));
    assert_eq!(Client::to(&broker).ask(3, request("downspout")).error_code, ErrorCode(0));
}

#[test]
fn a_version_that_the_release_lacks_closes_the_connection() {
    let broker = broker(Release::V2_1);
    let mut client = Client::to(&broker);
    client.send(&encode_request(&fetch(&[(0, 0)], 100), 11, 1, "test").unwrap());
    assert!(client.is_closed());
}

#[test]
fn versions_of_the_oldest_apis_are_not_checked_before_0_10() {
    let broker = broker(Release::V0_8_2);
    broker.append("t", 0, &hex(F01)).unwrap();
    let mut client = Client::to(&broker);
    client.send(&encode_request(&fetch(&[(0, 0)], 100), 2, 1, "test").unwrap());
    let (_, answer) = decode_response::<FetchRequest>(&client.receive().unwrap(), 0).unwrap();
    assert_eq!(records(&answer, 0).len(), 54);
}

#[test]
fn what_is_no_request_closes_the_connection() {
    let broker = broker(Release::V4_4);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 8], &[0xff; 8], &[0, 0, 0, 1, 0]] {
        let mut client = Client::to(&broker);
        client.send(bytes);
        assert!(client.is_closed(), "{bytes:?}");
    }
}
