// SPDX-License-Identifier: MIT

import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson: one client for all threads. The locks have no lease of their own, so that its
 * watchdog renews them. Variants: lock, fair, fenced. Owns the use of the peer, Workloads the
 * rest.
 */
public final class Peer {
    private Peer() {
    }

    private static Workloads.Locks open(Workloads.Options options) {
        Config config = new Config();
        config.setLockWatchdogTimeout(options.leaseMs);
        connect(config, options.url);
        RedissonClient client = Redisson.create(config);
        return new Workloads.Locks() {
            @Override
            public Runnable acquire(String name) {
                switch (options.variant) {
                case "fair":
                    return plain(client.getFairLock(name));
                case "fenced":
                    RFencedLock lock = client.getFencedLock(name);
                    lock.lockAndGetToken();
                    return lock::unlock;
                default:
                    return plain(client.getLock(name));
                }
            }

            @Override
            public Runnable acquireAll(String[] names) {
                RLock[] locks = new RLock[names.length];
                java.util.Arrays.setAll(locks, i -> client.getLock(names[i]));
                return plain(client.getMultiLock(locks));
            }
        };
    }

    /** Configures redis-sentinel://host:port,host:port/service,
     * redis-cluster://host:port,host:port, or a server. */
    private static void connect(Config config, String url) {
        String[] parts = url.substring(url.indexOf("//") + 2).split("/");
        String[] places = parts[0].split(",");
        for (int i = 0; i < places.length; i++)
            places[i] = "redis://" + places[i];
        if (url.startsWith("redis-sentinel://"))
            config.useSentinelServers().setMasterName(parts[1]).addSentinelAddress(places);
        else if (url.startsWith("redis-cluster://"))
            config.useClusterServers().addNodeAddress(places);
        else
            config.useSingleServer().setAddress(url);
    }

    private static Runnable plain(RLock lock) {
        lock.lock();
        return lock::unlock;
    }

    public static void main(String[] words) throws Exception {
        String version = Redisson.class.getPackage().getImplementationVersion();
        Workloads.run(words, "Redisson " + (version == null ? "4.7.0" : version), Peer::open);
    }
}
