//! ONCE and ANSWER by their words, on a server in memory: who leads, who gets the answer, and when.

use rlock_core::lock::UnixMs;
use rlock_core::waiting::{Engine, Note};
use rlock_sim::resp::Replies;
use rlock_sim::{Done, Node, Plain};

const ANSWER: &[u8] = b"rlock_answer:{k}";
const SESSION: &str = "session-of-16-bytes";

struct Scene {
    node: Node,
    now: UnixMs,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self { node: Node::default(), now: 1_000_000 };
        (1..=9).for_each(|id| scene.node.open(id, format!("client:{id}"), Some(b"default".to_vec())));
        scene.advance(0);
        scene
    }

    fn advance(&mut self, ms: i64) {
        self.now += ms;
        self.node.set_clocks(self.now * 1_000, self.now);
        self.node.follow_up();
        assert_eq!(self.node.engine.fault(), None);
    }

    /// The command without its prefix; the reply in one line, or `waits`.
    fn say(&mut self, id: u64, command: &str) -> String {
        let said = self.say_only(id, command);
        self.node.follow_up();
        assert_eq!(self.node.engine.fault(), None);
        said
    }

    /// The same, without what follows in the turns after it.
    fn say_only(&mut self, id: u64, command: &str) -> String {
        let words: Vec<_> = format!("RLOCK.{command}").split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut replies = Replies::default();
        self.node.begin(id);
        match self.node.run(id, &words, &mut replies).unwrap() {
            Done::Waits => "waits".to_owned(),
            Done::Replied => line(&replies.bytes),
        }
    }

    /// What a client that waited got since the last call.
    fn heard(&mut self, id: u64) -> String {
        line(&std::mem::take(&mut self.node.clients.get_mut(&id).unwrap().replies.bytes))
    }

    fn stored(&self) -> Option<Vec<u8>> {
        let keyspace = self.node.host.keyspace.borrow();
        keyspace.answer(0, b"k").unwrap().map(|(value, _)| value.to_vec())
    }

    fn run_plain(&mut self, command: Plain<'_>) {
        assert!(self.node.host.keyspace.borrow_mut().run(0, command));
    }
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ").trim_end().to_owned()
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
    assert_eq!((scene.stored(), scene.say(5, "ONCE k eva 1000")), (None, "$-1".to_owned()));
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
fn an_answer_comes_at_whatever_place_and_even_if_it_is_gone_by_then() {
    let mut scene = Scene::new();
    scene.node.host.turn.set(2);
    scene.advance(0);
    assert_eq!(scene.say(1, "ONCE k ann 100000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 100000 WAIT 0"), "waits");
    (3..=9).for_each(|id| assert_eq!(scene.say(id, &format!("ONCE k h{id} 100000 WAIT 0")), "waits"));
    assert_eq!(scene.say_only(1, "ANSWER k ann 42 KEEP 1"), ":1");
    // Several turns later: a slow server, an answer that has ended, and the plain waiter in front of them all.
    for _ in 0..20 {
        scene.advance(5);
    }
    assert_eq!((scene.stored(), scene.heard(2)), (None, "$-1".to_owned()));
    (3..=9).for_each(|id| assert_eq!(scene.heard(id), "$2 42"));
    assert_eq!(scene.node.engine.length(), 0);
    assert_eq!(scene.say(2, "RELEASE k bob"), ":1");
    assert!(scene.node.engine.is_clean());
}

#[test]
fn who_came_after_the_answer_waits_for_the_next() {
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

/// An unattended ticket is granted nothing, and is told of an answer when it is attended again.
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
    assert_eq!(scene.node.host.keyspace.borrow().get(0, b"k"), None, "nobody leads");
}

#[test]
fn a_grace_gives_answers_and_lets_nobody_lead() {
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

/// One answer of 64 KiB for very many: a turn ends in between, and nothing of the engine's own grows with it.
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
