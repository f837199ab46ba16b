use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn signature() -> Signature {
    Signature {
        run: Some("9f3c".to_owned()),
        instance: Some("billing-1".to_owned()),
        name: Some("billing".to_owned()),
    }
}

fn some_extras() -> Extras {
    Extras {
        serial: 7,
        topic_id: Some(Uuid([7; 16])),
        leader_epoch: Some(3),
        cluster_id: Some("A\"\\/é".to_owned()),
        done: vec![24..31, 35..41],
        unfinished: vec![Unfinished { offset: 21, attempts: 4, deaths: 2 }],
        deaths: 1,
        clean: true,
        idle: false,
        intake: Some(41),
    }
}

#[test]
fn what_is_written_is_this() {
    let Encoded { text, done_until } = encode(21, &signature(), &some_extras(), 4096).unwrap();
    assert_eq!(
        text,
        r#"{"v":1,"o":21,"s":7,"r":"9f3c","a":"billing-1","n":"billing","t":"BwcHBwcHBwcHBwcHBwcHBw","c":"A\"\\/é","e":3,"x":1,"k":1,"i":20,"d":"DHEG","u":"AEC","h":"874b7a02"}"#
    );
    assert_eq!(done_until, 41);
    assert_eq!(parse(&text, 21), Ok((signature(), some_extras())));
}

#[test]
fn pc_v_200000_done_behind_one_that_is_stuck_take_few_characters() {
    let extras = Extras { done: std::iter::once(2..200_000).collect(), ..Extras::default() };
    let encoded = encode(1, &Signature::default(), &extras, 4096).unwrap();
    assert!(encoded.text.len() < 60, "{}", encoded.text);
    assert_eq!(parse(&encoded.text, 1).unwrap().1, extras);
}

#[test]
fn every_other_record_done_takes_two_characters_each() {
    let extras = Extras { done: (0..1900).map(|n| 2 * n + 1..2 * n + 2).collect(), ..Extras::default() };
    let encoded = encode(0, &signature(), &extras, 4096).unwrap();
    assert_eq!(encoded.done_until, 3800);
}

#[test]
fn pc8_2_where_there_is_little_room_the_highest_runs_go_first_then_what_is_unfinished_then_names() {
    let mut extras = some_extras();
    extras.done = (0..500).map(|n| 30 + 100 * n..40 + 100 * n).collect();
    let whole = encode(21, &signature(), &extras, 4096).unwrap().text.len();
    let length = |extras: &Extras| encode(21, &signature(), extras, 4096).unwrap().text.len();
    let with_unfinished = length(&Extras { done: Vec::new(), ..extras.clone() });
    let bare = length(&Extras { done: Vec::new(), unfinished: Vec::new(), ..extras.clone() });
    let mut fewest = usize::MAX;
    for limit in (0..=whole).rev() {
        let Some(Encoded { text, done_until }) = encode(21, &signature(), &extras, limit) else {
            assert!(limit < bare - 20, "{limit}");
            continue;
        };
        assert!(text.len() <= limit, "{limit}: {text}");
        let (signature, kept) = parse(&text, 21).unwrap();
        assert_eq!(kept.done, extras.done[..kept.done.len()]);
        assert_eq!(done_until, kept.done.last().map_or(21, |run| run.end));
        assert_eq!((signature.run.as_deref(), kept.serial), (Some("9f3c"), 7));
        if !kept.unfinished.is_empty() && signature.name.is_some() {
            assert!(kept.done.len() <= fewest, "{limit}: {text}");
            fewest = kept.done.len();
        }
        assert_eq!(signature.name.is_some(), limit >= bare, "{limit}: {text}");
        if limit >= bare {
            assert_eq!(!kept.unfinished.is_empty(), limit >= with_unfinished, "{limit}: {text}");
        }
    }
    assert_eq!(fewest, 0);
}

#[test]
fn runs_that_are_out_of_order_are_left_out_from_there_on() {
    for (done, kept) in [
        (vec![22..25, 24..31], 1),
        (vec![22..25, 30..30, 40..41], 1),
        (vec![5..6], 0),
        (vec![i64::MAX - 1..i64::MAX], 1),
    ] {
        let extras = Extras { done: done.clone(), ..Extras::default() };
        let Encoded { text, done_until } = encode(21, &Signature::default(), &extras, 4096).unwrap();
        assert_eq!(parse(&text, 21).unwrap().1.done, done[..kept], "{done:?}");
        assert_eq!(done_until, done[..kept].last().map_or(21, |run| run.end));
    }
}

#[test]
fn runs_that_touch_are_one_and_one_may_begin_at_the_offset() {
    for (done, kept) in [
        (vec![24..28, 28..31, 35..41], vec![24..31, 35..41]),
        (vec![21..25, 30..31], vec![21..25, 30..31]),
        (vec![21..22, 22..23, 23..24], vec![21..24]),
    ] {
        let extras = Extras { done, ..Extras::default() };
        let Encoded { text, done_until } = encode(21, &Signature::default(), &extras, 4096).unwrap();
        assert_eq!(parse(&text, 21).unwrap().1.done, kept);
        assert_eq!(done_until, kept.last().unwrap().end);
    }
}

#[test]
fn where_there_is_little_room_those_that_somebody_died_of_stay() {
    let mut unfinished: Vec<_> =
        (0..500).map(|n| Unfinished { offset: 30 + 1_000 * n, attempts: 3, deaths: 0 }).collect();
    unfinished[321].deaths = 2;
    let deadly = unfinished[321];
    let extras = Extras { unfinished, ..Extras::default() };
    let Encoded { text, .. } = encode(21, &signature(), &extras, 320).unwrap();
    assert_eq!(parse(&text, 21).unwrap().1.unfinished, [deadly]);
}

#[test]
fn another_offset_than_the_one_beside_it_makes_them_stale() {
    let text = encode(21, &signature(), &some_extras(), 4096).unwrap().text;
    for offset in [20, 22, 0, -1, i64::MAX, i64::MIN] {
        let why = parse(&text, offset).unwrap_err();
        assert!(why.contains("belongs to offset 21"), "{why}");
    }
}

#[test]
fn written_anew_by_another_json_writer_they_are_the_same() {
    let text = encode(21, &signature(), &some_extras(), 4096).unwrap().text;
    let Value::Object(object) = serde_json::from_str(&text).unwrap() else { panic!() };
    let turned: Map<String, Value> = object.into_iter().rev().collect();
    let pretty = serde_json::to_string_pretty(&turned).unwrap().replace("BwcH", "\\u0042wcH");
    assert_eq!(parse(&pretty, 21), Ok((signature(), some_extras())));
}

#[test]
fn pc8_10_foreign_metadata_is_none_with_a_reason() {
    for text in [
        "",
        "abcd",
        "bAAL9gcA",
        "kgo-1f2e",
        "{}",
        "{",
        "[]",
        "null",
        "{\"v\":2,\"o\":21}",
        "{\"v\":1,\"o\":21,\"s\":1}",
        "{\"v\":1,\"o\":21,\"s\":1,\"h\":\"00000000\"}",
        "{\"v\":1,\"o\":21,\"s\":-1,\"h\":\"00000000\"}",
        "{\"v\":1,\"s\":1,\"h\":7}",
        "{\"offset\":21,\"topic\":\"t\"}",
    ] {
        assert!(parse(text, 21).is_err(), "{text}");
    }
    let nested = format!("{}{}", "{\"v\":".repeat(100_000), "}".repeat(100_000));
    assert!(parse(&nested, 21).is_err());
    let long = format!("{{\"v\":1,\"d\":\"{}\"}}", "B".repeat(LONGEST));
    assert!(parse(&long, 21).unwrap_err().contains("more than any"));
}

#[test]
fn pc8_10_a_forged_checksum_does_not_make_runs_that_cannot_be() {
    let forge = |done: &str, unfinished: &str, offset: i64, intake: u64| {
        let object = Object {
            offset,
            serial: 1,
            run: None,
            instance: None,
            name: None,
            topic_id: None,
            leader_epoch: None,
            cluster_id: None,
            deaths: 0,
            clean: false,
            idle: false,
            intake: Some(intake),
            done: Some(done),
            unfinished: Some(unfinished),
        };
        parse(&object.sealed(), offset)
    };
    let top = |packed: u64| {
        let mut text = String::new();
        pack(&mut text, packed);
        text
    };
    assert!(forge("BB", "BAA", 0, 9).is_ok());
    assert!(forge("AB", "BAA", 0, 9).is_ok(), "what is read next was done before");
    for done in ["ABAB", "BA", "B", "BBB", "B!", "g", "ggggggggggggggB", "é", "=="] {
        assert!(forge(done, "", 0, 9).is_err(), "{done}");
    }
    for done in [top(u64::MAX) + "B", top(1 << 62) + &top(1 << 62)] {
        assert!(forge(&done, "", 0, 9).is_err(), "{done}");
        assert!(forge(&done, "", i64::MAX, 0).is_err(), "{done}");
    }
    for unfinished in ["A", "AA", "B", &*top(u64::MAX), &*("A".to_owned() + &top(1 << 32) + "A")] {
        assert!(forge("", unfinished, 0, 9).is_err(), "{unfinished}");
    }
    assert!(forge("", "BAA", i64::MAX, 0).is_err());
    assert!(forge("", "", 1, u64::MAX).is_err());
}

fn names() -> impl Strategy<Value = Option<String>> {
    option::of(".{0,12}")
}

fn extras() -> impl Strategy<Value = (i64, Signature, Extras)> {
    let pairs = |most| vec((1..most, 1..most), 0..40);
    let pairs = prop_oneof![pairs(5_i64), pairs(1 << 40)];
    let unfinished = vec((0..1000_i64, any::<u32>(), any::<u32>()), 0..10);
    (
        (0..i64::MAX >> 1, any::<u64>(), names(), names(), names()),
        (option::of(any::<[u8; 16]>()), option::of(any::<i32>()), names()),
        (pairs, unfinished, any::<u32>(), any::<(bool, bool)>(), option::of(0..i64::MAX >> 1)),
    )
        .prop_map(|((offset, serial, run, instance, name), (id, leader_epoch, cluster_id), rest)| {
            let (pairs, unfinished, deaths, (clean, idle), intake) = rest;
            let mut end = offset;
            let done = pairs.into_iter().map(|(gap, length)| {
                let start = end + gap;
                end = start + length;
                start..end
            });
            let done = done.collect();
            let mut next = offset;
            let unfinished = unfinished.into_iter().map(|(gap, attempts, deaths)| {
                let offset = next + gap;
                next = offset + 1;
                Unfinished { offset, attempts, deaths }
            });
            let extras = Extras {
                serial,
                topic_id: id.map(Uuid),
                leader_epoch,
                cluster_id,
                done,
                unfinished: unfinished.collect(),
                deaths,
                clean,
                idle,
                intake: intake.map(|ahead| offset + ahead),
            };
            (offset, Signature { run, instance, name }, extras)
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back((offset, signature, extras) in extras()) {
        let text = encode(offset, &signature, &extras, LONGEST).unwrap().text;
        let begins = text.starts_with('{');
        prop_assert!(begins);
        prop_assert_eq!(parse(&text, offset), Ok((signature, extras)));
    }

    #[test]
    fn under_any_limit_it_is_whole_or_not_there((offset, signature, extras) in extras(), limit in 0_usize..600) {
        if let Some(Encoded { text, done_until }) = encode(offset, &signature, &extras, limit) {
            prop_assert!(text.len() <= limit);
            let (_, kept) = parse(&text, offset).unwrap();
            let expected: Vec<_> = extras.done.iter().filter(|run| run.end <= done_until).cloned().collect();
            prop_assert_eq!(kept.done, expected);
        }
    }

    #[test]
    fn pc8_10_any_text_is_none_or_harmless(text in "\\PC{0,80}", offset in any::<i64>()) {
        prop_assert!(parse(&text, offset).is_err());
    }

    #[test]
    fn pc8_10_damage_is_none(
        (offset, signature, extras) in extras(),
        at in any::<prop::sample::Index>(),
        with in "[ -~]{0,3}",
        cut in 0_usize..4,
    ) {
        let text = encode(offset, &signature, &extras, LONGEST).unwrap().text;
        let mut at = at.index(text.len());
        while !text.is_char_boundary(at) { at -= 1 }
        let mut end = (at + cut).min(text.len());
        while !text.is_char_boundary(end) { end += 1 }
        let damaged = format!("{}{with}{}", &text[..at], &text[end..]);
        match parse(&damaged, offset) {
            Err(_) => {}
            // Spaces between tokens and the like change nothing.
            Ok(same) => prop_assert_eq!(same, (signature, extras), "{} {}", text, damaged),
        }
    }

    #[test]
    fn a_cut_anywhere_is_none((offset, signature, extras) in extras(), at in any::<prop::sample::Index>()) {
        let text = encode(offset, &signature, &extras, LONGEST).unwrap().text;
        let mut at = at.index(text.len());
        while !text.is_char_boundary(at) { at -= 1 }
        prop_assert!(parse(&text[..at], offset).is_err());
    }
}
