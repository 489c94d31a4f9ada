package rlock.redisson;

/** What a request is for, as the commands name it: a lock, one side of it, a permit, or a lock or its answer. */
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

    /** Each read hold has its own lease, so that the release of another hold does not change it. */
    boolean restartsItsLease() {
        return this == PLAIN || this == WRITE;
    }
}
