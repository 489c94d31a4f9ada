//! Cron on ten hosts: all start at once, and run one at a time, in order. Their own log proves it.

use crate::support::{Place, Running, released, rlock, start, taken};
use rlock_testing::Server;

const HOSTS: usize = 10;

fn host(server: &Server, place: &Place, number: usize) -> Running {
    let script = format!("echo begin {number} >>log; sleep 0.02; echo end {number} >>log");
    start(place.of(rlock(server, &["run", "report", "--", "sh", "-c", &script])))
}

/// The numbers of the hosts in the order in which they worked. Fails if two worked at once.
fn alone(place: &Place) -> Vec<usize> {
    let lines = place.lines("log");
    let numbers = lines.chunks(2).map(|pair| {
        let [begin, end] = pair else { panic!("one did not end: {lines:?}") };
        let number = begin.strip_prefix("begin ").and_then(|number| number.parse().ok());
        let number: usize = number.unwrap_or_else(|| panic!("two at once: {lines:?}"));
        assert_eq!(*end, format!("end {number}"), "two at once: {lines:?}");
        number
    });
    numbers.collect()
}

#[test]
fn ten_one_after_the_other_are_served_in_order() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    taken(&mut client, "report");
    let hosts: Vec<_> = (0..HOSTS)
        .map(|number| {
            let host = host(&server, &place, number);
            client.until_waiting(number as i64 + 1);
            host
        })
        .collect();
    assert_eq!(place.lines("log"), [""; 0]);
    released(&mut client, "report");
    for host in hosts {
        host.end().succeeded();
    }
    assert_eq!(alone(&place), (0..HOSTS).collect::<Vec<_>>());
}
