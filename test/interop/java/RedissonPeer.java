// SPDX-License-Identifier: MIT

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock as a peer of the interop tests. Owns one Redisson client and the locks
 * that its one thread has taken, and obeys the commands that ../peers.py describes, and
 * `acquire` again for re-entry, and `count NAME`. A lease of 0 is Redisson's default: its
 * watchdog's, renewed. Must not know lockwire.
 *
 * Happy path: a line on stdin, a call, a line on stdout.
 */
public final class RedissonPeer {
    private final RedissonClient client;
    private RLock lock;

    private RedissonPeer(String url, long watchdogMs) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        config.useSingleServer().setAddress(url)
            .setConnectionMinimumIdleSize(1).setConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1)
            .setSubscriptionConnectionPoolSize(4);
        client = Redisson.create(config);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** The field that stands in the hash while this thread holds. */
    private String field() {
        return client.getId() + ":" + Thread.currentThread().getId();
    }

    private String acquire(String name, long leaseMs, long waitMs)
        throws InterruptedException {
        RLock wanted = client.getLock(name);
        long lease = leaseMs == 0 ? -1 : leaseMs;
        if (waitMs < 0) {
            wanted.lock(lease, TimeUnit.MILLISECONDS);
        } else if (!wanted.tryLock(waitMs, lease, TimeUnit.MILLISECONDS)) {
            return waitMs == 0 ? "busy -" : "timeout";
        }
        lock = wanted;
        return "held " + field();
    }

    private String release() {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException notOurs) {
            return "gone";
        }
        return "released";
    }

    private static long count(String path, long holdMs)
        throws IOException, InterruptedException {
        try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
            long value = Long.parseLong(file.readLine().trim()) + 1;
            Thread.sleep(holdMs);
            file.seek(0);
            file.writeBytes(String.format("%020d%n", value));
            return value;
        }
    }

    private String round(String[] words) throws IOException, InterruptedException {
        boolean locked = words[5].equals("lock");
        long asked = System.nanoTime() / 1000;
        if (locked) {
            acquire(words[1], Long.parseLong(words[2]), -1);
        }
        say("held -");
        long value = count(words[4], Long.parseLong(words[3]));
        long done = System.nanoTime() / 1000;
        String outcome = locked ? release() : "released";
        return "wrote " + value + " " + asked + " " + done + " " + outcome;
    }

    private String obey(String[] words) throws IOException, InterruptedException {
        switch (words[0]) {
        case "acquire":
            return acquire(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
        case "release":
            return release();
        case "count":
            return "count " + client.getLock(words[1]).getHoldCount();
        case "round":
            return round(words);
        default:
            return "error unknown command: " + words[0];
        }
    }

    public static void main(String[] args) throws IOException {
        RedissonPeer peer = new RedissonPeer(args[0], Long.parseLong(args[1]));
        String version = Redisson.class.getPackage().getImplementationVersion();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        say("ready Redisson " + version);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                say(peer.obey(line.split(" ")));
            } catch (Exception error) {
                say("error " + error.toString().replace('\n', ' '));
            }
        }
        peer.client.shutdown();
    }
}
