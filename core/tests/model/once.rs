//! ONCE and ANSWER by their words, on a server in memory: which caller leads, which one gets the answer, and when.

use crate::scene::Scene;
use crate::{Told, config};
use proptest::prelude::*;
use rlock_core::waiting::{Engine, LockName, Note};
use rlock_sim::Plain;
use std::collections::BTreeMap;

const ANSWER: &[u8] = b"rlock_answer:{k}";
const SESSION: &str = "session-of-16-bytes";

fn stored(scene: &Scene) -> Option<Vec<u8>> {
    let keyspace = scene.node.host.keyspace.borrow();
    keyspace.answer(0, b"k").unwrap().map(|(value, _)| value.to_vec())
}

#[test]
fn one_leads_and_all_get_its_answer_at_once() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1", "the leader leads again");
    assert_eq!(scene.say(2, "ONCE k bob 1000"), ":1000");
    assert_eq!(scene.say(2, "ONCE k bob 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(3, "ACQUIRE k cid 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(4, "ONCE k dan 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(1, "ANSWER k ann 42 KEEP 500"), ":1");
    assert_eq!([2, 3, 4].map(|id| scene.heard(id)), ["$2 42", "$-1", "$2 42"]);
    // The next in the queue has the lock, and a newcomer gets the answer all the same.
    assert_eq!(scene.say(5, "ONCE k eva 1000 WAIT 0"), "$2 42");
    assert_eq!(scene.say(3, "RELEASE k cid"), ":1");
    assert_eq!(scene.say(1, "ANSWER k ann 43 KEEP 500"), "$-1", "it leads no more");
    scene.advance(501);
    assert_eq!((stored(&scene), scene.say(5, "ONCE k eva 1000")), (None, "$-1".to_owned()));
}

#[test]
fn without_an_answer_the_next_caller_leads() {
    for end in ["RELEASE k ann", "BREAK k", "the lease"] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
        assert_eq!(scene.say(2, "ONCE k bob 2000 WAIT 0"), "waits");
        assert_eq!(scene.say(3, "ONCE k cid 2000 WAIT 0"), "waits");
        match end {
            "the lease" => scene.advance(1_001),
            command => assert_eq!(scene.say(9, command), ":1"),
        }
        assert_eq!([2, 3].map(|id| scene.heard(id)), ["$-1", ""], "{end}");
        assert_eq!(scene.say(1, "ANSWER k ann late KEEP 500"), "$-1");
        assert_eq!(scene.say(2, "ANSWER k bob good KEEP 500"), ":1");
        assert_eq!(scene.heard(3), "$4 good");
    }
}

#[test]
fn an_answer_reaches_every_place_even_after_it_has_expired() {
    let mut scene = Scene::new();
    scene.node.host.turn.set(2);
    scene.advance(0);
    assert_eq!(scene.say(1, "ONCE k ann 100000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 100000 WAIT 0"), "waits");
    (3..=9).for_each(|id| assert_eq!(scene.say(id, &format!("ONCE k h{id} 100000 WAIT 0")), "waits"));
    assert_eq!(scene.say_only(1, "ANSWER k ann 42 KEEP 1"), ":1");
    // Several turns pass: the server is slow, the answer ends, and the plain waiter is in front of all callers.
    for _ in 0..20 {
        scene.advance(5);
    }
    assert_eq!((stored(&scene), scene.heard(2)), (None, "$-1".to_owned()));
    (3..=9).for_each(|id| assert_eq!(scene.heard(id), "$2 42"));
    assert_eq!(scene.node.engine.length(), 0);
    assert_eq!(scene.say(2, "RELEASE k bob"), ":1");
    assert!(scene.node.engine.is_clean());
}

#[test]
fn a_caller_after_the_answer_waits_for_the_next() {
    let mut scene = Scene::new();
    scene.node.host.turn.set(1);
    scene.advance(0);
    assert_eq!(scene.say(1, "ONCE k ann 100000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 100000 WAIT 0"), "waits");
    assert_eq!(scene.say(3, "ONCE k cid 100000 WAIT 0"), "waits");
    assert_eq!(scene.say_only(1, "ANSWER k ann 42 KEEP 1"), ":1");
    scene.run_plain(Plain::Del { key: ANSWER });
    assert_eq!(scene.say_only(4, "ONCE k dan 100000 WAIT 0"), "waits");
    (0..9).for_each(|_| scene.advance(1));
    assert_eq!([2, 3, 4].map(|id| scene.heard(id)), ["$-1", "$2 42", ""]);
    assert_eq!(scene.say(2, "RELEASE k bob"), ":1");
    (0..9).for_each(|_| scene.advance(1));
    assert_eq!(scene.heard(4), "$-1");
}

#[test]
fn by_ticket_the_event_says_that_there_is_an_answer() {
    let mut scene = Scene::new();
    let [one, two] = ["7", "8"].map(|ticket| format!("ONCE k bob{ticket} 1000 WAIT 0 SESSION {SESSION} {ticket}"));
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION} ACK 0")), "*0");
    assert_eq!([&one, &one, &two].map(|once| scene.say(2, once)), ["+WAITING", "+WAITING", "+WAITING"]);
    let as_acquire = one.replace("ONCE", "ACQUIRE");
    assert!(scene.say(2, &as_acquire).starts_with("-ERR ticket is in use"), "another command");
    assert_eq!(scene.say(2, &format!("CANCEL {SESSION} 8")), "*1 :1");
    assert_eq!(scene.say(1, "ANSWER k ann 42 KEEP 500"), ":1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION} ACK 0")), "*1 *4 :1 $1 7 $8 answered $-1");
    assert_eq!(scene.say(2, &one), "$2 42");
    assert_eq!(scene.say(2, &format!("CANCEL {SESSION} 7")), "*1 :1", "it was granted nothing");
}

/// An unattended ticket is granted nothing, and gets the event of an answer when it is attended again.
#[test]
fn an_unattended_ticket_gets_the_answer_too() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 100000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION} ACK 0")), "*0");
    assert_eq!(scene.say(2, &format!("ONCE k bob 1000 WAIT 0 SESSION {SESSION} 7")), "+WAITING");
    assert_eq!(scene.say(3, "ONCE k cid 1000 WAIT 0"), "waits");
    scene.advance(1_001);
    assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
    assert_eq!(scene.heard(3), "$-1", "the ticket is passed over");
    assert_eq!(scene.say(3, "ANSWER k cid 42 KEEP 500"), ":1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION} ACK 0")), "*1 *4 :1 $1 7 $8 answered $-1");
}

#[test]
fn at_its_deadline_a_caller_gets_an_answer_that_others_have_stored() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ONCE k bob 1000 WAIT 100"), "waits");
    assert_eq!(scene.say(3, "ONCE k cid 1000 WAIT 200"), "waits");
    scene.advance(100);
    assert_eq!(scene.heard(2), ":900");
    let at = Some(scene.now + 10_000);
    scene.run_plain(Plain::Set { key: ANSWER, value: b"copied", at });
    scene.advance(100);
    assert_eq!(scene.heard(3), "$6 copied");
}

/// The answer comes instead of the lead, also if something else than ANSWER has stored it.
#[test]
fn a_stored_answer_comes_before_a_lead() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ONCE k bob 1000 WAIT 0"), "waits");
    scene.run_plain(Plain::Set { key: ANSWER, value: b"copied", at: None });
    assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
    assert_eq!(scene.heard(2), "$6 copied");
    assert_eq!(scene.node.host.keyspace.borrow().get(0, b"k"), None, "no caller leads");
}

#[test]
fn a_grace_gives_answers_and_no_lead() {
    let mut scene = Scene::new();
    scene.node.host.grace_ms.set(10_000);
    assert_eq!(scene.say(1, "ONCE k ann 10000"), "$-1");
    assert_eq!(scene.say(1, "ANSWER k ann 42 KEEP 15000"), ":1");
    scene.node.engine.note(Note::RoleChanged { is_replica: true });
    scene.node.engine.note(Note::RoleChanged { is_replica: false });
    assert_eq!(scene.say(2, "ONCE k bob 1000 WAIT 0"), "$2 42");
    assert_eq!(scene.say(2, "ONCE other bob 1000"), ":10000");
    assert_eq!(scene.say(2, "ONCE other bob 1000 WAIT 0"), "waits");
    scene.advance(10_000);
    scene.advance(1);
    assert_eq!(scene.heard(2), "$-1");
}

#[test]
fn what_cannot_be_an_answer_changes_nothing() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    let before = scene.node.host.keyspace.borrow().clone();
    let long = "x".repeat(64 * 1024 + 1);
    assert!(scene.say(1, &format!("ANSWER k ann {long} KEEP 500")).starts_with("-ERR value is longer"));
    assert!(scene.say(1, "ANSWER k ann 42 KEEP 0").starts_with("-ERR KEEP"));
    assert!(scene.say(1, &format!("ANSWER k ann 42 KEEP {}", i64::MAX)).starts_with("-ERR KEEP"));
    assert!(scene.say(1, "ANSWER k ann 42").starts_with("-ERR wrong number"));
    assert!(*scene.node.host.keyspace.borrow() == before);
    scene.run_plain(Plain::HSet { key: ANSWER, field: b"f", value: b"v" });
    assert!(scene.say(1, "ANSWER k ann 42 KEEP 500").starts_with("-WRONGTYPE"));
    assert!(scene.say(2, "ONCE k bob 500").starts_with("-WRONGTYPE"));
    assert_eq!(scene.say(3, "WACQUIRE w ann 1000"), "$-1");
    assert!(scene.say(3, "ANSWER w ann 42 KEEP 500").starts_with("-WRONGKIND"));
    assert!(scene.say(3, "ONCE w ann 1000").starts_with("-WRONGKIND"));
}

#[test]
fn the_longest_answer_is_stored() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ONCE k ann 1000"), "$-1");
    assert_eq!(scene.say(1, &format!("ANSWER k ann {} KEEP 500", "x".repeat(64 * 1024))), ":1");
}

/// One answer for more waiters than one turn serves: the engine keeps it once, and only until the last of them has it.
#[test]
fn an_answer_under_way_is_kept_once_and_forgotten() {
    let mut scene = Scene::new();
    scene.node.host.turn.set(3);
    scene.advance(0);
    assert_eq!(scene.say(1, "ONCE k ann 100000"), "$-1");
    (2..=9).for_each(|id| assert_eq!(scene.say(id, &format!("ONCE k h{id} 100000 WAIT 0")), "waits"));
    assert_eq!(scene.say_only(1, "ANSWER k ann 42 KEEP 1"), ":1");
    assert!(scene.node.wakes_at().is_some_and(|at| at <= scene.now), "the rest follows in the next turn");
    (0..9).for_each(|_| scene.advance(1));
    (2..=9).for_each(|id| assert_eq!(scene.heard(id), "$2 42"));
    assert!(Engine::is_clean(&scene.node.engine));
}

/// What a history of callers consists of; each client is a holder of its own.
#[derive(Clone, Copy, Debug)]
enum Step {
    Once { id: u64, wait: Option<i64> },
    AcquireAndWait { id: u64 },
    Answer { id: u64, keep: i64 },
    Release { id: u64 },
    Break,
    AnswerGoes,
    Advance { ms: i64 },
    Turn(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1..7_u64;
    prop_oneof![
        6 => (id.clone(), prop::option::weighted(0.8, prop_oneof![Just(0), 1..30_i64]))
            .prop_map(|(id, wait)| Step::Once { id, wait }),
        2 => id.clone().prop_map(|id| Step::AcquireAndWait { id }),
        4 => (id.clone(), 1..20_i64).prop_map(|(id, keep)| Step::Answer { id, keep }),
        2 => id.prop_map(|id| Step::Release { id }),
        1 => Just(Step::Break),
        2 => Just(Step::AnswerGoes),
        6 => (0..12_i64).prop_map(|ms| Step::Advance { ms }),
        1 => prop_oneof![1..4_u32, Just(100)].prop_map(Step::Turn),
    ]
}

/// Callers, and what each may be answered. The value of each answer is its number.
struct Callers {
    scene: Scene,
    answers: usize,
    /// Of each caller that waits by ONCE: how many answers there were when it came, and whether one was stored since.
    waiting: BTreeMap<u64, (usize, bool)>,
}

impl Callers {
    fn is_blocked(&self, id: u64) -> bool {
        self.scene.node.host.waits.borrow().contains_key(&id)
    }

    /// The callers that are in the queue. Others may have a reply that is still to be delivered.
    fn queue(&self) -> Vec<u64> {
        let queue = self.scene.node.engine.queue(LockName { database: 0, key: b"k" }, self.scene.now);
        let number = |holder: &[u8]| String::from_utf8_lossy(&holder[1..]).parse().unwrap();
        queue.map(|waiter| number(waiter.wish.holder.holder())).collect()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Once { id, wait } if !self.is_blocked(id) => self.ask(id, wait),
            Step::AcquireAndWait { id } if !self.is_blocked(id) => {
                self.scene.say_only(id, &format!("ACQUIRE k h{id} 40 WAIT 0"));
            }
            Step::Answer { id, keep } if !self.is_blocked(id) => {
                let queue = self.queue();
                let said = self.scene.say_only(id, &format!("ANSWER k h{id} {} KEEP {keep}", self.answers));
                if said == ":1" {
                    self.answers += 1;
                    let still_wait = self.waiting.iter_mut().filter(|(id, _)| queue.contains(id));
                    still_wait.for_each(|(_, (_, is_owed))| *is_owed = true);
                }
            }
            Step::Release { id } if !self.is_blocked(id) => _ = self.scene.say_only(id, &format!("RELEASE k h{id}")),
            Step::Break => _ = self.scene.say_only(9, "BREAK k"),
            Step::AnswerGoes => _ = self.scene.node.host.keyspace.borrow_mut().run(0, Plain::Del { key: ANSWER }),
            Step::Advance { ms } => self.scene.advance(ms),
            Step::Turn(turn) => self.scene.node.host.turn.set(turn),
            _ => {}
        }
        self.hear();
    }

    fn ask(&mut self, id: u64, wait: Option<i64>) {
        let stored = stored(&self.scene);
        let wait = wait.map_or(String::new(), |ms| format!(" WAIT {ms}"));
        let said = self.scene.say_only(id, &format!("ONCE k h{id} 40{wait}"));
        match stored {
            Some(value) => assert!(said.ends_with(&*String::from_utf8(value).unwrap()), "the stored answer: {said}"),
            None => assert!(["$-1", "waits"].contains(&&*said) || said.starts_with(':'), "no answer: {said}"),
        }
        if said == "waits" {
            self.waiting.insert(id, (self.answers, false));
        }
    }

    /// A caller gets no answer from before it came. If one was stored since, it gets an answer.
    fn hear(&mut self) {
        for id in 1..7 {
            let heard = self.scene.heard(id);
            if heard.is_empty() {
                continue;
            }
            let Some((since, is_owed)) = self.waiting.remove(&id) else { continue };
            match heard.strip_prefix('$').and_then(|bulk| bulk.split_once(' ')) {
                Some((_, value)) => assert!((since..self.answers).contains(&value.parse().unwrap()), "{id}: {heard}"),
                None => assert!(!is_owed, "{id} was to get an answer: {heard}"),
            }
        }
    }
}

fn check_callers(history: &[Step]) {
    let steps: Vec<_> = history.iter().collect();
    let told = Told(&steps);
    let mut callers = Callers { scene: Scene::new(), answers: 0, waiting: BTreeMap::new() };
    history.iter().for_each(|step| callers.take(*step));
    callers.take(Step::Turn(100));
    for _ in 0..20 {
        callers.take(Step::Break);
        callers.take(Step::Advance { ms: 1 });
    }
    assert_eq!(callers.waiting.len(), 0, "every caller is answered");
    callers.take(Step::Advance { ms: 2_000 });
    assert!(callers.scene.node.engine.is_clean());
    drop(told);
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn every_caller_gets_an_answer_that_came_after_it(history in prop::collection::vec(step(), 1..80)) {
        check_callers(&history);
    }
}
