//! `rlock sessions`: which processes have sessions open, and the end of one.

use crate::address::Address;
use crate::arguments::{Server, Sessions};
use crate::failure::{Failure, say};
use crate::operators::{self, Session};
use crate::table::Table;
use crate::{address, exit, json, output, shown};
use rlock_client::Master;
use std::collections::HashSet;

pub async fn sessions(args: &Sessions, server: &Server) -> Result<u8, Failure> {
    let (locks, at) = address::connect(server).await?;
    let masters = locks.masters().await.map_err(|error| Failure::of_the_server(&at, &error))?;
    if let Some(id) = args.end {
        return end(id, &masters, &at).await;
    }
    let sessions = operators::sessions(&masters, args.limit as usize).await;
    let sessions = sessions.map_err(|why| Failure::unanswered(&at, &why))?;
    match args.json {
        true => output::print_json(&sessions.iter().map(json::session).collect())?,
        false if sessions.is_empty() => {}
        false => output::print(&text(&sessions))?,
    }
    Ok(0)
}

async fn end(id: u64, masters: &[Master], at: &Address) -> Result<u8, Failure> {
    let [master] = masters else {
        return Err(Failure::usage("each node of a cluster has numbers of its own: give the node's address by --url"));
    };
    let ended = operators::end_session(master, id).await.map_err(|why| Failure::unanswered(at, &why))?;
    if !ended {
        say(&format!("{id}: no session has this id; rlock sessions lists them"));
        return Ok(exit::NOTHING_DONE);
    }
    output::print(&format!("{id}: ended\n"))?;
    Ok(0)
}

fn text(sessions: &[Session]) -> String {
    let servers: HashSet<_> = sessions.iter().map(|session| &session.server).collect();
    let mut table = Table::new(["ID", "SESSION", "USER", "ADDRESS", "TICKETS", "EVENTS", "ENDS IN"], &[(2, 8)]);
    let or_dash = |bytes: Option<&[u8]>| bytes.map_or_else(|| "-".to_owned(), shown::name);
    for session in sessions {
        let cells = [
            session.id.to_string(),
            shown::name(&session.name),
            or_dash(session.user.as_deref()),
            or_dash(session.address.as_ref().map(String::as_bytes)),
            session.tickets.to_string(),
            session.events.to_string(),
            shown::time_or(session.ends_in, "-"),
        ];
        let unattended = (!session.attended).then(|| "unattended".to_owned());
        let server = (servers.len() > 1).then(|| format!("at {}", session.server));
        table.push_with(cells, unattended.into_iter().chain(server).collect());
    }
    table.text(output::form())
}
