//! Every fence of every page is run here, and compared with what the page says; or the page says that it is not run.
//!
//! | fence | what happens |
//! |---|---|
//! | `sh` | its lines run on a fresh server; a comment that begins with a reply, as `# 1: released`, has to be the reply |
//! | `sh only-parsed` | needs root, a network or another system: a shell parses it |
//! | `text` | a conversation with redis-cli; of numbers with four digits or more only the length counts |
//! | `sh NAME`, `conf NAME` | `sets.rs` and `walks.rs` use it, on the servers that the page describes |
//! | LANGUAGE `only-shown` | nothing runs it |
//!
//! A comment `snippet: FILE NAME` or `tested: FILE` above a fence names the test that runs it.

pub mod hosts;
pub mod sets;

use crate::support::{Ended, Place, program, run, start, url};
use crate::walks;
use rlock_testing::{Client, Server};
use std::fs::{Permissions, read_dir, read_to_string, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const FOLDERS: [&str; 7] = ["", "docs", "docs/bench", "docs/proof", "client", "cli", "java"];

/// Their Rust is compiled with the client.
const DOCTESTED: [&str; 3] = ["README.md", "client/README.md", "docs/recipes.md"];

/// The programs that the pages run under a lock.
const PROGRAMS: &str = "build charge fetch load post publish refresh render reply report serve train transfer";

struct Fence {
    page: String,
    line: usize,
    kind: String,
    text: String,
    has_test: bool,
}

fn pages() -> Vec<PathBuf> {
    let inside = |folder: &Path| read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let clients = inside(&Path::new(ROOT).join("clients")).into_iter().filter(|it| it.is_dir());
    let folders = FOLDERS.map(|it| Path::new(ROOT).join(it)).into_iter().chain(clients);
    folders.flat_map(|it| inside(&it)).filter(|it| it.extension().is_some_and(|it| it == "md")).collect()
}

fn fences(page: &Path) -> Vec<Fence> {
    let (mut fences, mut is_open, mut above) = (Vec::<Fence>::new(), false, String::new());
    for (number, line) in read_to_string(page).unwrap().lines().enumerate() {
        let kind = line.trim_start().strip_prefix("```");
        match (kind, is_open) {
            (Some(kind), false) => fences.push(Fence {
                page: page.strip_prefix(ROOT).unwrap().display().to_string(),
                line: number + 1,
                kind: kind.to_owned(),
                text: String::new(),
                has_test: above.starts_with("<!-- snippet: ") || above.starts_with("<!-- tested: "),
            }),
            (None, true) => {
                let text = &mut fences.last_mut().unwrap().text;
                *text += line;
                text.push('\n');
            }
            _ => {}
        }
        is_open ^= kind.is_some();
        line.clone_into(&mut above);
    }
    fences
}

/// The only fence of this kind on a page.
pub fn fence(page: &str, kind: &str) -> String {
    let mut fences = fences(&Path::new(ROOT).join(page)).into_iter().filter(|it| it.kind == kind);
    let text = fences.next().unwrap_or_else(|| panic!("{page} has no fence {kind}")).text;
    assert!(fences.next().is_none(), "{page} has two fences {kind}");
    text
}

/// The commands of a fence, each on one line, with the output that the page shows.
pub fn steps(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", "");
    let split =
        |line: &str| line.split_once("  #").map(|(it, remark)| (it.trim().to_owned(), remark.trim().to_owned()));
    text.lines().map(|line| split(line).unwrap_or_else(|| (line.to_owned(), String::new()))).collect()
}

#[test]
fn every_fence_of_every_page_is_run_or_marked() {
    let mut replies = 0;
    for fence in pages().iter().flat_map(|page| fences(page)) {
        let place = format!("{}:{}", fence.page, fence.line);
        eprintln!("{place}");
        match fence.kind.split(' ').collect::<Vec<_>>()[..] {
            _ if fence.has_test => {}
            ["sh"] => replies += Ground::new().run(&fence.text),
            ["sh", "only-parsed"] => _ = run(program("sh", &["-n", "-c", &fence.text])).succeeded(),
            ["sh" | "conf", name] if walks::BLOCKS.contains(&name) || sets::BLOCKS.contains(&name) => {}
            ["text"] => converse(&fence.text),
            [_, "only-shown"] => {}
            ["rust" | "rust,no_run"] if DOCTESTED.contains(&fence.page.as_str()) => {}
            _ => panic!("{place}: nothing runs this fence, and it is not marked: {}", fence.kind),
        }
    }
    assert!(replies > 15, "{replies} replies were compared");
    let dashboard = read_to_string(format!("{ROOT}/docs/monitoring/grafana-dashboard.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
}

/// What a reader of a page has: a server on which a lock is stuck, and a directory with programs.
struct Ground {
    server: Server,
    place: Place,
    /// Two waiters, two clients that listen for releases, and one with a session.
    _clients: Vec<Client>,
    /// Ids that the pages name, and their actual values.
    ids: Vec<(&'static str, i64)>,
}

impl Ground {
    fn new() -> Self {
        let prepared = Server::prepare();
        let configuration = prepared.directory().join("redis.conf");
        write(&configuration, "").unwrap();
        let server = prepared.configuration(&configuration).start();
        let place = Place::new();
        for name in PROGRAMS.split(' ') {
            write(place.file(name), "#!/bin/sh\necho ran $RLOCK_KEY >>ran\n").unwrap();
            std::fs::set_permissions(place.file(name), Permissions::from_mode(0o755)).unwrap();
        }
        symlink(Path::new(ROOT).join("docs"), place.file("docs")).unwrap();
        let mut client = server.client();
        client.say("RLOCK.ACQUIRE orders:42 worker-7 600000 FENCED");
        let (mut clients, mut ids) = (Vec::new(), Vec::new());
        for number in [8, 9] {
            let mut waiter = server.client();
            ids.push(("812", waiter.say("CLIENT ID").as_int()));
            waiter.send(&["RLOCK.ACQUIRE", "orders:42", &format!("worker-{number}"), "600000", "WAIT", "0"]);
            client.until_waiting(number - 7);
            clients.push(waiter);
        }
        for channel in ["redisson_lock__channel", "redisson_rwlock"] {
            clients.push(server.client());
            clients.last_mut().unwrap().say(&format!("SUBSCRIBE {channel}:{{orders:42}}"));
        }
        client.say("RLOCK.EVENTS the-session-of-orders TTL 600000");
        ids.push(("4711", client.say("RLOCK.SESSIONS").as_list()[0].as_list()[1].as_int()));
        clients.push(client);
        Self { server, place, _clients: clients, ids }
    }

    /// A line with this machine's values. Each id of the page maps to an actual one.
    fn here(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        if let Some(at) = self.ids.iter().position(|(id, _)| line.contains(&format!(" {id}"))) {
            let (id, here) = self.ids.remove(at);
            line = line.replace(id, &here.to_string());
        }
        let socket = self.server.socket().display().to_string();
        line = line.replace("redis-cli ", &format!("redis-cli -e -s {socket} "));
        line.replace("-p 6379", &format!("-s {socket}")).replace("/usr/local/bin/", "./")
    }

    fn shell(&self, script: &str) -> Ended {
        let bin = Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap().display().to_string();
        let mut command = program("sh", &["-euc", script]);
        let path = format!("{}:{bin}:{}", self.place.path().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("RLOCK_URL", url(&self.server)).env("TMPDIR", self.place.path());
        run(self.place.of(command))
    }

    /// Runs the lines and compares the replies on the page. None may fail. Returns their number.
    fn run(&mut self, text: &str) -> usize {
        let steps = steps(text);
        let script: String = steps.iter().map(|(line, _)| format!("{}\nprintf '\\0'\n", self.here(line))).collect();
        let ended = self.shell(&script);
        let outputs = ended.succeeded().split('\0');
        let mut replies = 0;
        for ((line, remark), output) in steps.iter().zip(outputs) {
            let expected = remark.split([':', ',']).next().unwrap_or_default();
            if expected == "nil" || expected.parse::<i64>().is_ok() {
                let expected = if expected == "nil" { "" } else { expected };
                assert_eq!(output.lines().next(), Some(expected), "{line}: {ended:?}");
                replies += 1;
            }
        }
        let ran = self.place.lines("ran").len();
        let wanted: usize =
            ["rlock run ", "rlock once ", "rlock adopt "].map(|it| text.matches(it).count()).iter().sum();
        assert!(ran >= wanted, "{ran} programs ran of: {text}");
        replies
    }
}

/// While a token is kept no second one is fetched, and a failure leaves none; a report is made by one host.
#[test]
fn a_recipe_for_work_that_is_done_once_does_it_once() {
    for program in ["./refresh", "./report"] {
        let mut fences = fences(&Path::new(ROOT).join("docs/recipes.md")).into_iter();
        let recipe = fences.find(|it| it.kind == "sh" && it.text.contains(program)).unwrap().text;
        let mut ground = Ground::new();
        for _ in 0..2 {
            ground.run(&recipe);
            assert_eq!(ground.place.lines("ran").len(), 1, "{recipe}");
        }
        if program == "./refresh" {
            ground.shell("rlock once token:shop --forget").succeeded();
            ground.shell("cp refresh good; printf '#!/bin/sh\\nexit 7\\n' >refresh").succeeded();
            assert_eq!([ground.shell(&recipe).code(), ground.shell(&recipe).code()], [7, 7]);
            ground.shell("cp good refresh").succeeded();
            ground.run(&recipe);
            assert_eq!(ground.place.lines("ran").len(), 2);
        }
    }
}

/// A line with only the length of its numbers.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for piece in line.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = piece.chars().take_while(char::is_ascii_digit).count();
        let number = &piece[..digits];
        shape += &if digits < 4 { number.to_owned() } else { "#".repeat(digits) };
        shape += &piece[digits..];
    }
    shape
}

/// A line without the remark behind a gap.
fn without_remark(line: &str) -> &str {
    line.trim().split("   ").next().unwrap_or_default().trim_end()
}

/// Sends the lines after `>`; the other lines are the replies. A waiter is granted a lock that another client had.
fn converse(text: &str) {
    let server = Server::start();
    let place = Place::new();
    let mut client = server.client();
    let lines = || text.lines().filter(|line| !line.starts_with("$ "));
    let commands = lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{}\n", without_remark(line)));
    write(place.file("commands"), commands.collect::<String>()).unwrap();
    let mut command = program("redis-cli", &["--no-raw", "-s", &server.socket().display().to_string()]);
    command.stdin(std::fs::File::open(place.file("commands")).unwrap());
    let waits = text.contains(" SESSION ");
    if waits {
        client.say("RLOCK.ACQUIRE orders:42 worker-7 600000");
    }
    let talk = start(command);
    if waits {
        client.until_waiting(1);
        client.say("RLOCK.RELEASE orders:42 worker-7");
    }
    let replies: Vec<_> = talk.end().succeeded().lines().map(|line| shape(line.trim())).collect();
    let shown: Vec<_> =
        lines().filter(|line| !line.starts_with("> ")).map(|line| shape(without_remark(line))).collect();
    assert_eq!(replies, shown, "{text}");
}
