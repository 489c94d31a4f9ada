package kotlin.coroutines;

/** Stands for Kotlin's own: the last parameter of each compiled {@code suspend} function. */
public interface Continuation<T> {
}
