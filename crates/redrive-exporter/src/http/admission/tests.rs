//! Decisions on chosen sequences of events.

use std::sync::OnceLock;

use super::*;

/// A moment, in milliseconds after the start.
fn at(milliseconds: u64) -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now) + Duration::from_millis(milliseconds)
}

/// An address of this number.
fn client(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

const NOBODY: Step = Step::Wait(None);

fn admission(places: usize, waiting: usize) -> Admission {
    Admission::new(Capacity { places, waiting })
}

impl Admission {
    /// Adds a connection that has sent its request, with room for it.
    fn request(&mut self, number: u8, now: Instant) -> ConnectionId {
        let (id, closed) = self.arrive(client(number), now);
        assert_eq!(closed, None);
        self.received(id, now);
        id
    }

    /// Adds connections of one address that have sent a request, and serves as many as it may have.
    fn serve_many(&mut self, number: u8, count: usize, now: Instant) -> Vec<ConnectionId> {
        (0..count)
            .map(|_| {
                let id = self.request(number, now);
                assert_eq!(self.next(now), Step::Serve(id));
                id
            })
            .collect()
    }
}

#[test]
fn a_client_gets_a_place_when_it_has_sent_something() {
    let mut admission = admission(2, 2);
    let (id, closed) = admission.arrive(client(1), at(0));
    assert_eq!(closed, None);
    assert_eq!(admission.next(at(0)), Step::Wait(Some(SILENCE_TIMEOUT)));
    assert_eq!(admission.silent().collect::<Vec<_>>(), [id]);
    assert!(!admission.awaits_a_place());
    admission.received(id, at(1));
    assert!(admission.awaits_a_place());
    assert_eq!(admission.next(at(1)), Step::Serve(id));
    assert!(!admission.awaits_a_place());
    assert_eq!(admission.next(at(1)), NOBODY);
    assert!(!admission.is_empty());
    admission.end(id);
    assert!(admission.is_empty());
}

#[test]
fn a_silent_client_is_closed_after_five_seconds() {
    let mut admission = admission(2, 4);
    let (first, _) = admission.arrive(client(1), at(0));
    let (second, _) = admission.arrive(client(2), at(1000));
    let limit = |milliseconds| Step::Wait(Some(Duration::from_millis(milliseconds)));
    assert_eq!(admission.next(at(4999)), limit(1));
    assert_eq!(admission.next(at(5000)), Step::Close(first));
    assert_eq!(admission.next(at(5000)), limit(1000));
    admission.received(second, at(5500));
    assert_eq!(admission.next(at(60_000)), Step::Serve(second));
}

#[test]
fn addresses_take_turns_at_the_places() {
    let mut admission = admission(2, 20);
    let mut served = Vec::new();
    for number in [3, 3, 3, 1, 1, 2] {
        served.push((admission.request(number, at(0)), number));
    }
    let mut order = Vec::new();
    while let Step::Serve(id) = admission.next(at(0)) {
        order.extend(served.iter().find(|(one, _)| *one == id));
        admission.end(id);
    }
    let numbers: Vec<u8> = order.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 1, 3, 3]);
    let threes = order.iter().filter(|(_, number)| *number == 3);
    assert!(
        threes.is_sorted_by_key(|(id, _)| *id),
        "in order of arrival"
    );
}

#[test]
fn an_address_takes_a_place_while_it_holds_fewer_than_are_free() {
    for (places, shares) in [
        (64, &[32, 16, 8, 4, 2, 1, 1, 0][..]),
        (16, &[8, 4, 2, 1, 1, 0]),
        (3, &[2, 1, 0]),
        (2, &[1, 1, 0]),
        (1, &[1, 0]),
    ] {
        let mut admission = admission(places, 1000);
        for (number, share) in (1..).zip(shares) {
            for _ in 0..100 {
                admission.request(number, at(0));
            }
            let served = std::iter::repeat_with(|| admission.next(at(0)))
                .take_while(|step| matches!(step, Step::Serve(_)))
                .count();
            assert_eq!(served, *share, "address {number} of {places} places");
        }
    }
}

#[test]
fn the_address_with_the_most_waiting_connections_loses_one() {
    let mut admission = admission(2, 3);
    let (other, _) = admission.arrive(client(2), at(0));
    let (first, _) = admission.arrive(client(1), at(1));
    let (second, closed) = admission.arrive(client(1), at(2));
    assert_eq!(closed, None, "three fit");
    let (third, closed) = admission.arrive(client(1), at(3));
    assert_eq!(closed, Some(first), "the oldest that has sent nothing");
    admission.received(second, at(4));
    let (fourth, closed) = admission.arrive(client(1), at(4));
    assert_eq!(closed, Some(third), "not the one with a request");
    admission.received(fourth, at(5));
    let (newcomer, closed) = admission.arrive(client(1), at(5));
    assert_eq!(closed, Some(newcomer), "the only one that has sent nothing");
    let (_, closed) = admission.arrive(client(2), at(6));
    assert_eq!(closed, Some(other), "a tie");
    let (_, closed) = admission.arrive(client(3), at(6));
    assert_eq!(
        closed,
        Some(fourth),
        "the newest, because all have sent something"
    );
}

#[test]
fn the_least_progress_is_evicted_after_the_grace_period() {
    let mut admission = admission(8, 100);
    let [handling, writing, closing, reading] = *admission.serve_many(1, 4, at(0)) else {
        panic!("half of the places")
    };
    admission.enter(handling, Phase::Handling, at(0));
    admission.enter(writing, Phase::WritingResponse, at(0));
    admission.enter(closing, Phase::Closing, at(100));
    assert_eq!(admission.next(at(1000)), NOBODY, "nobody else needs them");
    for _ in 0..4 {
        admission.request(1, at(1000));
    }
    for (now, evicted) in [(1000, closing), (1000, reading), (1000, writing)] {
        assert_eq!(admission.next(at(now)), Step::Evict(evicted));
    }
    assert_eq!(admission.next(at(1000)), NOBODY, "the handler works");
    admission.enter(reading, Phase::Handling, at(1000));
    admission.end(closing);
    assert!(matches!(admission.next(at(1000)), Step::Serve(_)));
    let grace = Step::Wait(Some(Duration::from_millis(150)));
    assert_eq!(admission.next(at(1050)), grace, "the one just served");
}

#[test]
fn no_more_connections_are_evicted_than_wait() {
    let mut admission = admission(8, 100);
    let served = admission.serve_many(1, 4, at(0));
    admission.request(1, at(500));
    assert_eq!(admission.next(at(500)), Step::Evict(served[0]));
    assert_eq!(admission.next(at(500)), NOBODY);
    admission.end(served[0]);
    assert!(matches!(admission.next(at(500)), Step::Serve(_)));
    assert_eq!(admission.next(at(500)), NOBODY);
}

#[test]
fn an_address_makes_room_for_one_with_fewer_places_but_not_for_one_with_more() {
    let mut admission = admission(2, 100);
    let one = admission.serve_many(1, 1, at(0))[0];
    let two = admission.serve_many(2, 1, at(0))[0];
    admission.enter(one, Phase::Handling, at(0));
    admission.request(1, at(500));
    assert_eq!(admission.next(at(500)), NOBODY, "each has one place");
    let third = admission.request(3, at(500));
    assert_eq!(admission.next(at(500)), Step::Evict(two));
    admission.end(two);
    assert_eq!(admission.next(at(500)), Step::Serve(third));
}

#[test]
fn descriptors_that_run_out_take_waiting_connections_first() {
    let mut admission = admission(8, 100);
    let served = admission.serve_many(1, 2, at(0));
    admission.enter(served[1], Phase::Handling, at(0));
    let (silent, _) = admission.arrive(client(2), at(0));
    for step in [
        Some(Step::Close(silent)),
        Some(Step::Evict(served[0])),
        None,
    ] {
        assert_eq!(admission.make_room(), step);
    }
}

#[test]
fn a_stop_answers_the_requests_that_have_arrived() {
    let mut admission = admission(4, 100);
    let [handling, reading] = *admission.serve_many(1, 2, at(0)) else {
        panic!("half of the places")
    };
    admission.enter(handling, Phase::Handling, at(0));
    let waiting = admission.request(1, at(0));
    let (silent, _) = admission.arrive(client(2), at(100));
    admission.close();
    assert_eq!(admission.next(at(100)), Step::Close(silent));
    let grace = Step::Wait(Some(Duration::from_millis(100)));
    assert_eq!(admission.next(at(100)), grace);
    assert_eq!(admission.next(at(200)), Step::Evict(reading));
    admission.end(reading);
    assert_eq!(admission.next(at(200)), Step::Serve(waiting));
    assert!(admission.awaits_a_place(), "the end of the others");
    admission.end(waiting);
    admission.end(handling);
    assert!(admission.is_empty());
}

#[test]
fn a_network_of_ipv6_counts_as_one_client() {
    let of = |address: &str| network(address.parse().expect("an address"));
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
}
