//! Writing a request as a command's words.

use super::Request;
use super::table::{Argument, Command, Meaning, READ, WRITE};
use crate::lock::{Lease, Side};

impl<A: AsRef<[u8]>> Request<'_, A> {
    /// Calls `each` with each word, the command's name first. Fields that the command does not take are left out.
    pub fn write(&self, command: &Command, mut each: impl FnMut(&[u8])) {
        each(command.name.as_bytes());
        for argument in command.arguments {
            self.write_argument(*argument, &mut each);
        }
        for option in command.options.iter().filter(|option| option.is_in(self)) {
            match option.meaning {
                Meaning::Side => each(if self.side == Some(Side::Read) { READ } else { WRITE }.as_bytes()),
                _ => each(option.words.first().unwrap_or(&"").as_bytes()),
            }
            for argument in option.arguments() {
                self.write_argument(*argument, &mut each);
            }
        }
    }

    fn write_argument(&self, argument: Argument, each: &mut impl FnMut(&[u8])) {
        let mut number = |number: Option<u64>| each(number.unwrap_or_default().to_string().as_bytes());
        let of_ms = |ms: Option<i64>| ms.map(i64::unsigned_abs);
        let of_count = |count: usize| u64::try_from(count).ok();
        match argument {
            Argument::Lease => number(of_ms(self.lease.map(Lease::ms))),
            Argument::Keep => number(of_ms(self.keep.map(Lease::ms))),
            Argument::Wait => number(of_ms(self.wait_ms)),
            Argument::Max => number(self.max.and_then(of_count)),
            Argument::Limit => number(self.limit.and_then(|limit| of_count(limit.get()))),
            Argument::Seq => number(self.seq),
            Argument::Ttl => number(of_ms(self.ttl_ms)),
            Argument::Count => number(self.count.and_then(of_count)),
            Argument::Id => number(self.id),
            Argument::Keys => {
                number(of_count(self.keys.len()));
                self.keys.iter().for_each(|key| each(key.as_ref()));
            }
            Argument::Key => self.keys.iter().take(1).for_each(|key| each(key.as_ref())),
            Argument::Holder => self.holder.iter().for_each(|holder| each(holder.as_ref())),
            Argument::Value => self.value.iter().for_each(|value| each(value.as_ref())),
            Argument::Session => self.session.iter().for_each(|session| each(session.as_ref())),
            Argument::Ticket | Argument::Tickets => self.tickets.iter().for_each(|ticket| each(ticket.as_ref())),
        }
    }
}
