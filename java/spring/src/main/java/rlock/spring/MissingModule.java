package rlock.spring;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import rlock.redisson.RlockMissingException;

/** Says in a line why the application did not start. */
final class MissingModule extends AbstractFailureAnalyzer<RlockMissingException> {
    @Override
    protected FailureAnalysis analyze(Throwable failure, RlockMissingException missing) {
        // Behind the colon is what Redisson knows of the connection.
        return new FailureAnalysis("rlock: " + missing.getMessage().replaceFirst("(?s):.*", "."),
                "Load the module on every master, or set rlock.required=false to use Redisson's own locks without it.",
                missing);
    }
}
