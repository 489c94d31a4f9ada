//! Faults of the network between clients and servers.

use super::Class::{Network, OneWay};
use super::{AT_ONCE, Begun, Kind, Outcome, Progress, Scene, WHILE, kind};
use crate::history::Reach;
use rlock_testing::network::{Order, Sender};
use std::time::{Duration, Instant};

pub const KINDS: &[Kind] = &[
    kind("cut", Network, 4, AT_ONCE, |scene| make(scene, "all connections are cut", &[Order::Cut])),
    kind("refuse", Network, 3, WHILE, |scene| make(scene, "connections are refused", &[Order::Refuse])),
    kind("delay", Network, 18, (100, 1_200), delay),
    kind("slow, then gone", Network, 14, (300, 700), slow_then_gone),
    kind("lose requests", Network, 4, WHILE, |scene| make(scene, "requests are lost", &[Order::Lose(Sender::Client)])),
    kind("lose answers", Network, 12, WHILE, |scene| make(scene, "answers are lost", &[Order::Lose(Sender::Server)])),
    kind("cut in an answer", Network, 10, WHILE, |scene| {
        make(scene, "connections are cut in the middle of an answer", &[Order::CutMidReply])
    }),
    // Much longer than clients wait for an answer, and than a poll waits in the server.
    kind("answers lost one way", OneWay, 6, (1_500, 6_000), |scene| one_way(scene, Sender::Server, Reach::Answers)),
    // The server also does not notice that a client has gone.
    kind("requests lost one way", OneWay, 5, (1_000, 3_500), |scene| one_way(scene, Sender::Client, Reach::Clients)),
];

const DELAYS_MS: (u64, u64) = (5, 300);

/// Shorter than a renewal's timeout, and longer than a guard's reserve.
const LATE_MS: (u64, u64) = (40, 120);

/// How long nothing arrives after the delays: longer than most leases.
const GONE: Duration = Duration::from_millis(1_800);

/// Percentage of connections that a one-way fault affects: all, or some, so that the same process has others that work.
const ONE_WAY: [u8; 3] = [30, 50, 100];

fn a_proxy(scene: &mut Scene) -> usize {
    usize::try_from(scene.random.below(scene.world.proxies.len() as u64)).expect("a place among few")
}

/// A fault that lasts until it is healed.
fn make(scene: &mut Scene, words: &str, orders: &[Order]) -> Outcome {
    let place = a_proxy(scene);
    orders.iter().for_each(|order| scene.world.proxies[place].obey(*order));
    let effects = vec![(format!("{words}, at proxy {place}"), Reach::Clients)];
    Ok(Begun::undone_by(effects, move |scene| scene.world.proxies[place].obey(Order::Heal)))
}

fn delay(scene: &mut Scene) -> Outcome {
    let late = Duration::from_millis(scene.random.between(DELAYS_MS));
    let [requests, answers] = [Sender::Client, Sender::Server].map(|sender| Order::Delay(sender, late));
    let orders = scene.random.one_of(&[vec![requests], vec![answers], vec![requests, answers]]);
    make(scene, "what is sent is late", &orders)
}

/// No client is notified, and new connections work: so a process recovers only if it notices by itself, on each of its
/// connections, that nothing comes any more.
fn one_way(scene: &mut Scene, sender: Sender, reach: Reach) -> Outcome {
    let (place, hundredths) = (a_proxy(scene), scene.random.one_of(&ONE_WAY));
    scene.world.proxies[place].obey(Order::Silence { sender, hundredths, seed: scene.random.draw() });
    let words = format!(
        "what the {sender:?} sends is lost on {hundredths} % of the connections that were there, at proxy {place}"
    );
    Ok(Begun::undone_by(vec![(words, reach)], move |scene| scene.world.proxies[place].obey(Order::CutSilenced)))
}

/// Like a failing network: answers are late first, and then nothing arrives any more. If a late answer has made a client
/// believe in its lease for too long, no later answer corrects that.
fn slow_then_gone(scene: &mut Scene) -> Outcome {
    let place = a_proxy(scene);
    let late = Duration::from_millis(scene.random.between(LATE_MS));
    scene.world.proxies[place].obey(Order::Delay(Sender::Server, late));
    let mut gone_since = None;
    let effects = vec![(format!("answers are late, and then all is lost, at proxy {place}"), Reach::Clients)];
    Ok(Begun::until(effects, move |scene| {
        let proxy = &scene.world.proxies[place];
        let since = *gone_since.get_or_insert_with(|| {
            proxy.obey(Order::Lose(Sender::Client));
            proxy.obey(Order::Lose(Sender::Server));
            Instant::now()
        });
        if since.elapsed() < GONE {
            return Ok(Progress::NotYet);
        }
        proxy.obey(Order::Heal);
        Ok(Progress::Over)
    }))
}
