package rlock.redisson;

/** Which kind of lock, and which side of it, that it is a permit, or that an answer does as well: as the commands name them. */
enum Side {
    PLAIN("RLOCK.ACQUIRE", null),
    READ("RLOCK.RACQUIRE", "READ"),
    WRITE("RLOCK.WACQUIRE", "WRITE"),
    PERMIT("RLOCK.PACQUIRE", null),
    ONCE("RLOCK.ONCE", null);

    final String acquire;
    /** The word for it in RELEASE. */
    final String word;

    Side(String acquire, String word) {
        this.acquire = acquire;
        this.word = word;
    }

    /** Each read hold has its own lease, so that the release of another one changes none. */
    boolean restartsItsLease() {
        return this == PLAIN || this == WRITE;
    }
}
