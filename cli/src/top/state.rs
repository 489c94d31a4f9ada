//! The content of the screen without its layout: pure, so that tests need neither a server nor a terminal.

use super::columns;
use super::held::Held;
use super::looks::{Aim, Look, News};
use super::rows::{self, Last, Row, Totals};
use crate::address::Address;
use crate::arguments::{Sort, Top};
use crate::operators::{HoldSide, Inspection, Unanswered};
use crate::shown;
use std::cmp::{Ordering, Reverse};
use std::time::Duration;
use tokio::time::Instant;

pub struct State {
    pub server: Address,
    pub interval: Duration,
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// The help is shown instead of everything else.
    pub help: bool,
    pub rows: Vec<Row>,
    pub totals: Totals,
    pub held: HeldView,
    pub trouble: Option<Trouble>,
    pub detail: Option<Detail>,
    pub question: Option<Question>,
    /// What became of a question, until the next key.
    pub message: Option<String>,
    /// When the server was asked, if its reply is outstanding.
    asked: Option<Instant>,
    hurry: u64,
    /// Stays with its lock when the order changes.
    selected: Option<Vec<u8>>,
    last: Option<Last>,
    /// The rows that fit on the screen, as reported by the screen.
    pub window: std::ops::Range<usize>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Move(isize),
    Sort,
    Reverse,
    Held,
    Filter,
    Type(char),
    Erase,
    Keep,
    Clear,
    Inspect,
    Break,
    Agree,
    Decline,
    Help,
    Back,
    Quit,
}

/// Whether locks without waiters are shown, and how many of them are known.
#[derive(Clone, Debug, Default)]
pub struct HeldView {
    pub wanted: bool,
    /// `None`: nothing has been seen of them yet.
    pub seen: Option<Held>,
}

/// The server does not answer, or not with what was asked for.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub since: Instant,
    pub answered: bool,
    pub words: String,
}

/// All of one lock.
#[derive(Clone, Debug)]
pub struct Detail {
    pub key: Vec<u8>,
    pub lock: Option<Inspection>,
    pub first_line: usize,
}

/// Whether to break the lock with its details on the screen.
#[derive(Clone, Debug)]
pub struct Question {
    /// The holders. Until the user has seen them, the question cannot be answered.
    pub about: Option<Vec<(Vec<u8>, HoldSide)>>,
    /// Whether the user came from the list.
    in_list: bool,
}

impl State {
    pub fn new(server: Address, args: &Top) -> Self {
        Self {
            server,
            interval: args.interval,
            sort: args.sort,
            reverse: args.reverse,
            filter: args.filter.clone(),
            typing: false,
            help: false,
            rows: Vec::new(),
            totals: Totals::default(),
            held: HeldView { wanted: args.held, seen: None },
            trouble: None,
            detail: None,
            question: None,
            message: None,
            asked: None,
            hurry: 0,
            selected: None,
            last: None,
            window: 0..0,
        }
    }

    pub fn hear(&mut self, news: News) {
        match news {
            News::Asked(at) => self.asked = Some(at),
            News::Seen(look) => self.saw(*look),
            News::Nothing(error) => self.saw_nothing(&error),
        }
    }

    /// The server is asked at this moment.
    pub fn asks(&mut self) {
        self.asked = Some(Instant::now());
    }

    pub fn saw(&mut self, look: Look) {
        (self.trouble, self.asked) = (None, None);
        if let (Some(detail), Some((key, lock))) = (&mut self.detail, &look.detail) {
            if detail.key == *key {
                detail.lock = Some(lock.clone());
                self.check_the_question();
            }
        }
        if self.held.wanted {
            self.held.seen = look.held.clone().or(self.held.seen.take());
        }
        let (rows, totals, last) = rows::read(look, self.last.as_ref());
        (self.rows, self.totals, self.last) = (rows, totals, Some(last));
    }

    /// What was seen last stays on the screen. The silence began when the server was asked, not when the query gave up.
    pub fn saw_nothing(&mut self, error: &Unanswered) {
        let began = self.asked.take().unwrap_or_else(Instant::now);
        let since = self.trouble.as_ref().map_or(began, |trouble| trouble.since);
        self.trouble = Some(Trouble { since, answered: error.is_answered(), words: shown::line(&error.reason()) });
    }

    /// How long the server has been silent while no query has failed, if that is worth showing.
    pub fn silence(&self) -> Option<Duration> {
        let silence = self.asked.filter(|_| self.trouble.is_none())?.elapsed();
        Some(silence).filter(|silence| *silence >= Duration::from_secs(1))
    }

    /// Whether a time on the screen has to be updated.
    pub fn is_waiting(&self) -> bool {
        self.asked.is_some() || self.trouble.is_some()
    }

    /// The rows that the filter leaves, in order.
    pub fn shown(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().filter(|row| shown::name(&row.key).contains(&self.filter)).collect();
        rows.sort_by(|one, other| {
            let order = self.order(one, other);
            if self.reverse { order.reverse() } else { order }
        });
        rows
    }

    /// The largest numbers come first, names alphabetically. Equal rows keep one order, so that they do not change
    /// places all the time.
    fn order(&self, one: &Row, other: &Row) -> Ordering {
        let by_key = one.key.cmp(&other.key);
        let order = match self.sort {
            Sort::Waiters => Reverse((one.waiters, one.oldest_wait)).cmp(&Reverse((other.waiters, other.oldest_wait))),
            Sort::Wait => Reverse((one.oldest_wait, one.waiters)).cmp(&Reverse((other.oldest_wait, other.waiters))),
            Sort::Rate => other.rate.unwrap_or(0.0).total_cmp(&one.rate.unwrap_or(0.0)),
            Sort::Held => Reverse(one.holder_for()).cmp(&Reverse(other.holder_for())),
            Sort::Key => by_key,
        };
        order.then(by_key)
    }

    /// The position of the selected lock among the rows. If it is gone, the first row is selected.
    pub fn selected(&self) -> usize {
        let selected = self.selected.as_ref();
        selected.and_then(|key| self.shown().iter().position(|row| row.key == *key)).unwrap_or(0)
    }

    /// Chooses as many rows as there is room for, with the selected one among them. The range is kept, because looks
    /// are about the rows on the screen.
    pub fn scroll(&mut self, height: usize) {
        self.window = columns::window(self.window.start, self.selected(), height, self.shown().len());
    }

    pub fn aim(&self) -> Aim {
        let visible = self.shown().into_iter().skip(self.window.start).take(self.window.len());
        Aim {
            visible: visible.map(|row| row.key.clone()).collect(),
            detail: self.detail.as_ref().map(|detail| detail.key.clone()),
            held: self.held.wanted,
            hurry: self.hurry,
        }
    }

    pub fn act(&mut self, action: Action) {
        self.message = None;
        match action {
            Action::Move(steps) => self.go_by(steps),
            Action::Sort => self.sort = self.sort.next(),
            Action::Reverse => self.reverse = !self.reverse,
            Action::Held => {
                self.held = HeldView { wanted: !self.held.wanted, seen: None };
                self.hurry += 1;
            }
            Action::Filter => self.typing = true,
            Action::Type(character) => self.filter.push(character),
            Action::Erase => _ = self.filter.pop(),
            Action::Keep => self.typing = false,
            Action::Clear => {
                self.filter.clear();
                self.typing = false;
            }
            Action::Inspect => self.inspect(),
            Action::Break => self.ask_whether_to_break(),
            Action::Agree | Action::Decline => self.end_the_question(),
            Action::Help => self.help = true,
            Action::Back if self.help => self.help = false,
            Action::Back => self.detail = None,
            // The caller handles it.
            Action::Quit => {}
        }
    }

    fn inspect(&mut self) {
        let key = self.shown().get(self.selected()).map(|row| row.key.clone());
        self.detail = key.map(|key| Detail { key, lock: None, first_line: 0 });
    }

    /// Shows the whole lock with the question: the user has to see the holder before breaking the lock.
    fn ask_whether_to_break(&mut self) {
        let in_list = self.detail.is_none();
        if in_list {
            self.inspect();
        }
        if self.detail.is_some() {
            self.question = Some(Question { about: None, in_list });
            self.check_the_question();
        }
    }

    /// The user does not agree to break the lock of a holder that came after the question.
    fn check_the_question(&mut self) {
        let (Some(question), Some(detail)) = (&mut self.question, &self.detail) else { return };
        let Some(lock) = &detail.lock else { return };
        let holders: Vec<_> = lock.holders.iter().map(|holder| (holder.holder.clone(), holder.side)).collect();
        let name = shown::name(&detail.key);
        let end = match &question.about {
            _ if lock.kind.is_none() => format!("{name}: not held, so there is nothing to break"),
            Some(about) if *about != holders => format!("{name}: it has another holder now; b asks again"),
            _ => {
                question.about = Some(holders);
                return;
            }
        };
        self.end_the_question();
        self.message = Some(end);
    }

    /// The lock that may be broken, if the answer is yes.
    pub fn agreed(&self) -> Option<(Vec<u8>, usize)> {
        self.question.as_ref()?.about.as_ref()?;
        let detail = self.detail.as_ref()?;
        Some((detail.key.clone(), detail.lock.as_ref()?.waiter_count))
    }

    fn end_the_question(&mut self) {
        if self.question.take().is_some_and(|question| question.in_list) {
            self.detail = None;
        }
    }

    /// The result of breaking a lock.
    pub fn broke(&mut self, words: String) {
        self.message = Some(words);
        self.hurry += 1;
    }

    fn go_by(&mut self, steps: isize) {
        if let Some(detail) = &mut self.detail {
            detail.first_line = detail.first_line.saturating_add_signed(steps);
            return;
        }
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(steps).min(last);
        let key = shown.get(place).map(|row| row.key.clone());
        self.selected = key;
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Waiters => Self::Wait,
            Self::Wait => Self::Rate,
            Self::Rate => Self::Held,
            Self::Held => Self::Key,
            Self::Key => Self::Waiters,
        }
    }
}
