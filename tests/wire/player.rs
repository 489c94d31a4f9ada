//! A participant of a trial: a connection, everything that it is going to send, and how it behaves.

use crate::connection::{Connection, babble};
use crate::contract::Command;
use crate::hostile;
use crate::noise::{self, Hold, Limits, NARROW};
use crate::random::Random;
use rlock_testing::Server;
use rlock_testing::resp::packed;
use std::collections::VecDeque;

pub struct Player {
    pub connection: Connection,
    character: Character,
    bytes: Vec<u8>,
    /// Where each command ends in the bytes.
    ends: VecDeque<(usize, Command)>,
    at: usize,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Stays,
    /// Gone in the middle of its last command, maybe while it waits.
    HangsUp,
    /// Breaks the protocol, and gets an error.
    Babbles,
}

#[derive(Clone, Copy, PartialEq)]
enum Character {
    /// Sends anything, in either protocol, and changes between them.
    Fickle,
    /// RESP3 throughout, with messages between the replies.
    Listener,
    /// Has asked the server not to answer, or not this once.
    Silent,
    /// Gets every command of every client.
    Monitor,
}

/// What a client says that breaks the protocol.
const BABBLE: [&[u8]; 5] =
    [b"*1\r\n$x\r\n", b"*1\r\n:1\r\n", b"*9999999999\r\n", b"*1\r\n$-5\r\n", b"*2\r\n$4\r\nPING\r\n+x\r\n"];

impl Player {
    pub fn join(server: &Server, random: &mut Random) -> Self {
        let character = match random.below(10) {
            0..7 => Character::Fickle,
            7 => Character::Listener,
            8 => Character::Silent,
            _ => Character::Monitor,
        };
        let mut connection = Connection::to(server);
        if character == Character::Listener || random.is(40) {
            connection.say("HELLO 3");
        }
        if random.is(40) {
            connection.say("SELECT 1");
        }
        connection.is_counted = matches!(character, Character::Fickle | Character::Listener);
        let ending = match random.below(10) {
            0..7 => Ending::Stays,
            7..9 => Ending::HangsUp,
            _ => Ending::Babbles,
        };
        Self { connection, character, bytes: Vec::new(), ends: VecDeque::new(), at: 0, ending }
    }

    /// Everything that it might send, among clients with these ids.
    pub fn part(&self, random: &mut Random, ids: &[i64], limits: Limits) -> Vec<Command> {
        part(random, ids, limits, self.character)
    }

    /// Prepares the bytes that it is going to send.
    pub fn learn(&mut self, random: &mut Random, part: Vec<Command>) {
        for command in part {
            // A deleted user is disconnected, and a user that loses its channels may be.
            self.connection.may_be_closed |= command.starts_with(&[b"AUTH".to_vec(), b"narrow".to_vec()]);
            self.say(random, command);
            // After each command: in which database is the client now?
            self.say(random, words("CLIENT INFO"));
        }
        match self.ending {
            Ending::Stays => {}
            Ending::HangsUp => {
                let last = packed(&hostile::command(random));
                self.bytes.extend_from_slice(&last[..random.between(1, last.len() - 1)]);
            }
            Ending::Babbles => {
                self.connection.may_be_closed = true;
                self.bytes.extend_from_slice(random.one_of(&BABBLE));
                self.ends.push_back((self.bytes.len(), babble()));
            }
        }
    }

    fn say(&mut self, random: &mut Random, command: Command) {
        self.bytes.extend(if random.is(5) { inline(&command) } else { packed(&command) });
        self.ends.push_back((self.bytes.len(), command));
    }

    pub fn has_more(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// Sends some of the rest: a few bytes, or several commands, whole or not. Returns the commands that this
    /// completed.
    pub fn send_some(&mut self, random: &mut Random) -> Vec<Command> {
        let left = self.bytes.len() - self.at;
        let next = self.ends.front().map_or(left, |(end, _)| end - self.at);
        let some = match random.below(10) {
            0 => random.between(1, 20),
            1..4 => random.between(1, next),
            4..7 => next,
            _ => random.between(1, left),
        };
        // Something long is not sent byte by byte.
        let some = some.max(left / 50).min(left);
        let from = self.at;
        self.at += some;
        let mut completed = Vec::new();
        while self.ends.front().is_some_and(|(end, _)| *end <= self.at) {
            let (_, command) = self.ends.pop_front().expect("there is a first");
            self.connection.owe(command.clone());
            completed.push(command);
        }
        self.connection.send(&self.bytes[from..self.at]);
        if !self.has_more() && self.ending == Ending::HangsUp {
            self.connection.close();
        }
        completed
    }
}

/// A command as people type it, words with spaces between them, if it can be written so.
fn inline(command: &Command) -> Vec<u8> {
    let is_plain = |word: &Vec<u8>| {
        (1..1_000).contains(&word.len()) && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'*".contains(byte))
    };
    if command.iter().all(is_plain) { [command.join(&b' '), b"\r\n".to_vec()].concat() } else { packed(command) }
}

fn part(random: &mut Random, ids: &[i64], limits: Limits, character: Character) -> Vec<Command> {
    let mut commands = Vec::new();
    if character == Character::Monitor {
        commands.push(words("MONITOR"));
    }
    for _ in 0..random.between(1, 6) {
        match (character, random.below(10)) {
            (_, 0..4) => commands.extend(mixture(random, ids, limits)),
            (_, 4..6) => commands.extend(transaction(random, limits)),
            (_, 6..8) => {
                commands.push(hostile::wait(random));
                commands.extend(mixture(random, ids, limits));
            }
            (Character::Fickle, 8) => commands.push(words(random.one_of(&["HELLO 2", "HELLO 3", "HELLO 4", "RESET"]))),
            (Character::Listener, 8) => {
                let channels = ["redisson_lock__channel:{k}", "redisson_rwlock:{r}", "__keyevent@0__:del"];
                commands.push(words(&format!("SUBSCRIBE {}", random.one_of(&channels))));
            }
            (Character::Silent, 8) => {
                commands.push(words(random.one_of(&["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY ON"])));
            }
            _ => commands.extend((0..random.between(1, 3)).map(|_| hostile::script(random)).collect::<Vec<_>>()),
        }
    }
    commands
}

fn mixture(random: &mut Random, ids: &[i64], limits: Limits) -> Vec<Command> {
    let mut commands = Vec::new();
    if random.is(3) {
        // In one step, so that no AUTH is refused in between: servers do not answer each AUTH that is refused behind others.
        commands.extend(["MULTI", "ACL DELUSER narrow", NARROW, "EXEC"].map(words));
    }
    for _ in 0..random.between(1, 8) {
        commands.push(match random.below(100) {
            0..65 => hostile::command(random),
            65..85 => noise::to_keys(random, limits),
            _ => noise::to_the_server(random, ids, limits),
        });
    }
    commands
}

fn transaction(random: &mut Random, limits: Limits) -> Vec<Command> {
    let mut commands = Vec::new();
    if random.is(40) {
        commands.push(vec![b"WATCH".to_vec(), hostile::key(random), hostile::key(random)]);
        commands.push(hostile::command(random));
    }
    commands.push(words("MULTI"));
    // A server crashes if its own SET finds a key that had already expired, so only our commands follow a pause.
    let is_paused = limits.hold == Hold::Pause && random.is(30);
    if is_paused {
        commands.push(words("CLIENT PAUSE 10 WRITE"));
    }
    for _ in 0..random.between(0, 6) {
        commands.push(match random.below(10) {
            _ if is_paused => hostile::command(random),
            0..6 => hostile::command(random),
            6..9 => noise::to_keys(random, limits),
            _ => hostile::script(random),
        });
    }
    commands.push(words(if random.is(85) { "EXEC" } else { "DISCARD" }));
    commands
}

pub fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
