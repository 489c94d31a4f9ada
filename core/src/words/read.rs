//! Reading a command's words. Only numbers are copied, and only the check of several keys for doubles allocates.

use super::table::{Argument, Command, Form, KEYS_MAX, Meaning, OptionWord, READ, Rule};
use super::{Error, Request};
use crate::lock::{Lease, Limit, Side, decimal, names};
use std::collections::HashSet;
use std::slice;

/// Reads a command's words, its name first. `A` is a word: of the server, or of a test.
///
/// # Errors
/// The reply to the first word that is wrong or missing.
#[allow(clippy::inline_always, reason = "so that each command's reading is compiled for its own entry")]
#[inline(always)]
pub fn read<'a, A: AsRef<[u8]> + Copy>(command: &Command, words: &'a [A]) -> Result<Request<'a, A>, Error> {
    let mut request = Request::default();
    let words = words.get(1..).unwrap_or_default();
    // One by one, not in a loop: a loop would look up at run time which arguments the command has.
    let words = request.read_argument(command, 0, words)?;
    let words = request.read_argument(command, 1, words)?;
    let words = request.read_argument(command, 2, words)?;
    // Most requests have no options.
    if words.is_empty() && !command.options.first().is_some_and(OptionWord::is_required) {
        return Ok(request);
    }
    let mut options = Request::default();
    options.read_options(command, words)?;
    Ok(Request {
        keys: request.keys,
        holder: request.holder,
        lease: request.lease.or(options.lease),
        value: request.value,
        session: request.session.or(options.session),
        ..options
    })
}

impl OptionWord {
    fn is(&self, word: &[u8]) -> bool {
        // Most clients write options in capitals, and bytes are compared at once.
        self.words.iter().any(|known| word == known.as_bytes() || word.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Whether the option is given.
    pub(super) fn is_in<A>(&self, request: &Request<'_, A>) -> bool {
        match self.meaning {
            Meaning::Fenced => request.fenced,
            Meaning::All => request.all,
            Meaning::Side => request.side.is_some(),
            Meaning::Arguments(arguments) => match arguments.first() {
                Some(Argument::Lease) => request.lease.is_some(),
                Some(Argument::Keep) => request.keep.is_some(),
                Some(Argument::Session) => request.session.is_some(),
                Some(Argument::Wait) => request.wait_ms.is_some(),
                Some(Argument::Max) => request.max.is_some(),
                Some(Argument::Limit) => request.limit.is_some(),
                Some(Argument::Seq) => request.seq.is_some(),
                Some(Argument::Ttl) => request.ttl_ms.is_some(),
                Some(Argument::Count) => request.count.is_some(),
                Some(Argument::Id) => request.id.is_some(),
                _ => false,
            },
        }
    }
}

impl<'a, A: AsRef<[u8]> + Copy> Request<'a, A> {
    /// Reads all options of a command.
    #[inline(never)]
    fn read_options(&mut self, command: &Command, words: &'a [A]) -> Result<(), Error> {
        let mut left = words;
        while let [word, behind @ ..] = left {
            let word = word.as_ref();
            let option = command.options.iter().find(|option| option.is(word)).ok_or(command.unknown_option)?;
            let is_alone = words.len() <= option.arguments().len().saturating_add(1);
            if matches!(option.rule, Rule::Alone) && !is_alone {
                return Err(command.unknown_option);
            }
            let is_second = option.is_in(self);
            left = self.read_option(option, word, behind)?;
            if is_second {
                return Err(option.given_twice);
            }
        }
        for option in command.options.iter().rev() {
            match option.rule {
                Rule::Required if !option.is_in(self) => {
                    return Err(option.arguments().first().map_or(Error::Arity, |argument| argument.wrong()));
                }
                Rule::Needs(other, error) if option.is_in(self) && !other.is_in(self) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the argument in this place of a command. Returns the words behind it.
    #[allow(clippy::inline_always, reason = "as for `read`")]
    #[inline(always)]
    fn read_argument(&mut self, command: &Command, place: usize, words: &'a [A]) -> Result<&'a [A], Error> {
        match command.arguments.get(place) {
            None => Ok(words),
            Some(Argument::Keys) => {
                self.read_keys(words, command.arguments.len().saturating_sub(place).saturating_sub(1))
            }
            Some(Argument::Tickets) => {
                words.iter().try_for_each(|word| self.read_word(Argument::Ticket, word))?;
                self.tickets = words;
                Ok(&[])
            }
            Some(argument) => {
                let (word, behind) = words.split_first().ok_or(Error::Arity)?;
                self.read_word(*argument, word)?;
                Ok(behind)
            }
        }
    }

    /// Reads the number of keys, and the keys. At least `behind` words must follow.
    fn read_keys(&mut self, words: &'a [A], behind: usize) -> Result<&'a [A], Error> {
        let (count, words) = words.split_first().ok_or(Error::Arity)?;
        let count = decimal(count.as_ref()).filter(|count| (1..=KEYS_MAX).contains(count)).ok_or(Error::Numkeys)?;
        let count = usize::try_from(count).map_err(|_| Error::Numkeys)?;
        let (keys, words) = words.split_at_checked(count).ok_or(Error::Arity)?;
        if words.len() < behind {
            return Err(Error::Arity);
        }
        let mut seen = HashSet::with_capacity(count);
        if !keys.iter().all(|key| seen.insert(key.as_ref())) {
            return Err(Error::KeyTwice);
        }
        self.keys = keys;
        Ok(words)
    }

    /// Reads an option and its arguments. Returns the words behind them.
    fn read_option(&mut self, option: &OptionWord, word: &[u8], mut words: &'a [A]) -> Result<&'a [A], Error> {
        match option.meaning {
            Meaning::Fenced => self.fenced = true,
            Meaning::All => self.all = true,
            Meaning::Side => {
                self.side = Some(if word.eq_ignore_ascii_case(READ.as_bytes()) { Side::Read } else { Side::Write });
            }
            Meaning::Arguments(arguments) => {
                for argument in arguments {
                    let (word, behind) = words.split_first().ok_or(argument.wrong())?;
                    self.read_word(*argument, word)?;
                    words = behind;
                }
            }
        }
        Ok(words)
    }

    #[allow(clippy::inline_always, reason = "as for `read`")]
    #[inline(always)]
    fn read_word(&mut self, argument: Argument, word: &'a A) -> Result<(), Error> {
        match argument {
            Argument::Key | Argument::Keys => self.keys = slice::from_ref(word),
            Argument::Holder => self.holder = Some(text(argument, word)?),
            Argument::Session => self.session = Some(text(argument, word)?),
            Argument::Ticket | Argument::Tickets => {
                text(argument, word)?;
                self.tickets = slice::from_ref(word);
            }
            Argument::Lease => self.lease = Lease::from_ms(number(argument, word)?),
            Argument::Keep => self.keep = Lease::from_ms(number(argument, word)?),
            Argument::Value => self.value = Some(*word),
            Argument::Wait => self.wait_ms = Some(number(argument, word)?),
            // A number that a 32-bit server cannot represent is longer than any queue there.
            Argument::Max => self.max = Some(number(argument, word)?.try_into().unwrap_or(usize::MAX)),
            Argument::Limit => self.limit = Limit::new(number(argument, word)?),
            Argument::Seq => self.seq = Some(number(argument, word)?.unsigned_abs()),
            Argument::Ttl => self.ttl_ms = Some(number(argument, word)?),
            Argument::Count => self.count = number(argument, word)?.try_into().ok(),
            Argument::Id => self.id = Some(number(argument, word)?.unsigned_abs()),
        }
        Ok(())
    }
}

#[inline]
fn text<A: AsRef<[u8]> + Copy>(argument: Argument, word: &A) -> Result<A, Error> {
    let bytes = word.as_ref();
    let Form::Text(least, most) = argument.form() else { return Err(argument.wrong()) };
    let is_fields_name = || bytes == names::MODE_FIELD || bytes.ends_with(names::WRITE_SUFFIX);
    if (least..=most).contains(&bytes.len()) && !(argument == Argument::Holder && is_fields_name()) {
        Ok(*word)
    } else {
        Err(argument.wrong())
    }
}

#[inline]
fn number<A: AsRef<[u8]>>(argument: Argument, word: &A) -> Result<i64, Error> {
    let Form::Number(least, most) = argument.form() else { return Err(argument.wrong()) };
    decimal(word.as_ref()).filter(|number| (least..=most).contains(number)).ok_or(argument.wrong())
}
