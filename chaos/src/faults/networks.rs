//! What the network between clients and servers does to their connections.

use super::{Begun, Progress, Scene, What};
use crate::history::Reach;
use crate::network::{Direction, HalfOpen, Sender};
use rlock_testing::Random;
use std::time::{Duration, Instant};

const DELAYS_MS: (u64, u64) = (5, 300);

/// Less than a renewal is waited for, and more than a guard keeps in reserve.
const LATE_MS: (u64, u64) = (40, 120);

/// For how long nothing arrives where it was late before: longer than most leases.
const GONE: Duration = Duration::from_millis(1_800);

/// Of a hundred connections, those that a fault of one direction meets: all, or some, so that the same process has
/// others that are whole.
const ONE_WAY: [u8; 3] = [30, 50, 100];

pub fn begin(what: What, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let count = scene.world.proxies().len() as u64;
    let place = usize::try_from(random.below(count)).expect("a place among few");
    if what == What::SlowThenGone {
        return Ok(slow_then_gone(scene, place, random));
    }
    if let What::OneWay { requests_arrive } = what {
        return Ok(one_way(scene, place, requests_arrive, random));
    }
    let proxy = &scene.world.proxies()[place];
    let words = match what {
        What::Cut => {
            proxy.cut();
            "all connections are cut"
        }
        What::Refuse => {
            proxy.refuse();
            "all connections are cut, and none is accepted"
        }
        What::Delay => {
            let direction = random.one_of(&[Direction::Requests, Direction::Answers, Direction::Both]);
            proxy.delay(Duration::from_millis(random.between(DELAYS_MS)), direction);
            "what is sent is late"
        }
        What::DropRequests => {
            proxy.drop_requests();
            "requests are lost"
        }
        What::DropAnswers => {
            proxy.drop_answers();
            "answers are lost"
        }
        What::HalfOpen { client_gone: true } => {
            proxy.halve(HalfOpen::ClientGone);
            "clients are gone, and the server does not learn of it"
        }
        What::HalfOpen { client_gone: false } => {
            proxy.halve(HalfOpen::ServerGone);
            "connections to the server are closed, and clients do not learn of it"
        }
        _ => {
            proxy.cut_mid_reply();
            "connections are cut in the middle of an answer"
        }
    };
    let effects = vec![(format!("{words}, at proxy {place}"), Reach::Clients)];
    Ok(Begun::until(effects, move |scene| {
        scene.world.proxies()[place].heal();
        Ok(Progress::Over)
    }))
}

/// Nobody is told, and whoever connects anew is well served: so a process gets on only if it notices by itself, on each
/// of its connections, that nothing comes any more.
fn one_way(scene: &mut Scene, place: usize, requests_arrive: bool, random: &mut Random) -> Begun {
    let (silenced, words, reach) = if requests_arrive {
        (Sender::Server, "answers are lost", Reach::Answers)
    } else {
        // The server does not hear either that somebody has gone.
        (Sender::Client, "requests are lost", Reach::Clients)
    };
    let hundredths = random.one_of(&ONE_WAY);
    scene.world.proxies()[place].silence(silenced, hundredths, random.draw());
    let words = format!("{words} on {hundredths} % of the connections that were there, at proxy {place}");
    Begun::until(vec![(words, reach)], move |scene| {
        scene.world.proxies()[place].cut_silenced();
        Ok(Progress::Over)
    })
}

/// As networks do that fail: answers are late first, and then nothing arrives any more. Whoever believes in a lease for longer
/// than it lasts because it has heard of it late cannot learn better.
fn slow_then_gone(scene: &mut Scene, place: usize, random: &mut Random) -> Begun {
    let late = Duration::from_millis(random.between(LATE_MS));
    scene.world.proxies()[place].delay(late, Direction::Answers);
    let mut gone_since = None;
    let effects = vec![(format!("answers are late, and then all is lost, at proxy {place}"), Reach::Clients)];
    Begun::until(effects, move |scene| {
        let proxy = &scene.world.proxies()[place];
        let since = *gone_since.get_or_insert_with(|| {
            proxy.drop_requests();
            proxy.drop_answers();
            Instant::now()
        });
        if since.elapsed() < GONE {
            return Ok(Progress::NotYet);
        }
        proxy.heal();
        Ok(Progress::Over)
    })
}
