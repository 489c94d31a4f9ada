//! What a client does between a grant and its end.

use super::{ByHand, CONNECT, PAUSE_MS, PAUSE_OF_A_FAILURE_MS};
use crate::clients::speech::Hold;
use crate::clients::wish::{Deed, Wish};
use crate::history::{Answer, Side};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a release is tried. After that the lease has to end the hold.
pub(super) const TRIES: u32 = 3;

/// How long a returning holder waits each time.
const TRIES_TO_COME_BACK_MS: u64 = 30;

/// Percentage of returning holders in doubt that release the lock rather than try again.
const GIVES_UP_COMING_BACK: u8 = 50;

/// Percentage of writers that read as well.
const READS_AS_WELL: u8 = 20;

/// Percentage of holders that release all holds at once, as they do after a doubt.
const RELEASES_ALL: u8 = 10;

/// Percentage of holders with a second hold that keep both to the end.
const STAYS_TWICE: u8 = 40;

/// What a holder knows of its lock.
struct Certain {
    /// Until when it is certainly held, unless a fault removed it.
    until: Instant,
    /// It may be held more often than is known, or on more sides.
    is_doubtful: bool,
    is_lost: bool,
    releases_all: bool,
}

impl Certain {
    fn from(until: Instant) -> Self {
        Self { until, is_doubtful: false, is_lost: false, releases_all: false }
    }
}

impl ByHand {
    /// `asked`: a moment before the request.
    pub(super) async fn granted(&mut self, hold: Hold, wish: &Wish, asked: Instant) {
        let mut certain = Certain::from(asked + hold.lease());
        // After a wait it is not known when the lease began.
        if wish.wait_ms.is_some() && !self.is_renewed(&hold, &mut certain).await {
            // If one of several locks is lost, the others may be held.
            if !certain.is_lost || hold.is_of_several() {
                self.in_doubt(&hold).await;
            }
            return;
        }
        if !hold.is_of_several() && self.random.is(self.client.habits.enters_again) {
            self.go_in_and_out(&hold, &mut certain).await;
        }
        let deed = Deed::of(&self.client.habits, &mut self.random);
        let reads = hold.side == Side::Write && self.is_native() && self.random.is(READS_AS_WELL);
        if reads {
            self.step_down(&hold, &mut certain, deed).await;
        } else {
            self.do_it(&hold, &mut certain, deed).await;
        }
        let (comes_back, has_died) = (self.client.habits.comes_back, matches!(deed, Deed::Die(_)));
        if comes_back > 0 && !has_died && !hold.is_of_several() && self.random.is(comes_back) {
            self.come_back(&hold).await;
        }
    }

    /// Asks for the lock repeatedly under the previous holder's name, and finally releases all holds: a server that
    /// missed the release still takes this client for the holder.
    async fn come_back(&mut self, hold: &Hold) {
        let until = Instant::now() + Duration::from_millis(self.random.between((0, hold.lease_ms)));
        // Other locks are not asked for with it: they say nothing of the lock that was released.
        let wish = Wish { wait_ms: Some(TRIES_TO_COME_BACK_MS), ..hold.wished_again(true) };
        while Instant::now() < until && !self.round.is_over() {
            self.pause(PAUSE_MS).await;
            if !self.connections.are_open(&hold.lock, self.round.answers(CONNECT)).await {
                continue;
            }
            let asked = Instant::now();
            match self.acquire(hold, &wish).await {
                Answer::Granted { .. } => {
                    let mut certain = Certain::from(asked + hold.lease());
                    let deed = Deed::of(&self.client.habits, &mut self.random);
                    return self.do_it(hold, &mut certain, deed).await;
                }
                Answer::Unknown(_) if self.random.is(GIVES_UP_COMING_BACK) => break,
                _ => {}
            }
        }
        self.release_all(hold).await;
    }

    /// Keeps the lock as the deed says, and finally releases it.
    async fn do_it(&mut self, hold: &Hold, certain: &mut Certain, deed: Deed) {
        match deed {
            Deed::Keep(time) => self.round.pause(time).await,
            Deed::Renew(time) => self.keep_by_renewing(hold, certain, time).await,
            Deed::Stall(time) => {
                self.round.pause(time).await;
                // A leader does not ask first: ANSWER says whether it still holds the lock.
                if hold.keep_ms.is_none() {
                    self.is_renewed(hold, certain).await;
                }
            }
            Deed::Die(time) => {
                self.round.pause(time).await;
                self.may_answer_and_die(hold).await;
                return self.connections.hang_up();
            }
        }
        if self.leaves_an_answer(hold).await {
            return;
        }
        let all = certain.is_doubtful || certain.releases_all || self.random.is(RELEASES_ALL);
        self.release_each(hold, all, certain.until).await;
    }

    async fn keep_by_renewing(&mut self, hold: &Hold, certain: &mut Certain, time: Duration) {
        let (until, third) = (Instant::now() + time, hold.lease() / 3);
        while Instant::now() < until && !self.round.is_over() && !certain.is_lost {
            self.round.pause(third).await;
            self.is_renewed(hold, certain).await;
        }
    }

    /// Acquires the lock again, and releases this second hold at once or with the first.
    async fn go_in_and_out(&mut self, hold: &Hold, certain: &mut Certain) {
        let stays = self.is_native() && self.random.is(STAYS_TWICE);
        match self.enter_again(hold).await {
            Answer::Granted { .. } if stays => certain.releases_all = true,
            Answer::Granted { .. } => {
                let released = self.release(hold, false, certain.until).await;
                certain.is_doubtful |= !matches!(released, Answer::Released(_));
            }
            Answer::Unknown(_) => certain.is_doubtful = true,
            _ => {}
        }
    }

    /// A writer acquires the read side, and keeps only that.
    async fn step_down(&mut self, hold: &Hold, certain: &mut Certain, deed: Deed) {
        let reading = hold.on(Side::Read);
        match self.enter_again(&reading).await {
            Answer::Granted { .. } => {
                self.release_each(hold, certain.is_doubtful || certain.releases_all, certain.until).await;
                certain.releases_all = false;
                self.do_it(&reading, certain, deed).await;
            }
            Answer::Unknown(_) => {
                self.release_all(hold).await;
                self.release_all(&reading).await;
            }
            _ => self.do_it(hold, certain, deed).await,
        }
    }

    /// Renews each lock of the hold. Returns whether the server confirmed all; false if this kind of client renews none.
    async fn is_renewed(&mut self, hold: &Hold, certain: &mut Certain) -> bool {
        let asked = Instant::now();
        let mut are_renewed = true;
        for one in hold.each() {
            let answer = self.renew(&one).await;
            are_renewed &= answer == Some(Answer::Renewed(true));
            certain.is_lost |= answer == Some(Answer::Renewed(false));
        }
        if are_renewed {
            certain.until = asked + hold.lease();
        }
        are_renewed
    }

    pub(super) async fn release_all(&mut self, hold: &Hold) {
        self.release_each(hold, true, Instant::now()).await;
    }

    async fn release_each(&mut self, hold: &Hold, all: bool, certain_until: Instant) {
        for one in hold.each() {
            self.release_one(&one, all, certain_until).await;
        }
    }

    async fn release_one(&mut self, hold: &Hold, mut all: bool, certain_until: Instant) {
        for _ in 0..TRIES {
            if !self.connections.are_open(&hold.lock, self.round.answers(CONNECT)).await {
                continue;
            }
            if let Answer::Released(_) = self.release(hold, all, certain_until).await {
                return;
            }
            all = true;
            sleep(Duration::from_millis(self.random.between(PAUSE_OF_A_FAILURE_MS))).await;
        }
    }
}
