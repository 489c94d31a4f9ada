//! `rlock drill`: cuts off the master, and counts the locks that two clients hold at the same time.
//!
//! Clients of both sides run in this process. Those of the cut-off side know only the master's address; those of the
//! rest find the next master as every client does. Clients of both sides wait for each lock, so a lock that either side
//! grants too early has two holders in this process.

mod ledger;
mod report;

use crate::address::{self, Address};
use crate::arguments::{Drill, Server};
use crate::doctor::text;
use crate::exit;
use crate::failure::Failure;
use crate::output;
use crate::shown;
use crate::signals::Signals;
use ledger::{Ledger, Side};
use nix::sys::signal::Signal;
use report::Report;
use rlock_client::{Fenced, Lock, Locks};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// The pause between two requests of one client, and between two checks.
const PAUSE: Duration = Duration::from_millis(200);

/// How long the first acquires may take: a grace after a start may run.
const UNTIL_HELD: Duration = Duration::from_secs(90);

/// For what remains at the end: a probe, and the releases.
const GOODBYE: Duration = Duration::from_secs(5);

pub async fn drill(args: &Drill, server: &Server) -> Result<u8, Failure> {
    let mut signals = Signals::take(&ENDING)?;
    let mut stage = Stage::set(args, server).await?;
    let played = tokio::select! {
        biased;
        arrival = signals.next() => Ok(exit::by_signal(arrival.signal as i32)),
        played = stage.play() => played,
    };
    stage.leave().await;
    played
}

struct Stage<'a> {
    args: &'a Drill,
    begun: Instant,
    /// The master that is cut off, and its `run_id`.
    at: Address,
    id: String,
    /// The locks are in one slot, so that one master has all of them.
    tag: String,
    /// A client that knows the address of the master alone, and one of the rest.
    near: Locks,
    rest: Locks,
    ledger: Arc<Ledger>,
    /// The longest wait for a free lock, and the beginning of the current wait.
    waits: Arc<Mutex<(Duration, Option<Instant>)>>,
    clients: JoinSet<()>,
    is_cut: bool,
    /// How many more locks were requested during the cut. A grant without a reply leaves a counter, too.
    late: u64,
}

/// What INFO says of one server.
struct Info(String);

impl Info {
    async fn by(locks: &Locks, key: &str) -> Result<Self, String> {
        let reply =
            locks.command(key, &["INFO", "server", "replication", "rlock"]).await.map_err(|error| error.reason())?;
        text(&reply).map(Self).ok_or_else(|| "unexpected reply to INFO".to_owned())
    }

    fn line(&self, name: &str) -> &str {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
    }

    fn is_master(&self) -> bool {
        self.line("role") == "master"
    }
}

impl<'a> Stage<'a> {
    async fn set(args: &'a Drill, server: &Server) -> Result<Self, Failure> {
        let (given, certificates) = address::read(server)?;
        let open = async |at: &Address, name: &str| {
            let options = Locks::options().name(name);
            let opened = at.open(options, certificates.clone(), server.connect_timeout).await;
            opened.map_err(|error| Failure::of_the_server(at, &error))
        };
        let silent = |at: &Address, why| Failure::new(exit::UNAVAILABLE, format!("{at}: {why}"));
        let rest = open(&given, "rlock-drill-rest").await?;
        let tag = format!("{{{}}}:{}", args.prefix, std::process::id());
        let master = Info::by(&rest, &tag).await.map_err(|why| silent(&given, why))?;
        let id = master.line("run_id").to_owned();
        let mut at = args.near.as_ref().map(|near| given.of_node(near));
        for node in rest.masters().await.map_err(|error| Failure::of_the_server(&given, &error))? {
            let is_it = node.command(&["INFO", "server"]).await.ok().and_then(|reply| text(&reply));
            if is_it.is_some_and(|info| info.contains(&id)) {
                at.get_or_insert(given.of_node(node.address()));
            }
        }
        let Some(at) = at else { return Err(silent(&given, "no master names itself".to_owned())) };
        let near = open(&at, "rlock-drill-cut-off").await?;
        let info = Info::by(&near, &tag).await.map_err(|why| silent(&at, why))?;
        if info.line("run_id") != id {
            return Err(Failure::usage(format!("{at} is not the master that has the locks of this drill")));
        }
        let (ledger, waits, clients) = (Arc::default(), Arc::default(), JoinSet::new());
        Ok(Self {
            args,
            begun: Instant::now(),
            at,
            id,
            tag,
            near,
            rest,
            ledger,
            waits,
            clients,
            is_cut: false,
            late: 0,
        })
    }

    fn say(&self, words: &str) -> Result<(), Failure> {
        output::print(&format!("{:>6.1}s  {words}\n", self.begun.elapsed().as_secs_f64()))
    }

    fn lock(&self, side: Side, name: &str) -> Lock<Fenced> {
        let locks = if side == Side::CutOff { &self.near } else { &self.rest };
        locks.lock(name).lease(self.args.lease).fenced()
    }

    /// A client that acquires the lock whenever it can, and keeps it.
    fn compete(&mut self, place: usize, side: Side, name: &str) {
        let (lock, ledger) = (self.lock(side, name), self.ledger.clone());
        self.clients.spawn(async move {
            loop {
                match lock.acquire().await {
                    Ok(guard) => {
                        let lost = guard.lost();
                        ledger.granted(place, side, guard);
                        lost.await;
                    }
                    Err(_) => sleep(PAUSE).await,
                }
            }
        });
    }

    /// Measures how long a client waits for a free lock.
    fn probe(&mut self) {
        let (locks, waits, lease, tag) = (self.rest.clone(), self.waits.clone(), self.args.lease, self.tag.clone());
        self.clients.spawn(async move {
            for number in 0_u64.. {
                let begun = Instant::now();
                set(&waits, |waits| waits.1 = Some(begun));
                // Each probe has its own lock, so that a lost release does not delay the next probe.
                let lock = locks.lock(format!("{tag}:probe-{number}")).lease(lease);
                while lock.acquire().await.is_err() {
                    sleep(PAUSE).await;
                }
                set(&waits, |waits| *waits = (waits.0.max(begun.elapsed()), None));
                sleep(PAUSE).await;
            }
        });
    }

    /// The current probe may have begun just now: it counts as a wait only if it does not end soon.
    async fn until_probed(&self) {
        let is_under_way = || set(&self.waits, |waits| waits.1.is_some());
        let probed = async {
            while is_under_way() {
                sleep(PAUSE / 10).await;
            }
        };
        let _ = timeout(GOODBYE, probed).await;
    }

    async fn play(&mut self) -> Result<u8, Failure> {
        let mut report = Report::default();
        self.take_locks().await?;
        match self.until_replaced().await? {
            Some(cut) => self.until_all_have_next_holders(cut, &mut report).await?,
            None => report.unknown(format!("no other master took over within {}", shown::time(self.args.within))),
        }
        match Info::by(&self.near, &self.tag).await {
            Ok(info) if info.is_master() => {}
            Ok(_) => report.unknown(format!("{} became a replica during the cut, so it was not cut off", self.at)),
            Err(why) => report.unknown(format!("{} did not answer during the cut ({why})", self.at)),
        }
        if self.ledger.counts().late == 0 {
            report.unknown(format!("{} granted nothing after the cut that its replicas do not know", self.at));
        }
        // A holder may lose its lock for another reason later.
        report.kept = self.ledger.counts().kept;
        self.heal(&mut report).await?;
        self.until_probed().await;
        report.counts = self.ledger.counts();
        (report.longest_wait, report.still_waits) =
            set(&self.waits, |(longest, now)| (now.map_or(*longest, |it| it.elapsed().max(*longest)), now.is_some()));
        output::print(&report.text(&self.at))?;
        Ok(report.code())
    }

    async fn take_locks(&mut self) -> Result<(), Failure> {
        // If the servers refuse anything, for example a lease longer than the grace, they refuse it to the first
        // client.
        let first =
            self.rest.lock(format!("{}:first", self.tag)).lease(self.args.lease).acquire_timeout(UNTIL_HELD).await;
        drop(first.map_err(|error| Failure::of_the_server(&self.at, &error))?);
        let side_of = |place: usize| if place % 2 == 0 { Side::CutOff } else { Side::Rest };
        let places = 0..self.args.locks as usize;
        let names: Vec<_> = places.clone().map(|number| format!("{}:{number}", self.tag)).collect();
        for name in &names {
            let place = self.ledger.add(name);
            self.compete(place, side_of(place), name);
        }
        let begun = Instant::now();
        while self.ledger.counts().grants < names.len() {
            if begun.elapsed() > UNTIL_HELD {
                let words = format!("{}: not all locks were granted within {}", self.at, shown::time(UNTIL_HELD));
                return Err(Failure::new(exit::UNAVAILABLE, words));
            }
            sleep(PAUSE).await;
        }
        self.ledger.begin(side_of);
        for (place, name) in names.iter().enumerate() {
            [Side::CutOff, Side::Rest].into_iter().for_each(|side| self.compete(place, side, name));
        }
        let mut waiting = 0;
        while waiting < 2 * names.len() && begun.elapsed() < UNTIL_HELD {
            waiting = self.waiting(&self.near).await;
            sleep(PAUSE).await;
        }
        self.probe();
        let [near, rest] = self.ledger.counts().held;
        let of = format!("{near} by clients of {}, {rest} by clients of the rest", self.at);
        self.say(&format!("{} locks are held: {of}; {waiting} clients wait", names.len()))
    }

    async fn waiting(&self, locks: &Locks) -> usize {
        let info = Info::by(locks, &self.tag).await;
        info.ok().and_then(|info| info.line("rlock_waiters").parse().ok()).unwrap_or_default()
    }

    async fn heal(&mut self, report: &mut Report) -> Result<(), Failure> {
        match &self.args.heal {
            Some(line) => self.say(&format!("heal: {line}"))?,
            None => self.say("now heal the cut")?,
        }
        self.run_heal().await?;
        let healed = Instant::now();
        while !Info::by(&self.near, &self.tag).await.is_ok_and(|info| !info.is_master()) {
            if healed.elapsed() > self.args.within {
                report.unknown(format!("{} did not become a replica", self.at));
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        self.say(&format!("{} is a replica, {} after that", self.at, shown::time(healed.elapsed())))
    }

    async fn run_heal(&mut self) -> Result<(), Failure> {
        self.is_cut = false;
        run(self.args.heal.as_deref(), &self.at).await
    }

    /// Cuts off the master, and requests more locks from it, which no replica learns about, until clients of the rest
    /// find another master. Returns when the cut began.
    async fn until_replaced(&mut self) -> Result<Option<Instant>, Failure> {
        self.is_cut = true;
        match &self.args.cut {
            Some(line) => self.say(&format!("cut: {line}"))?,
            None => self.say(&format!("now cut {} off from the other servers and the sentinels", self.at))?,
        }
        // Even while a slow command runs, the master has to be asked for locks.
        let (begun, cut, at) = (Instant::now(), self.args.cut.as_deref(), self.at.clone());
        let (_, replaced) = tokio::try_join!(run(cut, &at), async {
            for number in 0_u64.. {
                if begun.elapsed() > self.args.within {
                    break;
                }
                let name = self.late_name(number);
                self.late = number + 1;
                let late = self.lock(Side::CutOff, &name);
                let late = timeout(2 * PAUSE, late.try_acquire());
                let (late, info) = tokio::join!(late, timeout(2 * PAUSE, Info::by(&self.rest, &self.tag)));
                if let Ok(Ok(Some(guard))) = late {
                    let place = self.ledger.add(&name);
                    self.ledger.granted(place, Side::CutOff, guard);
                    self.compete(place, Side::Rest, &name);
                }
                if info.is_ok_and(|info| info.is_ok_and(|info| info.is_master() && info.line("run_id") != self.id)) {
                    self.say(&format!("another master has the locks, {} after the cut", shown::time(begun.elapsed())))?;
                    return Ok(Some(begun));
                }
                sleep(PAUSE).await;
            }
            Ok(None)
        })?;
        Ok(replaced)
    }

    fn late_name(&self, number: u64) -> String {
        format!("{}:late-{number}", self.tag)
    }

    /// Also waits until the leases that the old master knew at the cut have ended there.
    async fn until_all_have_next_holders(&self, cut: Instant, report: &mut Report) -> Result<(), Failure> {
        let info = Info::by(&self.rest, &self.tag).await.ok();
        let grace = info.and_then(|info| info.line("rlock_grace_left_ms").parse().ok()).unwrap_or_default();
        let limit = cut.elapsed() + Duration::from_millis(grace) + 3 * self.args.lease + GOODBYE;
        let is_over = || self.ledger.counts().without_next_holder == 0 && cut.elapsed() > self.args.lease * 3 / 2;
        while !is_over() && cut.elapsed() < limit {
            sleep(PAUSE).await;
        }
        match self.ledger.counts().without_next_holder {
            0 => {
                let waiting = self.waiting(&self.rest).await;
                self.say(&format!("each lock of the cut-off side has a next holder; {waiting} clients wait"))
            }
            some => {
                report.unknown(format!("{some} locks of the cut-off side got no next holder"));
                Ok(())
            }
        }
    }

    /// Heals, releases the locks, and deletes the counters of their tokens if this user may.
    async fn leave(mut self) {
        let healed = if self.is_cut { self.run_heal().await } else { Ok(()) };
        if let Err(failure) = healed {
            failure.report();
        }
        self.clients.shutdown().await;
        let late = (0..self.late).map(|number| self.late_name(number));
        let names: BTreeSet<_> = self.ledger.close().into_iter().chain(late).collect();
        let _ = timeout(GOODBYE, async {
            tokio::join!(self.rest.settle(), timeout(GOODBYE / 2, self.near.settle())).0;
            for name in names {
                let counter = format!("redisson_lock_token:{name}");
                let _ = self.rest.command(&name, &["DEL", &counter]).await;
            }
        })
        .await;
    }
}

/// Runs an operator's command. Its stdout is dropped, because it is not ours.
async fn run(line: Option<&str>, at: &Address) -> Result<(), Failure> {
    let Some(line) = line else { return Ok(()) };
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("RLOCK_DRILL_MASTER", at.to_string());
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().await;
    match status.map_err(Failure::of_the_system)? {
        status if status.success() => Ok(()),
        status => Err(Failure::system(format!("{line}: {status}"))),
    }
}

fn set<T, R>(shared: &Mutex<T>, change: impl FnOnce(&mut T) -> R) -> R {
    change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}
