//! A server, a batch of its waiters, a holder of what they wait for, and a bystander that measures.

use crate::setting::Setting;
use crate::slowness::Slowness;
use crate::{as_i64, batch_size};
use rlock_testing::{Answer, Batch, Bystander, Client, PATIENCE, Reply, Server, Testimony};
use std::time::{Duration, Instant};

pub struct Scene {
    pub server: Server,
    pub client: Client,
    pub batch: Batch,
    /// How many other clients wait all the time.
    pub other_waiters: i64,
    setting: Setting,
}

/// The time from when all waits are about to end until all have their answers, seen by a bystander.
#[must_use]
pub struct Storm {
    what: String,
    slowness: Slowness,
    bystander: Bystander,
}

/// How a bystander experienced a storm.
#[must_use]
pub struct Seen {
    what: String,
    testimony: Testimony,
    slowness: Slowness,
}

/// When a lock was free, by the server's clock, and when the time for its grant began.
#[derive(Clone, Copy)]
pub struct Freed {
    pub at: i64,
    pub counted_from: i64,
}

impl Freed {
    pub fn at(at: i64) -> Self {
        Self { at, counted_from: at }
    }
}

impl Scene {
    pub fn with(batch: usize, setting: Setting) -> Self {
        let size = batch_size(batch);
        let options: Vec<_> = setting.options.split_ascii_whitespace().collect();
        // And some for clients outside the batch.
        let clients = (size + 100).to_string();
        let server = Server::prepare().options(&["--maxclients", &clients]).options(&options).start();
        let (mut client, batch) = (server.client(), Batch::connect(&server, size));
        if setting.without_active_expiry {
            client.say("DEBUG SET-ACTIVE-EXPIRE 0");
        }
        Self { server, client, batch, other_waiters: 0, setting }
    }

    /// The number of clients in the batch.
    pub fn size(&self) -> usize {
        self.batch.size()
    }

    /// Sends the command of each client of the batch, so that all wait.
    pub fn wait(&mut self, ask: impl Fn(usize) -> String) {
        let all = as_i64(self.size());
        for number in 0..self.size() {
            self.batch.say(number, &ask(number));
        }
        self.client.until_waiting(all);
    }

    /// The batch does not read meanwhile: a wake-up for each of thousands of answers would take the machine's
    /// processors, and the server's time with them. Clients that are not served in time are found afterwards.
    fn sleep_until_none_wait(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let others = self.other_waiters;
        while Instant::now() < deadline && self.client.is_served() && self.client.figure("waiters") > others {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn storm(&self, name: &str) -> Storm {
        self.storm_of(&format!("{} clients", self.size()), name)
    }

    /// A storm of something else than the batch's clients.
    pub fn storm_of(&self, whom: &str, name: &str) -> Storm {
        let what = format!("{name} [{}], {whom}", self.setting);
        Storm { what, slowness: Slowness::of(&self.server), bystander: Bystander::of(&self.server) }
    }

    /// The answer of each client of the batch.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.batch.answers().map(|answer| answer.expect("a storm ends when all are answered"))
    }

    pub fn assert_all_are_granted(&self) {
        for (number, answer) in self.answers().enumerate() {
            assert_eq!(answer.reply, Some(Reply::Nil), "client {number} of {}", self.size());
        }
    }
}

impl Storm {
    /// Collects the answers.
    ///
    /// # Panics
    /// If the server does not survive, or a client gets no answer.
    pub fn pass(self, scene: &mut Scene) -> Seen {
        scene.sleep_until_none_wait();
        let answered = scene.batch.collect(scene.size());
        let seen = self.calm(scene);
        let (what, silence) = (&seen.what, seen.testimony.silence);
        assert!(answered == scene.size(), "{what}: only {answered} were answered, a PING took up to {silence:?}");
        seen
    }

    /// Ends the storm, even if answers are missing.
    ///
    /// # Panics
    /// If the server does not survive.
    pub fn calm(self, scene: &mut Scene) -> Seen {
        let Self { what, slowness, bystander } = self;
        let testimony = bystander.into_testimony();
        let silence = testimony.silence;
        let (answered, health) = (scene.batch.answered(), health(&mut scene.server));
        assert!(health.is_ok(), "{what}: {health:?}, {answered} were answered, a PING took up to {silence:?}");
        let slowness = slowness.max(Slowness::of(&scene.server));
        Seen { what, testimony, slowness }
    }
}

impl Seen {
    /// How much later than `late_ms` after `due` something came, minus the time in which the server had no processor, and
    /// minus its longest silence: that has a bound of its own, and a machine that stalls shows there.
    pub fn lateness(&self, due: i64, late_ms: i64, came: i64) -> i64 {
        let Testimony { silence, wanted } = &self.testimony;
        let silence = i64::try_from(silence.as_millis()).unwrap();
        came - due - self.slowness.of_ms(late_ms) - wanted.ms_between(due, came) - silence
    }

    /// How much of `elapsed`, the time that the storm took, the server had a processor.
    pub fn with_a_processor(&self, elapsed: Duration) -> Duration {
        let without = self.testimony.wanted.ms_between(i64::MIN, i64::MAX);
        elapsed.saturating_sub(Duration::from_millis(u64::try_from(without).unwrap_or(0)))
    }

    /// Reports how long the grants took, and holds each to `late_ms`.
    pub fn report_grants(self, longest: Duration, late_ms: i64, freed: &[Freed], granted: &[i64]) {
        let each = || granted.iter().zip(freed);
        let slowest = each().map(|(granted, freed)| granted - freed.at).max().unwrap();
        let soonest = each().map(|(granted, freed)| granted - freed.at).min().unwrap();
        let latest = each().map(|(granted, freed)| self.lateness(freed.counted_from, late_ms, *granted)).max().unwrap();
        let what = self.what.clone();
        self.report(longest, &format!("slowest grant after {slowest} ms, "));
        assert!(soonest >= 0, "{what}: a lock was granted {} ms before it was free", -soonest);
        assert!(latest <= 0, "{what}: a lock was granted {latest} ms later than it may be");
    }

    /// Prints the figures, with the caller's own, and checks the longest silence.
    pub fn report(self, longest: Duration, figures: &str) {
        let Self { what, testimony: Testimony { silence, wanted }, slowness } = self;
        let without = wanted.ms_between(i64::MIN, i64::MAX);
        let (silent_ms, slow) = (silence.as_millis(), slowness.0);
        println!(
            "{what}: {figures}longest PING {silent_ms} ms; without a processor for {without} ms; slow by {slow:.1}"
        );
        assert!(silence <= slowness.times(longest), "{what}: the server was silent for {silence:?}");
    }
}

/// What is wrong with the server, if anything.
fn health(server: &mut Server) -> Result<(), &'static str> {
    let answers = Client::connect(&server.socket()).is_ok_and(|mut client| client.is_served());
    let log = server.log();
    if log.contains("BUG REPORT") {
        Err("it has crashed")
    } else if !server.is_running() {
        Err("it has died")
    } else if !answers {
        Err("it does not answer")
    } else if log.contains("internal error in rlock") {
        Err("its log tells of a defect")
    } else {
        Ok(())
    }
}
