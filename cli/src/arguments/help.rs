//! The text below the options of each command: examples and exit codes.

// Lines of at most 80 columns: longer ones are broken in the middle.

pub const HELP: &str = "\
Examples:
  rlock run nightly-report -- ./report       one host at a time
  rlock run --no-wait backup -- pg_dump      exit code 75 if the lock is taken
  rlock once token --keep 50m -- ./refresh   one host runs it, for all
  rlock lock --lease 5m deploy               hold it for several commands
  rlock ls                                   which locks have waiters?
  rlock inspect nightly-report               its holder and its waiters
  rlock break nightly-report                 free it by force
  rlock status                               is all well?
  rlock doctor                               which failure would lose a lock?
  rlock drill                                try a failover, in staging
  rlock -u rediss://redis.internal:6380 top  watch the queues

Addresses:
  redis://user@host:port/db          rediss:// is TLS
  host:port, or host                 the same as redis://host:port
  unix:///run/redis.sock
  redis+cluster://host,host          rediss+cluster:// is TLS
  redis+sentinel://host,host/NAME    rediss+sentinel:// is TLS
  Put the password into RLOCK_PASSWORD, a file, or RLOCK_URL; not into --url,
  which `ps` shows to every user.

Exit codes:
    0  done; of run: CMD's own code       75  the lock was not free in time
    1  the lock is not held; of break:        (-E changes this code)
       or the answer was no; of status    76  the lock was lost
       and doctor: something is wrong
   64  wrong arguments                    77  wrong password, or no right
   69  no server answers, or the          78  the server has no rlock module,
       server cannot do it now                or refuses for good
   70  a defect in rlock                 126  CMD cannot be executed
   74  this system fails                 127  CMD was not found
                                       128+n  ended by signal n
";

pub const RUN_HELP: &str = "\
Examples:
  rlock run nightly-report -- /usr/local/bin/report
  rlock run --wait 10m --lease 20s -c 'fetch | load' import
  rlock run --no-wait -E 0 cleanup -- find /tmp/cache -mtime +7 -delete
  rlock run --read prices -- ./show-prices
  rlock run --slots 4 gpu -- ./train         at most four at a time
  rlock run --all ann,bob -- ./transfer      both locks, or none yet
  rlock run --name deploy-7 --verbose deploy -- ./deploy

Exit codes:
  CMD's own, or 128+n if signal n ended it
   75  the lock was not free in time, or too many wait; CMD was not run
   76  the lock was lost while CMD ran, or that is not known
  126  CMD cannot be executed
  127  CMD was not found
  `rlock --help` lists the others
";

pub const ONCE_HELP: &str = "\
Examples:
  rlock once token:shop --keep 50m -- ./refresh
  rlock once front-page --keep 10s --wait 2s -c 'render | minify'
  rlock once token:shop --forget             the next caller runs CMD

Exit codes:
    0  the answer was printed; with --forget: there is none any more
  CMD's own, or 128+n if signal n ended it; nothing is stored
   75  no answer and no lock in time, or too many wait; CMD was not run
   76  the lock was lost while CMD ran; nothing is stored
   78  the answer is longer than rlock.max-answer; nothing is stored
  126  CMD cannot be executed
  127  CMD was not found
  `rlock --help` lists the others
";

pub const ADOPT_HELP: &str = "\
Examples:
  rlock lock --detach --lease 1m deploy | rlock adopt --text-file - ./deploy
  rlock adopt -- ./deploy                    with the text in RLOCK_DETACHED

Exit codes:
  CMD's own, or 128+n if signal n ended it
   64  there is no text, or it is not that of a detached lock
   76  the lock was lost, before it was adopted or while CMD ran
  126  CMD cannot be executed
  127  CMD was not found
  `rlock --help` lists the others
";

pub const LOCK_HELP: &str = "\
Examples:
  rlock lock --lease 10m --token-file deploy.token deploy
  rlock lock --no-wait --lease 1h deploy >deploy.token
  rlock lock --detach --lease 1m deploy      for rlock adopt or a client

Exit codes:
    0  the lock is held
   75  the lock was not free in time, or too many wait
   74  the lines could not be written; the lock is free again
  `rlock --help` lists the others
";

pub const UNLOCK_HELP: &str = "\
Examples:
  rlock unlock --token-file deploy.token deploy
  rlock unlock deploy \"$holder\"

Exit codes:
    0  the lock is free
   76  it was lost before: others may have had it
  `rlock --help` lists the others
";

pub const RENEW_HELP: &str = "\
Examples:
  rlock renew --lease 10m --token-file deploy.token deploy || exit

Exit codes:
    0  the lock is held for that long from now on
   76  it is lost: others may have it
  `rlock --help` lists the others
";

pub const HOLD_HELP: &str = "\
Examples:
  rlock hold deploy
  rlock hold --wait 10m --name ann deploy

Exit codes:
    0  the lock was held until it was released
   75  the lock was not free in time, or too many wait
   76  the lock was lost, or that is not known
  128+n  ended by signal n before the lock was there
  `rlock --help` lists the others
";

pub const LS_HELP: &str = "\
Examples:
  rlock ls
  rlock ls 'orders:*'
  rlock ls --held --limit 50
";

pub const INSPECT_HELP: &str = "\
Examples:
  rlock inspect orders:42
  rlock inspect --limit 10 --json orders:42
";

pub const BREAK_HELP: &str = "\
Examples:
  rlock break orders:42
  rlock break --yes orders:42
";

pub const SESSIONS_HELP: &str = "\
Examples:
  rlock sessions --limit 10
  rlock sessions --end 4711

Exit codes:
    0  listed, or ended
    1  there is no session with this ID
  `rlock --help` lists the others
";

pub const TOP_HELP: &str = "\
Examples:
  rlock top
  rlock top --interval 5s --sort wait --filter orders:
  rlock top --held --sort held               which lock is held longest?
  rlock top --batch --count 60 >locks.txt    the next minute, for later
";

pub const DOCTOR_HELP: &str = "\
Examples:
  rlock doctor
  rlock doctor --short                       the same: rlock status
  rlock -u redis+sentinel://10.0.0.11,10.0.0.12,10.0.0.13/locks doctor --json

Exit codes:
    0  nothing is wrong, and all was looked at
    1  something is wrong
   69  nothing seen is wrong, but a server does not answer
   77  nothing seen is wrong, but this user may not see all
  `rlock --help` lists the others
";

pub const DRILL_HELP: &str = "\
Examples:
  rlock drill                                asks you to cut and to heal
  rlock drill --cut ./cut --heal ./heal      runs these two programs
  rlock drill --locks 20 --lease 10s

Exit codes:
    0  no lock had two holders, and all was tried
    1  a lock had two holders
   69  no lock was seen with two holders, but not all could be tried
   74  the command of --cut or --heal failed
  `rlock --help` lists the others
";

pub const DEV_HELP: &str = "\
Examples:
  rlock dev                                  on port 6379
  rlock dev --port 0                         on a free port, which it prints
  rlock dev --set max-waiters=10 --set grace=30000

Exit codes:
    0  ended by INT, TERM or HUP, or with stdin
   74  the port is taken
  `rlock --help` lists the others
";

pub const COMPLETIONS_HELP: &str = "\
Examples:
  rlock completions bash >~/.local/share/bash-completion/completions/rlock
";
