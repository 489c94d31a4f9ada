import static java.nio.charset.StandardCharsets.UTF_8;

import redis.clients.jedis.commands.ProtocolCommand;

/** The commands' names, as Jedis wants them of a command that it does not know. */
// snippet: commands
enum Rlock implements ProtocolCommand {
    ACQUIRE, RACQUIRE, WACQUIRE, RELEASE, RENEW;

    @Override
    public byte[] getRaw() {
        return ("RLOCK." + name()).getBytes(UTF_8);
    }
}
// end
