package rlock.sample;

import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Service;
import rlock.spring.Locked;

@Service
public class Stock {
    private final StringRedisTemplate redis;

    Stock(StringRedisTemplate redis) {
        this.redis = redis;
    }

    /** Reads and writes: without the lock, updates would be lost. */
    @Locked("stock-lock:#{#item}")
    public void add(String item) {
        String count = redis.opsForValue().get("stock:" + item);
        redis.opsForValue().set("stock:" + item, "" + (count == null ? 1 : Integer.parseInt(count) + 1));
    }
}
