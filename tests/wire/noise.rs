//! What other clients do meanwhile: to the locks' keys, to the server's settings, and to each other.
//!
//! Each line is a command with words to fill in: `$k` a key, `$f` a field or holder, `$v` a value, `$n` a hostile
//! number, `$i` the id of some client of this trial, `$o` a command of ours, which takes several words.

use crate::contract::Command;
use crate::hostile;
use crate::random::Random;
use rlock_testing::ServerVersion;
use std::sync::LazyLock;

/// A user with fewer rights, which clients become.
pub const NARROW: &str = "ACL SETUSER narrow on nopass ~* &* +@all -rlock.break";

/// Changes of keys. These may also come in transactions. Redis 8.0 makes a client wait for a FLUSHALL that is not
/// ASYNC, and crashes if CLIENT UNBLOCK then unblocks it.
const KEYS: [&str; 53] = [
    "SELECT 0",
    "SELECT 1",
    "DEL $k",
    "UNLINK $k",
    "SET $k $v",
    "SET $k $v PX 5",
    "GET $k",
    "HSET $k $f $v",
    "HSET $k $f $v $f $v",
    "HDEL $k $f",
    "HSET $k mode read $f $v",
    "HSET $k mode write h:write $v",
    "HSET $k mode $v",
    "HSET $k h $n",
    "HGETALL $k",
    "HINCRBY $k $f 1",
    "EXPIRE $k 100",
    "PEXPIRE $k 1",
    "PEXPIRE $k 30",
    "PEXPIRE $k 9000000000000",
    "PEXPIRE $k -1",
    "PERSIST $k",
    "RENAME $k $k",
    "RENAMENX $k $k",
    "COPY $k $k REPLACE",
    "COPY $k $k DB 1 REPLACE",
    "MOVE $k 1",
    "MOVE $k 0",
    "SWAPDB 0 1",
    "SWAPDB 1 2",
    "FLUSHDB ASYNC",
    "FLUSHALL ASYNC",
    "FLUSHALL ASYNC",
    "RPUSH $k $v",
    "SADD $k $v",
    "XADD $k * $f $v",
    "ZADD $k 1 $v",
    "DUMP $k",
    "RESTORE $k 0 $v REPLACE",
    "OBJECT ENCODING $k",
    "OBJECT FREQ $k",
    "OBJECT IDLETIME $k",
    "MEMORY USAGE $k",
    "TYPE $k",
    "PTTL $k",
    "EXISTS $k $k",
    "TOUCH $k",
    "INCR redisson_lock_token:{k}",
    "SET redisson_lock_token:{k} $n",
    "HPEXPIRE $k 1 FIELDS 1 $f",
    "HPEXPIRE $k 600000 FIELDS 1 $f",
    "SORT $k STORE $k",
    "SINTERSTORE $k $k $k",
];

/// Commands to the server, and about clients. Not in transactions.
const SERVER: [&str; 62] = [
    "PING",
    "ECHO $k",
    "SELECT 0",
    "SELECT 1",
    "SELECT 2",
    "INFO rlock",
    "INFO everything",
    "CLIENT INFO",
    "CLIENT LIST",
    "CLIENT ID",
    "CLIENT NO-EVICT ON",
    "CLIENT SETNAME x",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON BCAST",
    "CLIENT TRACKING OFF",
    "CLIENT KILL ID $i",
    "CONFIG SET maxmemory 1",
    "CONFIG SET maxmemory 0",
    "CONFIG SET maxmemory-policy allkeys-lru",
    "CONFIG SET maxmemory-policy noeviction",
    "CONFIG SET rlock.notify publish",
    "CONFIG SET rlock.notify both",
    "CONFIG SET rlock.notify off",
    "CONFIG SET rlock.notify $v",
    "CONFIG SET rlock.max-waiters 0",
    "CONFIG SET rlock.max-waiters 2",
    "CONFIG SET rlock.max-waiters 10000",
    "CONFIG SET rlock.max-waiters $n",
    "CONFIG SET rlock.max-sessions 1",
    "CONFIG SET rlock.grace 1",
    "CONFIG SET rlock.grace 100000",
    "CONFIG SET rlock.grace $n",
    "CONFIG SET rlock.max-answer 0",
    "CONFIG SET rlock.max-answer $n",
    "CONFIG SET rlock.tokens clock",
    "CONFIG SET rlock.tokens $v",
    "CONFIG SET rlock.max-sessions-per-user $n",
    "CONFIG SET rlock.max-tickets-per-user $n",
    "CONFIG GET rlock.*",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET min-replicas-to-write 5",
    "CONFIG SET min-replicas-to-write 0",
    "CONFIG SET hz 500",
    "ACL SETUSER narrow resetkeys ~k* ~r* +@all -rlock.break",
    "ACL SETUSER narrow resetkeys ~* &* +@all -rlock.acquire -set",
    "ACL SETUSER narrow resetchannels -@read",
    "AUTH narrow any",
    "AUTH default any",
    "ACL WHOAMI",
    "ACL DRYRUN narrow $o",
    "COMMAND DOCS rlock.acquire rlock.break $k",
    "COMMAND INFO rlock.acquire rlock.queues",
    "COMMAND GETKEYS $o",
    "COMMAND GETKEYSANDFLAGS $o",
    "COMMAND COUNT",
    "DEBUG JMAP",
    "PUBLISH redisson_lock__channel:{k} 0",
    "SLOWLOG GET",
    "LATENCY LATEST",
    "SCRIPT FLUSH",
    "MEMORY STATS",
    "CONFIG RESETSTAT",
];

/// Used seldom, as they take long or stop all clients.
const HEAVY: [&str; 5] =
    ["DEBUG RELOAD", "DEBUG SET-ACTIVE-EXPIRE 0", "DEBUG SET-ACTIVE-EXPIRE 1", "BGREWRITEAOF", "MEMORY PURGE"];

/// Which of two kinds of commands a trial may have: servers cannot cope with both.
#[derive(Clone, Copy, PartialEq)]
pub enum Hold {
    /// Waiting clients are unblocked.
    Unblock,
    /// All clients are paused for a moment. Several servers crash if a paused client is unblocked.
    Pause,
}

/// What the servers of this trial can cope with.
#[derive(Clone, Copy)]
pub struct Limits {
    pub hold: Hold,
    /// There are followers, which must get every change.
    pub is_followed: bool,
}

const UNBLOCK: [&str; 3] = ["CLIENT UNBLOCK $i", "CLIENT UNBLOCK $i TIMEOUT", "CLIENT UNBLOCK $i ERROR"];

const PAUSE: [&str; 4] = ["CLIENT PAUSE 10 WRITE", "CLIENT PAUSE 5 ALL", "CLIENT PAUSE 30 WRITE", "CLIENT UNPAUSE"];

pub fn to_keys(random: &mut Random, limits: Limits) -> Command {
    let line = random.one_of(&KEYS);
    if is_borne(line, limits) { filled(random, line, &[]) } else { to_keys(random, limits) }
}

/// Whether the servers can cope with this command. If any module listens to key events, Valkey 8.1 leaves a client in the
/// database to which it has moved or copied a key, and replicates the move for that database, not for the client's own.
/// DEBUG RELOAD drops expired keys, and replicates nothing of it. And a re-entry removes the lease that a foreign command
/// gave to the hold's field alone, which is not replicated.
fn is_borne(line: &str, limits: Limits) -> bool {
    static LEADS_ASTRAY: LazyLock<bool> = LazyLock::new(|| ServerVersion::under_test().moves_clients());
    let leads_astray = line.starts_with("MOVE") || line.contains(" DB ");
    let is_hidden = line.starts_with("HPEXPIRE") || line == "DEBUG RELOAD";
    !(*LEADS_ASTRAY && leads_astray || limits.is_followed && is_hidden)
}

pub fn to_the_server(random: &mut Random, ids: &[i64], limits: Limits) -> Command {
    let lines: &[&str] = match random.below(100) {
        0..80 => &SERVER,
        80..97 if limits.hold == Hold::Unblock => &UNBLOCK,
        80..97 => &PAUSE,
        _ => &HEAVY,
    };
    let line = random.one_of(lines);
    if is_borne(line, limits) { filled(random, line, ids) } else { to_the_server(random, ids, limits) }
}

/// Keys of every type, and hashes that are nearly locks.
pub fn furniture(random: &mut Random) -> Vec<Command> {
    let mut lines = vec![
        "SET text hello",
        "RPUSH list a b",
        "SADD set a",
        "ZADD zset 1 a",
        "XADD stream * a b",
        "HSET foreign h -3 g x i 0 j 05",
        "HSET odd-mode mode both h 1",
        "HSET crowded mode read h 10000 g 9223372036854775807",
        "SET redisson_lock_token:{w} 9223372036854775806",
        "LPUSH {r}:g:rwlock_timeout:1 x",
        "SET {w}:h:rwlock_timeout:1 1",
        "RLOCK.ACQUIRE k h 600000",
        "RLOCK.RACQUIRE r h 600000",
        "RLOCK.RACQUIRE r g 600000",
        "RLOCK.WACQUIRE w h 600000",
    ];
    // Not always all of them: free locks matter, too.
    lines.retain(|_| random.is(80));
    let mut furniture: Vec<_> = lines.into_iter().map(|line| filled(random, line, &[])).collect();
    let mut many: Command = ["HSET", "many", "mode", "read"].map(|word| word.as_bytes().to_vec()).to_vec();
    for number in 0..random.below(700) {
        many.extend([format!("holder:{number}").into_bytes(), b"1".to_vec()]);
    }
    furniture.push(many);
    furniture
}

fn filled(random: &mut Random, line: &str, ids: &[i64]) -> Command {
    let mut command = Vec::new();
    for word in line.split(' ') {
        match word {
            "$k" => command.push(hostile::key(random)),
            "$f" => command.push(hostile::holder(random)),
            "$v" => command.push(hostile::content(random)),
            "$n" => command.push(hostile::number(random)),
            "$i" => command.push(ids[random.below(ids.len())].to_string().into_bytes()),
            "$o" => command.extend(hostile::command(random)),
            word => command.push(word.as_bytes().to_vec()),
        }
    }
    command
}
