//! The settings of the module that change what a test sees, by their names: `rlock.grace`, or `grace` alone.

use super::server::State;
use rlock_core::lock::decimal;
use rlock_core::waiting::Most;
use rlock_sim::Limits;

const NAMES: &str =
    "grace, max-answer, max-sessions, max-sessions-per-user, max-tickets, max-tickets-per-user, max-waiters and tokens";

impl State {
    /// Changes a setting.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let lower = name.to_lowercase();
        let short = lower.strip_prefix("rlock.").unwrap_or(&lower);
        if short == "tokens" {
            self.node.tokens_go_by_clock = match value {
                "clock" => true,
                "count" => false,
                _ => return Err("tokens is clock or count".to_owned()),
            };
            return Ok(());
        }
        let limits @ Limits { tickets, sessions, .. } = self.node.host.limits.get();
        let number = decimal(value.as_bytes()).filter(|number| *number >= 0);
        let number = || number.ok_or_else(|| format!("{short} is a whole number, at least 0"));
        let count = || number().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let limits = match short {
            "grace" => {
                self.node.host.grace_ms.set(number()?);
                limits
            }
            "max-answer" => Limits { answer_bytes: count()?, ..limits },
            "max-waiters" => Limits { blocked: count()?, ..limits },
            "max-tickets" => Limits { tickets: Most { all: count()?, ..tickets }, ..limits },
            "max-tickets-per-user" => Limits { tickets: Most { of_user: count()?, ..tickets }, ..limits },
            "max-sessions" => Limits { sessions: Most { all: count()?, ..sessions }, ..limits },
            "max-sessions-per-user" => Limits { sessions: Most { of_user: count()?, ..sessions }, ..limits },
            _ => return Err(format!("there is no setting {name}: rlock dev has {NAMES}")),
        };
        self.node.host.limits.set(limits);
        Ok(())
    }
}
