//! What the aims that are missed would take: said on the page beside each miss, so that nobody has to guess whether it was
//! tried. The figures behind it are those of the same run, in its tables.

pub const CYCLE: &str = "**A lock cycle** is mostly the server's own work by now: a hash costs it more to make and to \
    delete than a string, a lease is written by a call of its own, and each unlock is published, since whoever listens \
    may be Redisson. Nearer it would get with less than Redisson's layout: a string for a hash, or no message.";

pub const BUSY: &str = "**A busy lock** is answered with the lease that is left, which `SET NX` does not say: the server \
    looks it up twice, once to open the key and once to tell. And the hash is asked for the asker's own field, where \
    `SET NX` need not look into the value. It would take an API that tells a key's lease as it opens it.";

pub const FOLLOWERS: &str = "**Followers** are told of a cycle in three commands: the lock as a whole, its end, and the \
    message at its end, which replicas' subscribers would not hear otherwise. For each of them the server looks up the \
    command by its name and copies its arguments (`RM_Replicate`), and a replica gets the last two in a transaction, \
    which is two more. It would take an API that publishes to replicas as PUBLISH does.";

pub const READ_WRITE: &str = "**Read-write locks** are a hash of two fields, and each read hold is a key beside it with a \
    name of some sixty bytes, which the server hashes whenever it touches it. A read cycle makes and deletes two keys; \
    that, and the messages, are the layout that Redisson's clients expect.";

pub const HAND_OFF: &str = "**A hand-off** is one command that ends a hold and another that begins to wait, each asking \
    the lock who holds it; in between the hash changes hands, its lease is written and keyspace listeners are told. A \
    token in a list has none of these. Keeping a client is dearer for a module than for BLPOP: its reply is copied, its \
    end is noted under a mutex, and the server is woken through a pipe to see it.";

pub const READ_MEMORY: &str = "**A read hold's key** holds a string `1` of its own: 16 bytes. For commands and scripts the \
    server has a shared integer there, which modules cannot store.";

pub const READ_HOLDS: &str = "**A read release by the one whose lease is the lock's** looks for the longest lease among those that \
    stay: up to 256 keys, some five thousand instructions each. It would take a layout that keeps read holds in the order in \
    which they end, which Redisson's clients would neither read nor write; or a copy of it beside theirs, which is wrong as \
    soon as one of them changes the lock.";

pub const AT_ONE_STROKE: &str = "**A demotion**: the server itself sends away all whom it keeps, in one stroke, and closes their \
    connections in another. With as many clients of BLPOP and no module it is silent for as long.";
