//! The watchdog against servers that a test makes up, on a clock that stands still until all tasks wait for it.

use super::*;
use crate::core::hold::Began;
use crate::link::request::Side;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

const LEASE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_secs(10);

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// It takes what is sent, and never answers.
    Silent,
    /// It answers as late as it may.
    Late,
    /// It refuses connections.
    Down,
    /// It has forgotten all locks.
    Empty,
}

/// A key's first letter is the server that it is on.
#[derive(Default)]
struct Fake {
    moods: Mutex<HashMap<u8, Mood>>,
    round_trips: AtomicUsize,
    /// When each key was renewed.
    renewals: Mutex<HashMap<Vec<u8>, Vec<Instant>>>,
    /// The connection to this one has broken.
    broken: Mutex<Vec<u8>>,
    breaks: Notify,
}

impl Servers for Fake {
    type Place = u8;

    fn place(&self, key: &[u8]) -> u8 {
        key[0]
    }

    async fn broken_places(&self) -> Vec<u8> {
        self.breaks.notified().await;
        std::mem::take(&mut *self.broken.lock().unwrap())
    }

    async fn renew(
        &self,
        place: &u8,
        leases: &[Due],
        limit: Duration,
        wanted: impl Fn(&Due) -> bool + Send + Sync,
    ) -> (Instant, Vec<Renewed>) {
        let began = Instant::now();
        self.round_trips.fetch_add(1, Relaxed);
        let mood = self.moods.lock().unwrap().get(place).copied().unwrap_or(Mood::Well);
        let outcome = match mood {
            Mood::Well => Renewed::Yes,
            Mood::Empty => Renewed::Gone,
            Mood::Down => Renewed::Failed(Fault::Unreachable(Fault::broken_at_once())),
            Mood::Late => {
                sleep(limit).await;
                Renewed::Yes
            }
            Mood::Silent => {
                sleep(limit).await;
                Renewed::Failed(Fault::Silent(Fault::timed_out()))
            }
        };
        let mut renewals = self.renewals.lock().unwrap();
        for due in leases.iter().filter(|due| matches!(outcome, Renewed::Yes) && wanted(due)) {
            renewals.entry(due.hold.key.clone()).or_default().push(began);
        }
        (began, vec![outcome; leases.len()])
    }
}

impl Fake {
    fn set(&self, place: u8, mood: Mood) {
        self.moods.lock().unwrap().insert(place, mood);
    }

    fn cut(&self, place: u8) {
        self.broken.lock().unwrap().push(place);
        self.breaks.notify_one();
    }

    fn renewals_of(&self, hold: &Hold) -> Vec<Instant> {
        self.renewals.lock().unwrap().get(&hold.key).cloned().unwrap_or_default()
    }
}

/// A watchdog at work.
struct Scene {
    watchdog: Arc<Watchdog>,
    servers: Arc<Fake>,
    task: JoinHandle<()>,
}

impl Scene {
    fn new() -> Self {
        let (watchdog, servers) = (Arc::<Watchdog>::default(), Arc::<Fake>::default());
        let task = tokio::spawn(watchdog.clone().run(servers.clone()));
        Self { watchdog, servers, task }
    }

    /// A lease that begins now, and the ticket to give it up with.
    fn hold(&self, key: &str, lease: Duration) -> (Arc<Hold>, u64) {
        self.hold_with(key, lease, lease)
    }

    /// The same, granted on a lease that is shorter than it is to be.
    fn hold_with(&self, key: &str, lease: Duration, length: Duration) -> (Arc<Hold>, u64) {
        let hold = Arc::new(Hold::new(key.into(), b"holder".to_vec(), false));
        hold.attempt_begins(Side::Plain);
        let running = Leased { after: Instant::now(), length };
        hold.attempt_granted(Side::Plain, false, Began { lease: running, for_all: false });
        let ticket = self.watchdog.watch(&hold, lease, running);
        (hold, ticket)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_leases_are_renewed_in_few_round_trips() {
    let scene = Scene::new();
    let mut holds = Vec::new();
    for number in 0..10_000 {
        holds.push(scene.hold(&format!("{number}"), LEASE).0);
        // They begin one after the other, over a whole interval.
        advance(INTERVAL / 10_000).await;
    }
    const INTERVALS: usize = 12;
    let mut least_left = LEASE;
    for _ in 0..INTERVALS * 10 {
        sleep(INTERVAL / 10).await;
        least_left = least_left.min(holds.iter().map(|hold| hold.remaining()).min().unwrap());
    }
    assert!(least_left > LEASE / 2, "a lease had only {least_left:?} left");
    // By the first digit there are ten servers, each asked for what is due in one half of an interval, and then for the
    // other half.
    let round_trips = scene.servers.round_trips.load(Relaxed);
    assert!(round_trips <= INTERVALS * 10 * 3, "{round_trips} round trips in {INTERVALS} intervals");
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_a_limit() {
    let scene = Scene::new();
    let holds: Vec<_> = (0..2_500).map(|number| scene.hold(&format!("a{number}"), LEASE).0).collect();
    sleep(INTERVAL + Duration::from_millis(1)).await;
    assert_eq!(scene.servers.round_trips.load(Relaxed), 3);
    assert!(holds.iter().all(|hold| scene.servers.renewals_of(hold).len() == 1));
}

/// One of three is dead, whether it refuses or says nothing: the others' leases are renewed as if nothing had happened.
#[tokio::test(start_paused = true)]
async fn a_dead_server_delays_no_other() {
    for mood in [Mood::Silent, Mood::Down] {
        let scene = Scene::new();
        scene.servers.set(b'b', mood);
        // Enough for several batches on each server.
        let holds: Vec<_> =
            (0..6_000).map(|number| scene.hold(&format!("{}{number}", ["a", "b", "c"][number % 3]), LEASE).0).collect();
        sleep(LEASE * 4).await;
        for hold in &holds {
            let renewals = scene.servers.renewals_of(hold);
            if hold.key[0] == b'b' {
                assert!(renewals.is_empty() && hold.remaining().is_zero(), "{mood:?}");
                continue;
            }
            assert!(renewals.len() >= 11, "{mood:?}: {} renewals", renewals.len());
            let slowest = renewals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(slowest <= INTERVAL + Duration::from_millis(10), "{mood:?}: {slowest:?} between two renewals");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_tried_again_within_what_is_left() {
    for mood in [Mood::Silent, Mood::Down] {
        for outage in [INTERVAL / 2, INTERVAL, INTERVAL * 3 / 2] {
            let scene = Scene::new();
            let (hold, _) = scene.hold("a", LEASE);
            // It begins right before the renewal would have come.
            sleep(INTERVAL - Duration::from_millis(1)).await;
            scene.servers.set(b'a', mood);
            sleep(outage).await;
            scene.servers.set(b'a', Mood::Well);
            sleep(LEASE).await;
            assert!(!hold.remaining().is_zero(), "{mood:?} for {outage:?}: the lease was lost");
        }
    }
}

/// What was waited for is granted on a short lease.
#[tokio::test(start_paused = true)]
async fn a_short_lease_is_made_whole_soon() {
    const SOON: Duration = Duration::from_millis(50);
    let scene = Scene::new();
    let ((hold, _), (over, ticket)) =
        (scene.hold_with("a", LEASE, LEASE / 10), scene.hold_with("b", LEASE, LEASE / 10));
    sleep(SOON / 2).await;
    scene.watchdog.unwatch(&over, ticket);
    sleep(SOON).await;
    assert!(hold.remaining() > LEASE * 9 / 10, "{:?}", hold.remaining());
    assert!(scene.servers.renewals_of(&over).is_empty(), "it was over by then");
    sleep(INTERVAL).await;
    assert_eq!(scene.servers.renewals_of(&hold).len(), 2, "and from then on as always");
}

/// A try takes no longer than a part of the lease that runs, so there is time for another one.
#[tokio::test(start_paused = true)]
async fn a_short_lease_outlives_a_renewal_that_gets_lost() {
    let scene = Scene::new();
    scene.servers.set(b'a', Mood::Silent);
    let (hold, _) = scene.hold_with("a", LEASE, LEASE / 10);
    sleep(LEASE / 10 / 2).await;
    scene.servers.set(b'a', Mood::Well);
    sleep(LEASE).await;
    assert!(!hold.remaining().is_zero());
}

/// Behind a connection that broke the server may have forgotten all.
#[tokio::test(start_paused = true)]
async fn what_is_behind_a_broken_connection_is_renewed_at_once() {
    let scene = Scene::new();
    let ((hold, _), (other, _)) = (scene.hold("a", LEASE), scene.hold("b", LEASE));
    sleep(Duration::from_millis(1)).await;
    let broke = Instant::now();
    scene.servers.cut(b'a');
    sleep(Duration::from_millis(1)).await;
    assert_eq!(scene.servers.renewals_of(&hold), [broke]);
    assert!(scene.servers.renewals_of(&other).is_empty(), "its server is another one");
    sleep(INTERVAL).await;
    assert_eq!(scene.servers.renewals_of(&hold).len(), 2, "and from then on as always");
}

/// The server takes its time to come back. It is asked as soon as it has, whatever the lease.
#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_is_asked_soon() {
    let lease = Duration::from_secs(86_400);
    for away in [0, 50, 1_000, 60_000].map(Duration::from_millis) {
        let scene = Scene::new();
        let (hold, _) = scene.hold("a", lease);
        sleep(Duration::from_millis(1)).await;
        scene.servers.set(b'a', Mood::Down);
        scene.servers.cut(b'a');
        sleep(away).await;
        scene.servers.set(b'a', Mood::Empty);
        // At most as long again, and never longer than a second.
        sleep(away.min(Duration::from_secs(1)) + Duration::from_millis(30)).await;
        assert!(hold.remaining().is_zero(), "away for {away:?}");
        // Nor was it asked all the time.
        assert!(scene.servers.round_trips.load(Relaxed) <= 8 + usize::try_from(away.as_secs()).unwrap());
    }
}

/// It was answered before the connection broke, and reported after it.
#[tokio::test(start_paused = true)]
async fn a_break_during_a_renewal_is_not_forgotten() {
    let scene = Scene::new();
    let (hold, _) = scene.hold("a", LEASE);
    scene.servers.set(b'a', Mood::Late);
    sleep(INTERVAL + Duration::from_millis(1)).await;
    scene.servers.cut(b'a');
    sleep(Duration::from_millis(1)).await;
    scene.servers.set(b'a', Mood::Empty);
    sleep(LEASE / 6).await;
    assert!(hold.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_is_lost_at_once_and_not_renewed_again() {
    let scene = Scene::new();
    let (hold, _) = scene.hold("a", LEASE);
    scene.servers.set(b'a', Mood::Empty);
    sleep(INTERVAL + Duration::from_millis(1)).await;
    assert!(hold.remaining().is_zero());
    let asked = scene.servers.round_trips.load(Relaxed);
    sleep(LEASE * 2).await;
    assert_eq!(scene.servers.round_trips.load(Relaxed), asked);
}

/// A renewal that comes through after the deadline makes nothing good: somebody was told that the lock is lost.
#[tokio::test(start_paused = true)]
async fn what_is_lost_stays_lost() {
    let scene = Scene::new();
    let (hold, _) = scene.hold("a", LEASE);
    scene.servers.set(b'a', Mood::Down);
    sleep(LEASE).await;
    assert!(hold.remaining().is_zero());
    scene.servers.set(b'a', Mood::Well);
    assert!(!hold.renewed(Leased { after: Instant::now(), length: LEASE }));
    assert!(hold.remaining().is_zero());
    sleep(LEASE).await;
    assert!(hold.remaining().is_zero());
}

/// Else nobody would get the lock for as long as the guard is there, which is good for nothing.
#[tokio::test(start_paused = true)]
async fn what_is_lost_is_not_renewed_any_more() {
    let scene = Scene::new();
    scene.servers.set(b'a', Mood::Down);
    let (hold, _) = scene.hold("a", LEASE);
    sleep(LEASE - Duration::from_secs(2)).await;
    // The next try begins before the deadline, and its answer comes after it.
    scene.servers.set(b'a', Mood::Late);
    sleep(LEASE).await;
    let renewals = scene.servers.renewals_of(&hold).len();
    assert!(renewals > 0 && hold.remaining().is_zero());
    sleep(LEASE * 2).await;
    assert_eq!(scene.servers.renewals_of(&hold).len(), renewals);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_its_release() {
    let scene = Scene::new();
    let (hold, ticket) = scene.hold("a", LEASE);
    let (other, _) = scene.hold("a2", LEASE);
    sleep(INTERVAL * 2).await;
    scene.watchdog.unwatch(&hold, ticket);
    let before = scene.servers.renewals_of(&hold).len();
    sleep(LEASE).await;
    assert_eq!(scene.servers.renewals_of(&hold).len(), before);
    assert!(scene.servers.renewals_of(&other).len() > before);
}

/// It is released while its renewal is under way, whose answer then says nothing about what is acquired next.
#[tokio::test(start_paused = true)]
async fn an_answer_to_an_old_renewal_says_nothing_about_a_new_lease() {
    let scene = Scene::new();
    scene.servers.set(b'a', Mood::Silent);
    let (hold, ticket) = scene.hold("a", LEASE);
    sleep(INTERVAL + Duration::from_millis(1)).await;
    scene.watchdog.unwatch(&hold, ticket);
    scene.servers.set(b'a', Mood::Well);
    let again = scene.watchdog.watch(&hold, LEASE, Leased { after: Instant::now(), length: LEASE });
    assert_ne!(ticket, again);
    scene.watchdog.unwatch(&hold, ticket);
    sleep(LEASE * 2).await;
    assert!(scene.servers.renewals_of(&hold).len() >= 5);
}

#[tokio::test(start_paused = true)]
async fn leases_of_all_lengths_are_kept_alive() {
    let scene = Scene::new();
    let lengths = [50, 100, 1_000, 10_000, 60_000].map(Duration::from_millis);
    let holds: Vec<_> = lengths.iter().map(|lease| scene.hold(&format!("a{lease:?}"), *lease).0).collect();
    for _ in 0..1_000 {
        sleep(Duration::from_millis(7)).await;
        for (hold, lease) in holds.iter().zip(lengths) {
            assert!(hold.remaining() > lease / 3, "{lease:?}: only {:?} left", hold.remaining());
        }
    }
}
