//! A thousand callers need one answer, which the first of them makes: the wait for it, and what it costs the server.
//!
//! All callers are tasks of one thread, for all contenders alike. They all wait before the answer is stored, so only the
//! way from the leader to the callers is measured.

use crate::Part;
use crate::by_clock::words;
use crate::figures::Figures;
use crate::line::{Line, packed};
use crate::plan::Plan;
use crate::row::Row;
use crate::servers::{self, Module};
use crate::session;
use rlock_testing::{Client, Server, make_room_for};
use std::cell::Cell;
use std::fs::read_to_string;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

pub const PART: Part = Part {
    name: "once",
    how: "A thousand callers, each with a connection, ask for one answer of 1 KiB while its leader works for half a second. \
              *pub/sub*, the best way by hand: SET NX PX takes the lead, all others are subscribed before they look once for \
              a result, and the result is the message. *polling*: all others look every 100 ms. *The last caller*: from the \
              moment when the leader sends its answer. Commands and CPU are the server's, from the first caller to the \
              last answer.",
    measure,
    rows,
};

const CALLERS: usize = 1_000;
const WORK: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(100);
const KEEP: &str = "60000";

/// How an answer gets from the leader to the other callers.
struct Way {
    id: &'static str,
    module: Module,
    /// What the leader sends first, and with its answer.
    leads: fn(value: &str) -> [Vec<Vec<String>>; 2],
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Blocked,
    Subscribed,
    Polling,
}

const WAYS: [Way; 3] = [
    Way {
        id: "rlock",
        module: Module::Rlock,
        leads: |value| {
            let answer = words(["RLOCK.ANSWER", "answer", "leader", value, "KEEP", KEEP]);
            [vec![words(["RLOCK.ONCE", "answer", "leader", "30000"])], vec![answer]]
        },
        how: How::Blocked,
    },
    Way { id: "pubsub", module: Module::None, leads: by_hand, how: How::Subscribed },
    Way { id: "polling", module: Module::None, leads: by_hand, how: How::Polling },
];

fn by_hand(value: &str) -> [Vec<Vec<String>>; 2] {
    let answer = [
        words(["MULTI"]),
        words(["SET", "answer", value, "PX", KEEP]),
        words(["DEL", "answer:lock"]),
        words(["PUBLISH", "answered", value]),
        words(["EXEC"]),
    ];
    [vec![words(["SET", "answer:lock", "leader", "NX", "PX", "30000"])], answer.into()]
}

/// What the callers of one turn share.
struct Turn {
    socket: PathBuf,
    value: String,
    waiting: Cell<usize>,
    /// When the last caller had the answer, and how many have it.
    answered: Cell<(Option<Instant>, usize)>,
}

fn measure(plan: &Plan, figures: &mut Figures) {
    make_room_for(2 * CALLERS).unwrap_or_else(|reason| panic!("{reason}"));
    for _ in 0..plan.rounds {
        for way in &WAYS {
            play(way, figures);
        }
    }
}

fn play(way: &'static Way, figures: &mut Figures) {
    let server = servers::start(way.module);
    let (mut leader, mut watch) = (server.client(), server.client());
    let value = "x".repeat(1_024);
    let [begin, answer] = (way.leads)(&value);
    send(&mut leader, &begin);
    let (waiting, answered) = Default::default();
    let turn = Rc::new(Turn { socket: server.socket(), value, waiting, answered });
    let (commands, cpu) = (commands(&mut watch), cpu(&server));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let all = LocalSet::new();
    let entered = all.enter();
    let callers: Vec<_> = (0..CALLERS).map(|caller| spawn_local(call(way, Rc::clone(&turn), caller))).collect();
    drop(entered);
    let answered_at = all.block_on(&runtime, async {
        all_wait(way, &mut watch, &turn).await;
        tokio::time::sleep(WORK).await;
        let now = Instant::now();
        answer.iter().for_each(|command| leader.send(command));
        for caller in callers {
            caller.await.expect("a caller gets its answer");
        }
        now
    });
    let (last, count) = turn.answered.get();
    assert_eq!(count, CALLERS, "every caller has the answer");
    let waited = last.expect("it has come").duration_since(answered_at);
    figures.add(&format!("once.last.{}", way.id), "ms", 1_000.0 * waited.as_secs_f64());
    figures.add(&format!("once.commands.{}", way.id), "commands", self::commands(&mut watch) - commands);
    figures.add(&format!("once.cpu.{}", way.id), "ms of CPU", self::cpu(&server) - cpu);
}

fn send(client: &mut Client, commands: &[Vec<String>]) {
    for command in commands {
        client.run(command);
    }
}

async fn all_wait(way: &Way, watch: &mut Client, turn: &Turn) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut waiting = || match way.how {
        How::Blocked => usize::try_from(watch.figure("waiters")).expect("a count"),
        How::Subscribed | How::Polling => turn.waiting.get(),
    };
    while waiting() < CALLERS {
        assert!(Instant::now() < deadline, "not all callers begin to wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn call(way: &Way, turn: Rc<Turn>, caller: usize) {
    let mut line = Line::connect(&turn.socket).await;
    match way.how {
        How::Blocked => {
            line.send(&packed(&["RLOCK.ONCE", "answer", &session::holder(caller), "30000", "WAIT", "0"])).await;
            assert!(line.next().await.starts_with("$1024"));
        }
        How::Subscribed => {
            let mut messages = Line::subscribed(&turn.socket, "answered").await;
            try_by_hand(&mut line, caller).await;
            turn.waiting.set(turn.waiting.get() + 1);
            // A message has its kind, its channel and the value.
            messages.skip(6).await;
            line = messages;
        }
        How::Polling => {
            try_by_hand(&mut line, caller).await;
            turn.waiting.set(turn.waiting.get() + 1);
            let look = packed(&["GET", "answer"]);
            loop {
                tokio::time::sleep(POLL).await;
                line.send(&look).await;
                if !line.next().await.starts_with("$-1") {
                    break;
                }
            }
        }
    }
    assert_eq!(line.next().await.trim_end(), turn.value);
    turn.answered.set((Some(Instant::now()), turn.answered.get().1 + 1));
}

/// Tries to take the lead, and looks for a result. While another caller works, it gets neither.
async fn try_by_hand(line: &mut Line, caller: usize) {
    line.send(&packed(&["SET", "answer:lock", &session::holder(caller), "NX", "PX", "30000"])).await;
    line.skip(1).await;
    line.send(&packed(&["GET", "answer"])).await;
    line.skip(1).await;
}

fn commands(watch: &mut Client) -> f64 {
    watch.info("stats").number("total_commands_processed") as f64
}

/// The ms of processor time that the server has used.
fn cpu(server: &Server) -> f64 {
    let statistics = read_to_string(format!("/proc/{}/schedstat", server.id())).unwrap_or_default();
    let on_cpu_ns = statistics.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default();
    on_cpu_ns / 1e6
}

fn rows(_: &Plan) -> Vec<Row> {
    let measured = [("last", "the last of 1,000 callers has the answer"), ("commands", "… commands"), ("cpu", "… CPU")];
    let ids = |what: &str| WAYS.map(|way| format!("once.{what}.{}", way.id));
    let of = |(what, text): (&str, &str)| {
        let [ours, pubsub, polling] = ids(what);
        [Row::compare(text, &ours, "pub/sub", &pubsub), Row::compare(text, &ours, "polling", &polling)]
    };
    measured.into_iter().flat_map(of).collect()
}
