//! A server in memory with a few clients, by the words of their commands.

use rlock_core::lock::UnixMs;
use rlock_sim::resp::Replies;
use rlock_sim::{Done, Node, Plain};

pub struct Scene {
    pub node: Node,
    pub now: UnixMs,
}

impl Scene {
    pub fn new() -> Self {
        let mut scene = Self { node: Node::default(), now: 1_000_000 };
        (1..=30).for_each(|id| scene.node.open(id, format!("client:{id}"), Some(b"default".to_vec())));
        scene.advance(0);
        scene
    }

    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        self.node.set_clocks(self.now * 1_000, self.now);
        self.node.follow_up();
        assert_eq!(self.node.engine.fault(), None);
    }

    /// Runs a command, given without its prefix. Returns the reply in one line, or `waits`.
    pub fn say(&mut self, id: u64, command: &str) -> String {
        let said = self.say_only(id, command);
        self.node.follow_up();
        assert_eq!(self.node.engine.fault(), None);
        said
    }

    /// The same, without the turns that follow.
    pub fn say_only(&mut self, id: u64, command: &str) -> String {
        let words: Vec<_> = format!("RLOCK.{command}").split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut replies = Replies::default();
        self.node.begin(id);
        match self.node.run(id, &words, &mut replies).unwrap() {
            Done::Waits => "waits".to_owned(),
            Done::Replied => line(&replies.bytes),
        }
    }

    /// What a client that waited got since the last call.
    pub fn heard(&mut self, id: u64) -> String {
        line(&std::mem::take(&mut self.node.clients.get_mut(&id).unwrap().replies.bytes))
    }

    /// How many messages were published since the last call.
    pub fn published(&mut self) -> usize {
        self.node.host.published.take().len()
    }

    pub fn run_plain(&mut self, command: Plain<'_>) {
        assert!(self.node.host.keyspace.borrow_mut().run(0, command));
    }
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ").trim_end().to_owned()
}
