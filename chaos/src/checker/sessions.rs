//! What the polls of a session prove: when it certainly lived, when it was certainly polled, and by when it has ended.
//!
//! Of a poll that was answered it is known that the server had it at some moment between. So what counts from it on is taken
//! to begin when it was sent, and what counts until it, when its answer was there.

use super::ROUGHNESS;
use super::troubles::Troubles;
use crate::history::{Answer, Event, Moment, Poll, Record, Told};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How much later than it was sent a poll without an answer may have reached a server that was well.
pub const UNDER_WAY: Duration = Duration::from_millis(500);

/// From one moment to another.
pub type Span = (Moment, Moment);

/// By their names, so that a verdict is the same each time.
pub struct Sessions<'a>(pub BTreeMap<&'a str, Session<'a>>);

pub struct Session<'a> {
    pub name: &'a str,
    /// In the order in which they were sent.
    exchanges: Vec<Exchange<'a>>,
    /// When it certainly lived, as long as no server forgets anything.
    pub lives: Vec<Span>,
    /// When one connection of it was certainly polled all the time.
    pub connections: Vec<Span>,
    /// What was told of each ticket, in the order in which it was read.
    pub tellings: BTreeMap<&'a str, Vec<Telling<'a>>>,
}

struct Exchange<'a> {
    poll: &'a Poll,
    answer: Option<(Moment, &'a Told)>,
}

/// An event as it was read.
#[derive(Clone, Copy)]
pub struct Telling<'a> {
    pub poll: &'a Poll,
    pub at: Moment,
    pub event: &'a Event,
}

/// The last that can be said of a session.
pub struct Gone {
    /// Since when nobody has said anything to it.
    pub silent_since: Moment,
    /// Unless something kept the server from ending it.
    pub by: Moment,
}

impl<'a> Sessions<'a> {
    pub fn of(records: &'a [Record]) -> Self {
        let mut answers: HashMap<(&str, u64), (Moment, &Told)> = HashMap::new();
        for record in records {
            if let Record::Heard { at, session, number, told } = record {
                answers.insert((session, *number), (*at, told));
            }
        }
        let mut exchanges: HashMap<&str, Vec<Exchange>> = HashMap::new();
        for record in records {
            if let Record::Polled(poll) = record {
                let answer = answers.get(&(poll.session.as_str(), poll.number)).copied();
                exchanges.entry(&poll.session).or_default().push(Exchange { poll, answer });
            }
        }
        Self(exchanges.into_iter().map(|(name, exchanges)| (name, Session::of(name, exchanges))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Session<'a>> {
        self.0.get(name)
    }
}

impl<'a> Session<'a> {
    fn of(name: &'a str, mut exchanges: Vec<Exchange<'a>>) -> Self {
        exchanges.sort_by_key(|it| (it.poll.at, it.poll.number));
        let (lives, connections, tellings) = (lives(&exchanges), connections(&exchanges), tellings(&exchanges));
        Self { name, exchanges, lives, connections, tellings }
    }

    /// When it last sent or read anything before that moment.
    pub fn last_active(&self, before: Moment) -> Moment {
        let moments = self.exchanges.iter().flat_map(|it| [Some(it.poll.at), it.answer.map(|(at, _)| at)]);
        moments.flatten().filter(|at| *at < before).max().unwrap_or(Moment(0))
    }

    /// All that were told of a ticket.
    pub fn told(&self, ticket: &str) -> &[Telling<'a>] {
        self.tellings.get(ticket).map_or(&[], Vec::as_slice)
    }

    /// Whether it certainly lived from one moment to the other, but for servers that forget.
    pub fn lived(&self, (from, until): Span) -> bool {
        self.lives.iter().any(|life| life.0 <= from && until <= life.1)
    }

    /// When the poll was sent that was answered at this moment: since then the session may have ended again.
    pub fn asked_for(&self, answered: Moment) -> Moment {
        let asked = self.exchanges.iter().find(|it| it.answer.is_some_and(|(at, _)| at == answered));
        asked.map_or(answered, |it| it.poll.at)
    }

    /// Whether one connection of it was polled from one moment to the other.
    pub fn was_polled(&self, (from, until): Span) -> bool {
        self.connections.iter().any(|span| span.0 <= from && until <= span.1)
    }

    /// Whether the server may know that the event of this ticket is done with. What was never told was never done with.
    pub fn may_be_acknowledged(&self, ticket: &str) -> bool {
        self.told(ticket).first().is_some_and(|first| self.may_be_done_with(first.event.seq, Moment(u64::MAX)))
    }

    /// Whether that may have been said of this event before that moment.
    pub fn may_be_done_with(&self, seq: u64, before: Moment) -> bool {
        self.exchanges.iter().any(|it| it.poll.ack >= seq && it.poll.at < before)
    }

    /// Whether a poll that was sent after `since` may have arrived between two moments: all but those that were answered by
    /// the first of them, or sent after the other.
    pub fn may_come_between(&self, since: Moment, from: Moment, until: Moment) -> bool {
        self.exchanges.iter().any(|it| {
            let is_over = it.answer.is_some_and(|(at, _)| at <= from);
            it.poll.at > since && it.poll.at < until && !is_over
        })
    }

    /// Where it was said that there is no such session: when that was sent, and when it was answered.
    pub fn denials(&self) -> impl Iterator<Item = (&'a Poll, Moment)> {
        self.exchanges.iter().filter_map(|it| match it.answer {
            Some((at, Told::NoSession)) => Some((it.poll, at)),
            _ => None,
        })
    }

    /// By when it has ended for good. Not known where something may be under way for longer than that, or the server's
    /// clock was moved.
    pub fn gone(&self, troubles: &Troubles) -> Option<Gone> {
        let last = self.exchanges.last()?;
        let ended = self.exchanges.iter().filter_map(|it| match it.answer {
            Some((at, Told::Ended(_) | Told::NoSession)) => Some(Gone { silent_since: it.poll.at, by: at }),
            _ => None,
        });
        let by_time = || {
            let arrivals = self.exchanges.iter().map(|it| match it.answer {
                Some((at, _)) => at,
                None => it.poll.at + UNDER_WAY,
            });
            let lost = self.exchanges.iter().filter(|it| it.answer.is_none());
            let may_be_late = |it: &Exchange| troubles.clients.touches(it.poll.at, it.poll.at + UNDER_WAY);
            let by = arrivals.max()? + Duration::from_millis(last.poll.ttl_ms);
            let is_known = !lost.into_iter().any(may_be_late) && !troubles.clock_steps.touches(last.poll.at, by);
            is_known.then_some(Gone { silent_since: last.poll.at, by })
        };
        ended.min_by_key(|gone| gone.by).or_else(by_time)
    }
}

/// From one poll to the next, as long as that one came in time. Whoever ends it may have done so at once, or may do so
/// yet for as long as that is not answered.
fn lives(exchanges: &[Exchange]) -> Vec<Span> {
    let mut lives: Vec<Span> = Vec::new();
    let mut is_over = true;
    let mut may_end_until = Moment(0);
    for Exchange { poll, answer } in exchanges {
        if poll.ends {
            is_over = true;
            may_end_until = may_end_until.max(answer.map_or(Moment(u64::MAX), |(answered, _)| answered));
            if let Some(life) = lives.last_mut() {
                life.1 = life.1.min(poll.at);
            }
            continue;
        }
        let Some((answered, Told::Events(_))) = answer else { continue };
        if poll.at < may_end_until {
            continue;
        }
        let until = poll.at + Duration::from_millis(poll.ttl_ms) - ROUGHNESS;
        match lives.last_mut() {
            Some(life) if !is_over && *answered < life.1 => life.1 = life.1.max(until),
            _ => lives.push((*answered, until)),
        }
        is_over = false;
    }
    lives
}

/// Of each connection, from the first answer to when the last poll was sent that was answered.
fn connections(exchanges: &[Exchange]) -> Vec<Span> {
    let mut spans: HashMap<u64, Span> = HashMap::new();
    for Exchange { poll, answer } in exchanges {
        if let (Some((answered, Told::Events(_))), false) = (answer, poll.ends) {
            let span = spans.entry(poll.connection).or_insert((*answered, poll.at));
            *span = (span.0.min(*answered), span.1.max(poll.at));
        }
    }
    let mut spans: Vec<Span> = spans.into_values().filter(|(from, until)| from < until).collect();
    spans.sort_unstable();
    spans
}

fn tellings<'a>(exchanges: &[Exchange<'a>]) -> BTreeMap<&'a str, Vec<Telling<'a>>> {
    let mut all: Vec<Telling> = Vec::new();
    for Exchange { poll, answer } in exchanges {
        if let Some((at, Told::Events(events))) = answer {
            all.extend(events.iter().map(|event| Telling { poll, at: *at, event }));
        }
    }
    all.sort_by_key(|telling| (telling.at, telling.event.seq));
    let mut tellings: BTreeMap<&str, Vec<Telling>> = BTreeMap::new();
    for telling in all {
        tellings.entry(&telling.event.ticket).or_default().push(telling);
    }
    tellings
}

impl Event {
    pub fn is_grant(&self) -> bool {
        matches!(self.outcome, Answer::Granted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::written::Written;

    fn ms(time: u64) -> Moment {
        Moment(0) + Duration::from_millis(10_000 + time)
    }

    fn known<T>(history: Written, say: impl Fn(&Session) -> T) -> T {
        let records = history.records();
        say(Sessions::of(&records).get("session").expect("the one that there is"))
    }

    #[test]
    fn it_lives_no_longer_than_it_is_let() {
        let ended =
            Written::default().polled((0, 1), 1, 0, &[]).session_ended((300, 301)).polled((400, 401), 1, 0, &[]);
        assert!(known(ended, |it| it.lived((ms(1), ms(299))) && !it.lived((ms(1), ms(401)))));
        let polled = || Written::default().polled((0, 1), 1, 0, &[]);
        let late_end = polled().session_ended((300, 500)).polled((400, 401), 2, 0, &[]);
        assert!(known(late_end, |it| it.lived((ms(1), ms(299))) && !it.lived((ms(401), ms(402)))));
        let anew = polled().session_ended((300, 500)).polled((501, 502), 2, 0, &[]);
        assert!(known(anew, |it| it.lived((ms(502), ms(1_400)))));
        let in_vain = polled().session_ended_in_vain(300).polled((400, 401), 2, 0, &[]);
        assert!(known(in_vain, |it| it.lived((ms(1), ms(299))) && !it.lived((ms(401), ms(402)))));
    }

    #[test]
    fn it_is_gone_when_that_is_said_or_its_time_is_up() {
        let gone = |history: Written| {
            let records = history.records();
            let troubles = Troubles::of(&records);
            Sessions::of(&records).get("session").and_then(|it| it.gone(&troubles)).map(|gone| gone.by)
        };
        let polled = || Written::default().polled((0, 10), 1, 0, &[]);
        assert_eq!(gone(polled()), Some(ms(1_010)));
        assert_eq!(gone(polled().session_ended((20, 30))), Some(ms(30)));
        assert_eq!(gone(polled().denied((20, 30))), Some(ms(30)));
        assert_eq!(gone(polled().polled_in_vain(20)), Some(ms(1_520)));
        assert_eq!(gone(polled().polled_in_vain(20).troubled((50, 60), crate::history::Reach::Clients)), None);
        let answers_lost = polled().polled_in_vain(20).troubled((50, 60), crate::history::Reach::Answers);
        assert_eq!(gone(answers_lost), Some(ms(1_520)), "what was sent has arrived");
    }
}
