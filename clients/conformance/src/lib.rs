//! The suite's side of an adapter: a process that drives the client of one language, and everything that it has said so far.
//!
//! Lines are read in a thread and kept in the order in which they came, each with its time: scenarios ask what was
//! said, in which order and when, after the fact as well. A line that breaks the protocol fails the next wait, which shows
//! the line.

use rlock_testing::{PATIENCE, Signal, send_signal};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// All words for errors.
const WORDS: [&str; 16] = [
    "busy",
    "lost",
    "in-doubt",
    "unavailable",
    "too-few-replicas",
    "queue-full",
    "wrong-kind",
    "deadlock",
    "no-module",
    "old-module",
    "no-right",
    "refused",
    "configuration",
    "failed",
    "cancelled",
    "closed",
];

/// All reasons for which a lock may be lost.
const REASONS: [&str; 4] = ["not-held", "overwritten", "not-renewed", "ended"];

/// How many of the adapter's last complaints are shown when something fails.
const COMPLAINTS_SHOWN: usize = 20;

/// A line that the adapter has written.
#[derive(Clone, Debug)]
pub struct Said {
    pub what: Saying,
    /// When the line came.
    pub at: Instant,
    pub at_unix_ms: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Saying {
    Answer {
        id: u64,
        answer: Answer,
    },
    /// The work of that request has begun.
    Began {
        id: u64,
        token: Option<u64>,
    },
    /// The work of that request is over, and may begin again.
    Ended {
        id: u64,
    },
    /// The hold of that name is lost.
    Lost {
        held: String,
        reason: Option<String>,
    },
}

pub type Answer = Result<Value, Failure>;

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub word: String,
    /// Why it is lost, if it is.
    pub reason: Option<String>,
    /// The client's text.
    pub text: String,
}

/// For how long a hold was still guaranteed at some time after the question.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub asked_at_unix_ms: i64,
    pub is_lost: bool,
    pub remaining_ms: i64,
}

/// Ends its process when it is dropped. Any thread may use it.
pub struct Adapter {
    name: String,
    process: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    asked: Arc<AtomicU64>,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    all: Mutex<All>,
    more: Condvar,
}

#[derive(Default)]
struct All {
    said: Vec<Said>,
    /// Why the adapter can say nothing more.
    end: Option<String>,
    complaints: usize,
    last_complaints: VecDeque<String>,
}

impl Adapter {
    /// Starts the adapter by this command, as a shell reads it in the project's root directory. The command has to
    /// become the client's own process, since the suite freezes and kills this process.
    ///
    /// # Panics If it cannot be started.
    #[must_use]
    pub fn start(name: &str, command: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let streams = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = streams.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let (input, heard, asked) = (process.stdin.take(), Arc::<Heard>::default(), Arc::<AtomicU64>::default());
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let complaints = BufReader::new(process.stderr.take().expect("it is piped"));
        thread::spawn({
            let (heard, asked) = (Arc::clone(&heard), Arc::clone(&asked));
            move || heard.listen(output, &asked)
        });
        thread::spawn({
            let heard = Arc::clone(&heard);
            move || heard.listen_to_complaints(complaints)
        });
        Self { name: name.to_owned(), process: Mutex::new(process), input: Mutex::new(input), asked, heard }
    }

    /// Sends a request, to which this adds the number that it returns.
    ///
    /// # Panics
    /// If the adapter takes no more.
    pub fn ask(&self, mut request: Value) -> u64 {
        // Requests are sent in the order of their numbers.
        let mut input = lock(&self.input);
        let id = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        request["id"] = json!(id);
        let sent = input.as_mut().expect("its input has not ended").write_all(format!("{request}\n").as_bytes());
        sent.unwrap_or_else(|error| panic!("{} takes no more ({error}){}", self.name, lock(&self.heard.all).story()));
        id
    }

    /// The first line that `find` accepts, which may have come before.
    ///
    /// # Panics
    /// If it does not come in this time, or cannot come any more.
    pub fn until_said<T>(&self, what: &str, limit: Duration, find: impl Fn(&Said) -> Option<T>) -> T {
        self.until_heard(what, limit, |said| said.iter().find_map(&find))
    }

    /// The same, for a `find` that gets all lines so far.
    ///
    /// # Panics
    /// As [`until_said`](Self::until_said).
    pub fn until_heard<T>(&self, what: &str, limit: Duration, find: impl Fn(&[Said]) -> Option<T>) -> T {
        let deadline = Instant::now() + limit;
        let mut all = lock(&self.heard.all);
        loop {
            if let Some(found) = find(&all.said) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let end = if left.is_zero() { Some(format!("not within {limit:?}")) } else { all.end.clone() };
            if let Some(end) = end {
                let story = all.story();
                drop(all);
                panic!("{}: waited in vain until {what}: {end}{story}", self.name);
            }
            all = self.heard.more.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The answer to that request, and when it came.
    ///
    /// # Panics
    /// If it does not come in this time.
    pub fn answer_within(&self, limit: Duration, id: u64) -> (Answer, Said) {
        self.until_said(&format!("request {id} is answered"), limit, |said| match &said.what {
            Saying::Answer { id: of, answer } if *of == id => Some((answer.clone(), said.clone())),
            _ => None,
        })
    }

    /// The same, within the time that all tests wait.
    ///
    /// # Panics
    /// If it does not come.
    pub fn answer(&self, id: u64) -> Answer {
        self.answer_within(PATIENCE, id).0
    }

    /// # Panics
    /// If no answer comes.
    pub fn asks(&self, request: Value) -> Answer {
        self.answer(self.ask(request))
    }

    /// Begins to acquire a lock, to be held by that name, and returns the request's number.
    pub fn wants(&self, held: &str, mut lock: Value) -> u64 {
        lock["do"] = json!("acquire");
        lock["held"] = json!(held);
        self.ask(lock)
    }

    /// # Panics
    /// If no answer comes.
    pub fn acquire(&self, held: &str, lock: Value) -> Answer {
        self.answer(self.wants(held, lock))
    }

    /// # Panics
    /// If no answer comes.
    pub fn release(&self, held: &str) -> Answer {
        self.asks(json!({"do": "release", "held": held}))
    }

    /// # Panics
    /// If the adapter does not know the hold.
    pub fn look(&self, held: &str) -> Look {
        let asked_at_unix_ms = rlock_testing::unix_ms();
        let look = self.asks(json!({"do": "look", "held": held})).expect("it has been acquired");
        // Some languages count in fractions.
        let (is_lost, remaining_ms) = (look["lost"].as_bool(), look["remaining"].as_f64().map(|ms| ms as i64));
        let (Some(is_lost), Some(remaining_ms)) = (is_lost, remaining_ms) else { panic!("{}: {look}", self.name) };
        Look { asked_at_unix_ms, is_lost, remaining_ms }
    }

    /// All news that the work of that request began or ended, in their order.
    pub fn turns(&self, of: u64) -> Vec<Said> {
        turns(&lock(&self.heard.all).said, of)
    }

    /// Waits until the work of that request has begun or ended so many times in all.
    ///
    /// # Panics
    /// If that does not happen in this time.
    pub fn until_turned(&self, limit: Duration, of: u64, times: usize) -> Said {
        let what = format!("the work of request {of} has begun or ended {times} times");
        let found = self.until_heard(&what, limit, |said| {
            let turn = turns(said, of).get(times.checked_sub(1)?).cloned();
            // After the answer to a request there is no more news of it.
            let answer = || said.iter().find(|it| matches!(it.what, Saying::Answer { id, .. } if id == of)).cloned();
            turn.map(Ok).or_else(|| answer().map(Err))
        });
        found.unwrap_or_else(|answer| panic!("{}: in vain until {what}: {answer:?}", self.name))
    }

    /// Waits until the adapter reports the loss of that hold.
    ///
    /// # Panics
    /// If it does not.
    pub fn until_lost(&self, held: &str) -> Said {
        let is_it = |said: &Said| matches!(&said.what, Saying::Lost { held: lost, .. } if lost == held);
        self.until_said(&format!("{held} is lost"), PATIENCE, |said| is_it(said).then(|| said.clone()))
    }

    /// Everything that was said so far.
    pub fn said(&self) -> Vec<Said> {
        lock(&self.heard.all).said.clone()
    }

    /// How many lines it has written to its standard error so far.
    pub fn complaints(&self) -> usize {
        lock(&self.heard.all).complaints
    }

    /// Suspends its process.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Resumes its process.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Ends its process without a warning.
    pub fn kill(&self) {
        let mut process = lock(&self.process);
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Ends its input, and returns how its process ended, if it ended in this time.
    pub fn end(&self, limit: Duration) -> Option<ExitStatus> {
        *lock(&self.input) = None;
        let deadline = Instant::now() + limit;
        loop {
            match lock(&self.process).try_wait().expect("a process of ours") {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                status => return status,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        send_signal(lock(&self.process).id(), signal).expect("its process is there");
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Heard {
    fn listen(&self, output: impl BufRead, asked: &AtomicU64) {
        let mut end = "its output has ended".to_owned();
        for line in output.lines() {
            let (at, at_unix_ms) = (Instant::now(), rlock_testing::unix_ms());
            let mut all = lock(&self.all);
            let read = line.map_err(|error| error.to_string()).and_then(|line| {
                let what = understood(&line).and_then(|what| all.check(what, asked.load(Ordering::SeqCst)));
                what.map_err(|wrong| format!("it breaks the protocol ({wrong}): {line}"))
            });
            match read {
                Ok(what) => all.said.push(Said { what, at, at_unix_ms }),
                Err(wrong) => {
                    end = wrong;
                    break;
                }
            }
            self.more.notify_all();
        }
        lock(&self.all).end = Some(end);
        self.more.notify_all();
    }

    fn listen_to_complaints(&self, complaints: impl BufRead) {
        for line in complaints.lines().map_while(Result::ok) {
            let mut all = lock(&self.all);
            all.complaints += 1;
            all.last_complaints.push_back(line);
            if all.last_complaints.len() > COMPLAINTS_SHOWN {
                all.last_complaints.pop_front();
            }
        }
    }
}

impl All {
    /// Checks whether the protocol allows that line now.
    fn check(&self, what: Saying, asked: u64) -> Result<Saying, &'static str> {
        let is_answered =
            |wanted| self.said.iter().any(|it| matches!(&it.what, Saying::Answer { id, .. } if *id == wanted));
        let is_lost =
            |wanted| self.said.iter().any(|it| matches!(&it.what, Saying::Lost { held, .. } if held == wanted));
        match &what {
            Saying::Answer { id, .. } | Saying::Began { id, .. } | Saying::Ended { id }
                if !(1..=asked).contains(id) =>
            {
                Err("it was not asked for")
            }
            Saying::Answer { id, .. } | Saying::Began { id, .. } | Saying::Ended { id } if is_answered(*id) => {
                Err("it is answered already")
            }
            Saying::Ended { id } if turns(&self.said, *id).len() % 2 == 0 => Err("no work has begun"),
            Saying::Began { id, .. } if turns(&self.said, *id).len() % 2 == 1 => Err("the work is under way"),
            Saying::Lost { held, .. } if is_lost(held) => Err("it is said already"),
            _ => Ok(what),
        }
    }

    fn story(&self) -> String {
        let said: Vec<_> = self.said.iter().rev().take(COMPLAINTS_SHOWN).rev().collect();
        let said: String = said.iter().map(|it| format!("\n  {} {:?}", it.at_unix_ms, it.what)).collect();
        let complaints: String = self.last_complaints.iter().map(|line| format!("\n  {line}")).collect();
        format!("\n it has said last:{said}\n its complaints:{complaints}")
    }
}

/// Each `Began` is followed by an `Ended` before the next.
fn turns(said: &[Said], of: u64) -> Vec<Said> {
    let is_turn = |it: &&Said| matches!(it.what, Saying::Began { id, .. } | Saying::Ended { id } if id == of);
    said.iter().filter(is_turn).cloned().collect()
}

fn understood(line: &str) -> Result<Saying, &'static str> {
    let line: Value = serde_json::from_str(line).map_err(|_| "it is no JSON")?;
    let (id, ok, word, text) = (line["id"].as_u64(), line.get("ok"), line["error"].as_str(), line["text"].as_str());
    let reason = line["reason"].as_str().map(str::to_owned);
    if reason.as_deref().is_some_and(|reason| !REASONS.contains(&reason)) {
        return Err("there is no such reason");
    }
    if let Some(held) = line["lost"].as_str() {
        line["why"].as_str().ok_or("it does not say why")?;
        return Ok(Saying::Lost { held: held.to_owned(), reason });
    }
    if let Some(id) = line["began"].as_u64() {
        return Ok(Saying::Began { id, token: line["token"].as_u64() });
    }
    if let Some(id) = line["ended"].as_u64() {
        return Ok(Saying::Ended { id });
    }
    let answer = match (ok, word) {
        (Some(ok), None) if ok.is_object() => Ok(ok.clone()),
        (None, Some(word)) if WORDS.contains(&word) => {
            Err(Failure { word: word.to_owned(), reason, text: text.ok_or("there is no text")?.to_owned() })
        }
        _ => return Err("it is neither news nor an answer"),
    };
    Ok(Saying::Answer { id: id.ok_or("it has no number")?, answer })
}

/// A panic of another thread that held the mutex changes nothing here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
