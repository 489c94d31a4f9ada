//! Asks the server, again and again: for the queues, the counters, the holders of the locks that are on the screen, and
//! everything of the lock whose details are shown.
//!
//! What one look costs has limits: QUEUES of 1,000, INFO, and an INSPECT with COUNT 1 of 50 locks, or of as many as are
//! on the screen.

use rlock_client::{Error, Inspection, Locks, Queue, Statistics};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const QUEUES_MAX: usize = 1_000;

/// Of so many locks the holders are asked for, and of more only if more fit on the screen.
const LOOKED_AT: usize = 50;

/// How many holders and waiters of one lock are shown.
const DETAIL_MAX: usize = 200;

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The locks on the screen.
    pub visible: Vec<Vec<u8>>,
    /// The one of which all is shown.
    pub detail: Option<Vec<u8>>,
}

/// What was seen.
#[derive(Debug)]
pub struct Look {
    pub at: Instant,
    pub queues: Vec<Queue>,
    pub statistics: Vec<Statistics>,
    pub locks: HashMap<Vec<u8>, Inspection>,
    pub detail: Option<(Vec<u8>, Inspection)>,
}

pub struct Looks {
    aim: watch::Sender<Aim>,
    seen: mpsc::UnboundedReceiver<Result<Look, Error>>,
}

impl Looks {
    pub fn begin(locks: Locks, interval: Duration) -> Self {
        let (aim, aimed) = watch::channel(Aim::default());
        let (tell, seen) = mpsc::unbounded_channel();
        tokio::spawn(go_on(locks, interval, aimed, tell));
        Self { aim, seen }
    }

    /// A lock whose details the user wants is looked at now; all else can wait for the next time.
    pub fn aim_at(&self, aim: Aim) {
        self.aim.send_if_modified(|present| {
            let turned = present.detail != aim.detail && aim.detail.is_some();
            *present = aim;
            turned
        });
    }

    /// The next look, or why there was nothing to be seen. Cancel safe.
    pub async fn next(&mut self) -> Result<Look, Error> {
        match self.seen.recv().await {
            Some(look) => look,
            None => std::future::pending().await,
        }
    }
}

async fn go_on(
    locks: Locks,
    interval: Duration,
    mut aimed: watch::Receiver<Aim>,
    tell: mpsc::UnboundedSender<Result<Look, Error>>,
) {
    loop {
        tokio::select! {
            () = sleep(interval) => {}
            changed = aimed.changed() => if changed.is_err() { return },
        }
        let aim = aimed.borrow_and_update().clone();
        if tell.send(look(&locks, &aim).await).is_err() {
            return;
        }
    }
}

pub async fn look(locks: &Locks, aim: &Aim) -> Result<Look, Error> {
    let at = Instant::now();
    let (queues, statistics) = tokio::try_join!(locks.queues(QUEUES_MAX), locks.statistics())?;
    let mut asked = JoinSet::new();
    for key in wanted(aim, &queues) {
        let locks = locks.clone();
        asked.spawn(async move { (locks.inspect(key.clone(), 1).await, key) });
    }
    let mut seen = HashMap::new();
    for (lock, key) in asked.join_all().await {
        seen.extend(told(lock)?.map(|lock| (key, lock)));
    }
    let mut detail = None;
    if let Some(key) = &aim.detail {
        detail = told(locks.inspect(key.clone(), DETAIL_MAX).await)?.map(|lock| (key.clone(), lock));
    }
    Ok(Look { at, queues, statistics, locks: seen, detail })
}

/// The locks on the screen and, as they may be there next, those with the longest queues.
fn wanted(aim: &Aim, queues: &[Queue]) -> Vec<Vec<u8>> {
    let mut wanted = aim.visible.clone();
    let others = queues.iter().map(|queue| &queue.key).filter(|key| !aim.visible.contains(key));
    wanted.extend(others.take(LOOKED_AT.saturating_sub(aim.visible.len())).cloned());
    wanted
}

/// One that this user may not look at, or that is no lock by now, spoils nothing.
fn told(lock: Result<Inspection, Error>) -> Result<Option<Inspection>, Error> {
    match lock {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.is_unavailable() => Err(error),
        Err(_) => Ok(None),
    }
}
