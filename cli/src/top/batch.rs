//! Tables without a terminal, one after the other: for a file that is looked at later, and for other programs.

use super::columns::Column;
use super::looks::{Aim, LOOKED_AT, Looker};
use super::state::State;
use super::words;
use crate::arguments::Top;
use crate::exit;
use crate::failure::{Failure, say};
use crate::output;
use crate::shown;
use crate::table::Table;
use std::time::SystemTime;
use tokio::time::sleep;

const COLUMNS: [Column; 7] = [
    Column::Key,
    Column::Holder,
    Column::Waiters,
    Column::OldestWait,
    Column::Rate,
    Column::LeaseLeft,
    Column::HolderFor,
];

/// Prints until there are enough tables, or the reader is gone. One look was taken before, so the first table has rates.
pub async fn print(args: &Top, mut looker: Looker, mut state: State) -> Result<u8, Failure> {
    let mut left = args.count;
    loop {
        sleep(args.interval).await;
        let aim = Aim { visible: first_keys(&state), ..state.aim() };
        state.asks();
        match looker.look(&aim).await {
            Ok(look) => state.saw(look),
            Err(error) => state.saw_nothing(&error),
        }
        let is_read = match words::trouble(&state) {
            Some(trouble) => {
                say(&trouble);
                true
            }
            None => output::print_if_read(table(&state).as_bytes())?,
        };
        left = left.map(|left| left - 1);
        if !is_read || left == Some(0) {
            return Ok(if state.trouble.is_some() { exit::UNAVAILABLE } else { 0 });
        }
    }
}

fn first_keys(state: &State) -> Vec<Vec<u8>> {
    state.shown().into_iter().take(LOOKED_AT).map(|row| row.key.clone()).collect()
}

fn table(state: &State) -> String {
    let mut table = Table::new(COLUMNS.map(Column::heading), &[(1, 20), (0, 20), (1, 10), (0, 10)]);
    let rows = state.shown();
    for row in rows.iter().take(LOOKED_AT) {
        table.push(COLUMNS.map(|column| words::cell(row, column)));
    }
    let now = shown::moment(SystemTime::now());
    let mut lines = vec![format!("{now}  {}", words::headline(state)), words::rates(state)];
    lines.extend(words::remarks(state));
    let lines = lines.join("\n");
    let table = if table.is_empty() { String::new() } else { table.text(output::form()) };
    let more = match rows.len().saturating_sub(LOOKED_AT) {
        0 => String::new(),
        more => format!("… and {more} more: rlock ls --json lists them all\n"),
    };
    format!("{lines}\n{table}{more}\n")
}
