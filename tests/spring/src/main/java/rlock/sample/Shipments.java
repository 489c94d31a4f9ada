package rlock.sample;

import org.springframework.cache.annotation.Cacheable;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import rlock.spring.Locked;

@Service
public class Shipments {
    private final JdbcTemplate database;

    Shipments(JdbcTemplate database) {
        this.database = database;
    }

    // snippet: locked
    /** Ships an order once, whichever host is asked. The lock is released after the commit. */
    @Locked("orders:#{#id}")
    @Transactional
    public boolean ship(long id) {
        if (database.queryForObject("select count(*) from shipments where id = ?", Integer.class, id) > 0) {
            return false;
        }
        database.update("insert into shipments values (?, current_timestamp)", id);
        return true;
    }
    // end

    /** From the cache, which is in Redis too. */
    @Cacheable("labels")
    public String label(long id) {
        return "order " + id + ", made at " + System.nanoTime();
    }
}
