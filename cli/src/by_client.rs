//! How many waiters each client has: with a long queue that says more than a list of them.

use crate::holder;
use crate::operators::{Inspection, Waiter};
use crate::shown;
use crate::table::{Form, Table};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

/// How many clients are shown.
const SHOWN: usize = 10;

/// A client's number of waiters, and the longest time that one of them has been waiting.
type Sum = (usize, Duration);

pub fn text(lock: &Inspection, form: Form) -> String {
    let mut clients = HashMap::<[String; 2], Sum>::new();
    for waiter in &lock.waiters {
        let (count, oldest) = clients.entry(client(waiter)).or_default();
        (*count, *oldest) = (*count + 1, waiter.waited.max(*oldest));
    }
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(client, (count, oldest))| (Reverse((*count, *oldest)), client.clone()));
    let mut table = Table::new(["CLIENT", "ADDRESS", "WAITERS", "OLDEST WAIT"], &[(0, 12)]);
    for ([name, address], (count, oldest)) in clients.iter().take(SHOWN) {
        table.push([name.clone(), address.clone(), count.to_string(), shown::time(*oldest)]);
    }
    let seen = match lock.waiter_count > lock.waiters.len() {
        true => format!("the first {} waiters by client:\n", lock.waiters.len()),
        false => "waiters by client:\n".to_owned(),
    };
    let more = match clients.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("… and {more} clients more\n"),
    };
    seen + &table.text(form) + &more
}

/// The process that waits, and the host that it is connected from.
fn client(waiter: &Waiter) -> [String; 2] {
    let host = waiter.address.as_deref().map(|address| address.rsplit_once(':').map_or(address, |(host, _)| host));
    let host = host.filter(|host| !host.is_empty()).map_or_else(|| "-".to_owned(), |host| shown::name(host.as_bytes()));
    [shown::name(holder::process(&waiter.holder)), host]
}
