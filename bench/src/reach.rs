//! What it would take to reach the aims that are missed: said on the page, so that nobody has to guess whether it was
//! tried. The figures behind it are in the tables of the same page.

pub const CYCLE: &str = "**A lock cycle** is mostly the server's own work: a hash costs more to make and to \
    delete than a string, setting the lease is a call of its own, and each unlock is published, since Redisson's \
    clients may listen. Only another layout would be cheaper: a string in place of the hash, or no message.";

pub const BUSY: &str = "**A busy lock** is answered with the time that is left of its lease, which `SET NX` does \
    not tell. For that the server looks the lease up twice, once to open the key and once to tell it; and the module \
    looks for the asker's own field in the hash. It would take an API that tells a key's lease when it opens the \
    key.";

pub const FOLLOWERS: &str = "**Followers** get three commands for each cycle: the lock as a whole, its end, and \
    the message at its end, which subscribers of replicas would not get otherwise. For each of them the server looks \
    up the command by its name and copies its arguments (`RM_Replicate`). A replica gets the last two in a \
    transaction, which is two more commands. It would take an API that publishes to replicas as PUBLISH does.";

pub const READ_WRITE: &str = "**A read-write lock** is a hash of two fields, and each read hold is a key beside \
    it, with a name of some sixty bytes that the server hashes each time. So a read cycle makes and deletes two \
    keys. Redisson's clients expect this layout, and the messages.";

pub const HAND_OFF: &str = "**A hand-off** is two commands, one that releases and one that waits, and both ask \
    who holds the lock. In between the module changes the hash, sets the lease and notifies keyspace listeners. A \
    token in a list needs none of that. And blocking a client costs a module more than it costs BLPOP: the server \
    copies the reply, takes a mutex, and wakes itself through a pipe.";

pub const READ_MEMORY: &str = "**The key of a read hold** has a string `1` of its own, of 16 bytes. Commands and \
    scripts use an integer that the server shares; modules cannot.";

pub const READ_HOLDS: &str = "**A read release by the reader whose lease is the longest** looks for the longest \
    of the other leases: up to 256 keys, some five thousand instructions each. It would take a layout that keeps \
    read holds in the order in which they end, which Redisson's clients do not know; or a copy of the leases beside \
    theirs, which is wrong as soon as one of them changes the lock.";

pub const AT_ONE_STROKE: &str = "**A demotion**: the server itself replies to all blocked clients in one step, \
    and closes their connections in another. With as many clients of BLPOP, and no module, it does not answer for as \
    long.";
