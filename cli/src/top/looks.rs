//! Queries the server repeatedly: the queues, the counters, the holders of the locks on the screen, everything about
//! the lock with its details on the screen, and, if requested, a bit more of the held locks.
//!
//! The cost of one look is limited: QUEUES of 1,000, INFO, and an INSPECT with COUNT 1 of 50 locks, or of as many as
//! are on the screen; held locks have their own limit (`held.rs`).

use super::held::{Finding, Held};
use crate::operators::{self, Inspection, Queue, Statistics, Unanswered};
use rlock_client::{Locks, Master};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

const QUEUES_MAX: usize = 1_000;

/// For how many locks the holders are asked for; for more only if more fit on the screen.
pub const LOOKED_AT: usize = 50;

/// How many holders and waiters of one lock are shown.
pub const DETAIL_MAX: usize = 200;

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The locks on the screen.
    pub visible: Vec<Vec<u8>>,
    /// The lock with its details on the screen.
    pub detail: Option<Vec<u8>>,
    /// Whether locks without waiters are requested.
    pub held: bool,
    /// Grows when the next look cannot wait for its time.
    pub hurry: u64,
}

/// What was seen.
#[derive(Debug)]
pub struct Look {
    pub at: Instant,
    pub queues: Vec<Queue>,
    pub statistics: Vec<Statistics>,
    pub locks: HashMap<Vec<u8>, Inspection>,
    pub detail: Option<(Vec<u8>, Inspection)>,
    pub held: Option<Held>,
}

pub enum News {
    /// The server is asked at this moment.
    Asked(Instant),
    Seen(Box<Look>),
    /// Why there was nothing to be seen.
    Nothing(Unanswered),
}

pub struct Looks {
    aim: watch::Sender<Aim>,
    news: mpsc::UnboundedReceiver<News>,
}

/// Takes looks, and remembers the position of the scan through the keys.
pub struct Looker {
    locks: Locks,
    interval: Duration,
    finding: Finding,
}

impl Looks {
    pub fn begin(looker: Looker, aim: Aim) -> Self {
        let (aim, aimed) = watch::channel(aim);
        let (tell, news) = mpsc::unbounded_channel();
        tokio::spawn(go_on(looker, aimed, tell));
        Self { aim, news }
    }

    /// Looks at once if the user asked for something; everything else can wait for the next look.
    pub fn aim_at(&self, aim: Aim) {
        self.aim.send_if_modified(|present| {
            let turned = present.detail != aim.detail && aim.detail.is_some();
            let hurried = turned || present.hurry != aim.hurry;
            *present = aim;
            hurried
        });
    }

    /// Cancel safe.
    pub async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

async fn go_on(mut looker: Looker, mut aimed: watch::Receiver<Aim>, tell: mpsc::UnboundedSender<News>) {
    loop {
        tokio::select! {
            () = sleep(looker.interval) => {}
            changed = aimed.changed() => if changed.is_err() { return },
        }
        let aim = aimed.borrow_and_update().clone();
        if tell.send(News::Asked(Instant::now())).is_err() {
            return;
        }
        let news = match looker.look(&aim).await {
            Ok(look) => News::Seen(Box::new(look)),
            Err(error) => News::Nothing(error),
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

impl Looker {
    pub fn new(locks: Locks, interval: Duration) -> Self {
        Self { locks, interval, finding: Finding::new(interval) }
    }

    pub async fn look(&mut self, aim: &Aim) -> Result<Look, Unanswered> {
        let at = Instant::now();
        let masters = self.locks.masters().await?;
        let both = tokio::try_join!(operators::queues(&masters, QUEUES_MAX), operators::statistics(&masters));
        let (queues, statistics) = both?;
        let seen = operators::known(&self.locks, wanted(aim, &queues)).await?;
        let held = self.held(aim, &masters, &seen).await?;
        let mut detail = None;
        if let Some(key) = &aim.detail {
            detail = match operators::inspect(&self.locks, key, DETAIL_MAX).await {
                Err(error) if error.is_unavailable() => return Err(error),
                look => look.ok().map(|lock| (key.clone(), lock)),
            };
        }
        Ok(Look { at, queues, statistics, locks: seen, detail, held })
    }

    async fn held(
        &mut self,
        aim: &Aim,
        masters: &[Master],
        seen: &HashMap<Vec<u8>, Inspection>,
    ) -> Result<Option<Held>, Unanswered> {
        if !aim.held {
            self.finding = Finding::new(self.interval);
            return Ok(None);
        }
        self.finding.learn(seen);
        self.finding.go_on(&self.locks, masters).await.map(Some)
    }
}

/// The locks on the screen and, because they may be next, those with the longest queues.
fn wanted(aim: &Aim, queues: &[Queue]) -> Vec<Vec<u8>> {
    let mut wanted = aim.visible.clone();
    let others = queues.iter().map(|queue| &queue.key).filter(|key| !aim.visible.contains(key));
    wanted.extend(others.take(LOOKED_AT.saturating_sub(aim.visible.len())).cloned());
    wanted
}
