//! Servers that stall, end, forget, and connections that are cut: what can be kept is kept, and what cannot is told in
//! time.

use crate::proxy::Proxy;
use crate::support::{exists, locks_on, lost_before, until, until_nothing_is_left, until_waiting, url};
use futures_util::future::join_all;
use rlock_client::{Error, ErrorKind, Guard, Locks, Loss};
use rlock_testing::{Client, Server, wait_until};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, timeout};

const LEASE: Duration = Duration::from_secs(2);

/// Longer than a server takes to start again, on a busy machine too.
const LONG: Duration = Duration::from_secs(10);

/// Longer than a server takes that is well.
const SHORT: Duration = Duration::from_millis(300);

async fn impatient(server: &Server) -> Locks {
    let options = Locks::options().lease(LEASE).answer_timeout(Duration::from_millis(300));
    options.patience(Duration::from_secs(2)).connect_to(url(server)).await.unwrap()
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Right after a renewal, so that the next one is far away. Returns the lease's end.
async fn until_renewed(client: &mut Client, key: &str) -> i64 {
    let before = client.expiry(key);
    until("it is renewed", || client.expiry(key) > before).await;
    client.expiry(key)
}

/// The server stands still for longer than the lease. Who has the lock knows before the lease has ended there, which is
/// before anybody else can have it.
#[tokio::test]
async fn a_frozen_server_is_told_of_before_the_lease_has_ended_there() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let end = until_renewed(&mut client, "orders:42").await;
    until("the guard knows of it", || guard.remaining() > LEASE * 3 / 4).await;
    server.freeze();
    let left = Duration::from_millis(u64::try_from(end - unix_ms()).unwrap());
    assert!(guard.remaining() > left - Duration::from_millis(300), "given up with no need");
    lost_before(&guard, Instant::now() + left).await;
    until("the lease has ended", || unix_ms() > end).await;
    server.thaw();
    let other = locks.lock("orders:42").acquire().await.unwrap();
    assert!(guard.is_lost() && !other.is_lost());
    assert!(guard.release().await.unwrap_err().is_lost());
    assert!(!other.is_lost() && exists(&mut client, "orders:42"), "the lost guard's release took nothing");
    other.release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// It stands still for less than the lease: nothing is lost.
#[tokio::test]
async fn a_short_stall_costs_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let end = until_renewed(&mut client, "orders:42").await;
    server.freeze();
    // Past the time of the next renewal and its time limit, so that it fails at least once.
    until("a renewal has failed", || unix_ms() > end - 900).await;
    server.thaw();
    until("it is renewed again", || client.expiry("orders:42") > end).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

/// Each answer takes longer than one renewal may: a sixth of the lease.
#[tokio::test]
async fn slow_answers_lose_no_lock() {
    let server = Server::start();
    let (mut client, network) = (server.client(), Proxy::to(&server));
    let lease = Duration::from_secs(3);
    let locks = Locks::options().lease(lease).connect_to(network.url()).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    network.delay_answers(lease / 5);
    let end = client.expiry("orders:42") + 7_000;
    let renewed = until("it was renewed for longer than two leases", || client.expiry("orders:42") > end);
    tokio::select! {
        biased;
        () = guard.lost() => panic!("{:?}, and the server has it still", guard.loss()),
        () = renewed => {}
    }
    guard.release().await.unwrap();
}

/// Whoever asks a server that stands still is told so, and what the server does with the request later is taken back.
#[tokio::test]
async fn a_request_to_a_frozen_server_leaves_nothing_behind() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    server.freeze();
    let (first, second, third) = tokio::join!(
        async { locks.lock("a").try_acquire().await },
        async { locks.lock("b").acquire_timeout(Duration::from_millis(500)).await },
        async { locks.lock("c").owner("job-7").acquire().await },
    );
    assert!(first.unwrap_err().is_unavailable());
    assert!(second.unwrap_err().is_unavailable());
    assert!(third.unwrap_err().is_unavailable());
    server.thaw();
    for key in ["a", "b", "c"] {
        until_nothing_is_left(&mut client, key).await;
    }
    // The server has seen all of it, and nothing comes afterwards.
    assert!(client.figure("grants") > 0, "the requests have reached the server, else this shows nothing");
}

/// A request whose sender has given up arrives after the release that was to take it back.
#[tokio::test]
async fn a_request_that_arrives_after_its_release_is_taken_back() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let options = Locks::options().answer_timeout(Duration::from_millis(200));
    let locks = options.connect_to(network.url()).await.unwrap();
    network.hold_back();
    assert!(locks.lock("a").try_acquire().await.unwrap_err().is_unavailable());
    let released = |client: &mut Client| client.info("commandstats").find("cmdstat_rlock.release").is_some();
    until("it was released, though it has not come", || released(&mut client)).await;
    assert_eq!(client.figure("grants"), 0);
    network.let_through();
    until("it comes", || client.figure("grants") == 1).await;
    until_nothing_is_left(&mut client, "a").await;
}

/// However long the server stands still.
#[tokio::test]
async fn a_request_to_a_server_that_is_frozen_for_longer_than_the_lease() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    server.freeze();
    let began = Instant::now();
    assert!(locks.lock("a").try_acquire().await.unwrap_err().is_unavailable());
    until("longer than a lease", || began.elapsed() > LEASE + Duration::from_millis(500)).await;
    server.thaw();
    let thawed = Instant::now();
    until("it has come, and was taken back", || client.figure("grants") == 1 && !exists(&mut client, "a")).await;
    assert!(thawed.elapsed() < LEASE, "its lease has ended, which shows nothing");
}

/// What can be vouched for is counted from before the request was sent, however long the answer takes.
#[tokio::test]
async fn a_lease_is_counted_from_before_it_was_asked_for() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_secs(30);
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42");
    server.freeze();
    let mut asked = Box::pin(lock.try_acquire());
    assert!(futures_util::poll!(&mut asked).is_pending());
    let sent_before = Instant::now();
    until("the answer is late", || sent_before.elapsed() > Duration::from_millis(500)).await;
    server.thaw();
    let guard = asked.await.unwrap().unwrap();
    assert!(guard.remaining() <= lease.saturating_sub(sent_before.elapsed()), "{:?}", guard.remaining());
    guard.release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// The same for a renewal.
#[tokio::test]
async fn a_renewal_is_counted_from_before_it_was_sent() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_secs(6);
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let end = until_renewed(&mut client, "orders:42").await;
    server.freeze();
    // It is sent 4 s before the end, and may take a second.
    until("the next one has been on its way for a while", || unix_ms() > end - 3_500).await;
    server.thaw();
    until("it went through, and the guard knows", || guard.remaining() > Duration::from_secs(4)).await;
    let on_server = u64::try_from(client.expiry("orders:42") - unix_ms()).unwrap();
    let vouched = guard.remaining();
    assert!(vouched + Duration::from_millis(400) < Duration::from_millis(on_server), "{vouched:?} of {on_server} ms");
    guard.release().await.unwrap();
}

/// The answer takes longer than the lease: the guard would be good for nothing, so there is none.
#[tokio::test]
async fn a_grant_that_comes_too_late_is_none() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let began = Instant::now();
    server.freeze();
    let asked = tokio::spawn({
        let lock = locks.lock("orders:42").fixed_lease(Duration::from_millis(50));
        async move { lock.try_acquire().await.map(|guard| guard.map(|guard| guard.is_lost())) }
    });
    until("the lease would be over", || began.elapsed() > Duration::from_millis(60)).await;
    server.thaw();
    match asked.await.unwrap() {
        Ok(guard) => assert_eq!(guard, Some(false), "a guard that is lost from the start"),
        Err(error) => assert!(error.is_lost(), "{error}"),
    }
    until_nothing_is_left(&mut client, "orders:42").await;
}

#[tokio::test]
async fn a_server_that_forgets_all_is_noticed() {
    let server = Server::start();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let server = server.crash().start();
    guard.lost().await;
    assert!(guard.release().await.unwrap_err().is_lost());
    drop(server);
}

#[tokio::test]
async fn a_server_that_comes_back_with_its_data_has_the_lock_still() {
    let server = Server::prepare().options(&["--appendonly", "yes", "--appendfsync", "always"]).start();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").lease(LONG).acquire().await.unwrap();
    let server = server.crash().options(&["--appendonly", "yes"]).start();
    let mut client = server.client();
    until_renewed(&mut client, "orders:42").await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

/// All connections are cut: guards stay good, those who wait ask again, and a release gets through.
#[tokio::test]
async fn connections_that_are_killed_cost_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let waits = tokio::spawn({
        let lock = locks.lock("orders:42");
        async move { lock.acquire().await }
    });
    for _ in 0..5 {
        until_waiting(&mut client, 1).await;
        client.say("CLIENT KILL TYPE normal SKIPME yes");
    }
    until_renewed(&mut client, "orders:42").await;
    assert!(!guard.is_lost());
    until_waiting(&mut client, 1).await;
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    guard.release().await.unwrap();
    let next: Guard = waits.await.unwrap().unwrap();
    assert!(!next.is_lost());
    next.release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// A connection that broke while nobody used it says nothing about the server.
#[tokio::test]
async fn a_try_over_a_broken_connection_is_made_once_more() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for _ in 0..5 {
        client.say("CLIENT KILL TYPE normal SKIPME yes");
        let guard = locks.lock("orders:42").try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// An operator removes the lock, or puts something else in its place.
#[tokio::test]
async fn a_lock_that_somebody_removed_is_lost_with_the_next_renewal() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    for removal in ["DEL orders:42", "SET orders:42 text"] {
        let guard = locks.lock("orders:42").acquire().await.unwrap();
        client.say(removal);
        guard.lost().await;
        let known = guard.loss();
        assert_eq!(guard.release().await.unwrap_err().loss(), known, "the release has the same reason");
        client.say("DEL orders:42");
    }
}

/// The task that would renew is not needed to be told: a guard in a runtime that does nothing else is lost all the
/// same.
#[tokio::test]
async fn an_end_of_the_server_is_told_of_by_the_clock_alone() {
    let server = Server::start();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    drop(server);
    // Nothing else runs in this runtime meanwhile.
    wait_until("the clock says so", || guard.is_lost());
    guard.lost().await;
}

/// Guards that are released in each of the ways there are.
async fn guards_of_all_kinds(locks: &Locks) -> Vec<Guard> {
    let all = [
        locks.lock("plain"),
        locks.lock("owned").owner("job-7"),
        locks.read_write("prices").write(),
        locks.lock("fixed").fixed_lease(LEASE),
    ];
    let mut guards = Vec::new();
    for lock in all {
        guards.push(lock.acquire().await.unwrap());
    }
    guards.push(locks.all(["from", "to"]).acquire().await.unwrap());
    guards.push(locks.permits("gpu", 2).acquire().await.unwrap());
    guards
}

/// Begins to release them, of a server that stands still until the condition holds.
async fn released_while_frozen(
    server: &Server,
    guards: Vec<Guard>,
    until_then: impl Fn() -> bool,
) -> Vec<Result<(), Error>> {
    server.freeze();
    let releases: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
    until("it has stood still for long enough", until_then).await;
    server.thaw();
    join_all(releases).await.into_iter().map(Result::unwrap).collect()
}

/// The server carries out the first request when nobody waits for its answer any more, and the next one finds nothing.
#[tokio::test]
async fn a_release_whose_answer_nobody_waited_for_is_no_loss() {
    let server = Server::start();
    let mut client = server.client();
    let options = Locks::options().lease(Duration::from_secs(600)).answer_timeout(SHORT);
    let locks = options.connect_timeout(SHORT).connect_to(url(&server)).await.unwrap();
    let guards = guards_of_all_kinds(&locks).await;
    let began = Instant::now();
    for released in released_while_frozen(&server, guards, || began.elapsed() > SHORT * 3).await {
        released.unwrap();
    }
    assert!(client.keys().is_empty());
}

/// The one answer there is comes when the lease is over. The work was done before that; but it is no word of success.
#[tokio::test]
async fn a_lease_that_ends_during_its_release_is_no_loss() {
    let server = Server::start();
    let locks = Locks::options().lease(LEASE).answer_timeout(LEASE * 5).connect_to(url(&server)).await.unwrap();
    let guards = guards_of_all_kinds(&locks).await;
    let began = Instant::now();
    for released in released_while_frozen(&server, guards, || began.elapsed() > LEASE * 2).await {
        let error = released.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
}

/// What was lost before its release stays lost, however that goes. The leases are fixed ones, as a renewal that fails
/// would take the connection with it, and the first request would not be sent.
#[tokio::test]
async fn a_release_that_comes_too_late_is_a_loss_though_nobody_waited_for_its_answer() {
    let server = Server::start();
    let options = Locks::options().answer_timeout(SHORT).connect_timeout(SHORT);
    let locks = options.connect_to(url(&server)).await.unwrap();
    let mut guards = Vec::new();
    for lock in [locks.lock("plain"), locks.lock("owned").owner("job-7"), locks.read_write("prices").read()] {
        guards.push(lock.fixed_lease(SHORT * 2).acquire().await.unwrap());
    }
    for guard in &guards {
        guard.lost().await;
    }
    let began = Instant::now();
    for released in released_while_frozen(&server, guards, || began.elapsed() > SHORT * 3).await {
        assert!(released.unwrap_err().is_lost());
    }
}

/// Nor does it help that no server is left to tell.
#[tokio::test]
async fn a_release_that_comes_too_late_is_a_loss_though_nobody_answers() {
    let server = Server::start();
    let options = Locks::options().lease(LEASE).patience(Duration::from_millis(100));
    let locks = options.connect_to(url(&server)).await.unwrap();
    let guards = guards_of_all_kinds(&locks).await;
    drop(server);
    for guard in guards {
        guard.lost().await;
        assert!(guard.release().await.unwrap_err().is_lost());
    }
}

/// It is not held, though its lease could be vouched for: somebody has taken it away, and may have put something else
/// there.
#[tokio::test]
async fn a_lock_that_somebody_removed_is_lost_if_only_its_release_shows_it() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for replacement in
        [None, Some(("SET", "text")), Some(("HSET", "field value")), Some(("RLOCK.RACQUIRE", "other 600000"))]
    {
        let guards = guards_of_all_kinds(&locks).await;
        let keys = client.keys();
        client.say("FLUSHALL");
        for key in keys {
            replacement.map(|(command, value)| client.say(&format!("{command} {key} {value}")));
        }
        for guard in guards {
            assert!(!guard.is_lost());
            let error = guard.release().await.unwrap_err();
            let reason = error.loss().expect("a loss with its reason").word();
            let (expected, words): (&[_], _) = match replacement {
                None => {
                    (&["not-held"], "lost: the server says that it is not held: it was broken, deleted or forgotten")
                }
                Some(("SET", _)) => (&["overwritten"], "lost: its name now stores something else (WRONGTYPE "),
                // To some of them it is another holder's lock.
                Some(_) => (&["not-held", "overwritten"], "lost: "),
            };
            assert!(expected.contains(&reason) && error.to_string().contains(words), "{replacement:?}: {error}");
        }
        client.say("FLUSHALL");
    }
}

/// What is done to a server, until a guard of it is lost.
async fn loss_by(server: &Server, trouble: &[&str]) -> Loss {
    let mut client = server.client();
    let guard = impatient(server).await.lock("orders:42").acquire().await.unwrap();
    assert!(guard.loss().is_none());
    for command in trouble {
        // Without waiting for an answer, which a server that ends does not give.
        client.send(&command.split(' ').collect::<Vec<_>>());
    }
    loss_of(&guard).await
}

/// Within a time in which a lease has ended many times over: what does no harm must fail the test, not keep it for
/// ever.
async fn loss_of(guard: &Guard) -> Loss {
    timeout(LEASE * 5, guard.lost()).await.expect("it is lost");
    guard.loss().expect("why it is lost")
}

#[tokio::test]
async fn whoever_takes_a_lock_away_is_no_secret() {
    let server = Server::start();
    for removal in ["DEL orders:42", "RLOCK.BREAK orders:42"] {
        let loss = loss_by(&server, &[removal]).await;
        assert!(matches!(loss, Loss::NotHeld), "{loss:?}");
    }
    let loss = loss_by(&server, &["SET orders:42 text"]).await;
    assert!(matches!(&loss, Loss::Overwritten(error) if error.code() == Some("WRONGTYPE")), "{loss:?}");
    assert!(loss.to_string().contains("WRONGTYPE"), "{loss}");
}

#[tokio::test]
async fn why_a_lease_could_not_be_renewed_is_told() {
    let cases: [(&[&str], ErrorKind, Option<&str>); 3] = [
        (&["ACL SETUSER default -rlock.renew"], ErrorKind::Refused, Some("NOPERM")),
        (&["CONFIG SET requirepass new", "CLIENT KILL TYPE normal SKIPME yes"], ErrorKind::Refused, Some("NOAUTH")),
        (&["SHUTDOWN NOSAVE"], ErrorKind::Unavailable, None),
    ];
    let all = cases.map(|(trouble, kind, code)| async move {
        let loss = loss_by(&Server::start(), trouble).await;
        expect_not_renewed(&loss, kind, code);
    });
    join_all(all).await;
}

/// A server that was restarted with another configuration.
#[tokio::test]
async fn a_server_that_comes_back_without_the_module_is_told_of() {
    let server = Server::start();
    let guard = impatient(&server).await.lock("orders:42").lease(LONG).acquire().await.unwrap();
    let _without = server.crash().without_module().start();
    expect_not_renewed(&loss_of(&guard).await, ErrorKind::ModuleMissing, Some("ERR"));
}

fn expect_not_renewed(loss: &Loss, kind: ErrorKind, code: Option<&str>) {
    let Loss::NotRenewed(error) = loss else { panic!("{loss:?}") };
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    let told = loss.to_string();
    let words = told.strip_prefix("the lease could not be renewed: ").expect("why");
    assert!(error.to_string().ends_with(words), "{loss}");
}

#[tokio::test]
async fn a_lease_that_nobody_renews_has_just_ended() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let guard = locks.lock("a").fixed_lease(SHORT).acquire().await.unwrap();
    guard.lost().await;
    assert!(matches!(guard.loss(), Some(Loss::Ended)));
    let both = locks.all(["b", "c"]).fixed_lease(SHORT).acquire().await.unwrap();
    assert!(both.loss().is_none());
    both.lost().await;
    assert!(matches!(both.loss(), Some(Loss::Ended)));
}
