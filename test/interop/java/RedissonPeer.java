// SPDX-License-Identifier: MIT

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock as a peer of the interop tests. Owns one Redisson client and the locks that
 * its one thread has taken, and obeys the commands that ../peers.py describes. Further commands:
 * `acquire` again re-enters; `count NAME`; `kind KIND` chooses Redisson's lock for later
 * `acquire` commands (lock, spin, fenced, fair, read, write); `force NAME` unlocks it for any
 * holder; `grants` lets this thread take a name that many times; `slots` lets other threads do so
 * until `stop`. A lease of 0 is Redisson's default: the watchdog's, renewed. Independent of
 * lockwire.
 *
 * Usual course: a line on stdin, a call, a line on stdout.
 */
public final class RedissonPeer {
    private static final int REPLY_MS = 30000; // the default of 3 s is too short on a slow machine

    private final RedissonClient client;
    private RLock lock;
    private String kind = "lock";
    private final List<Thread> slots = new ArrayList<>();
    private final AtomicLong slotGrants = new AtomicLong();
    private volatile boolean stopping;

    private RedissonPeer(String url, long watchdogMs, boolean cluster) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        if (cluster) {
            config.useClusterServers().addNodeAddress(url).setTimeout(REPLY_MS);
        } else {
            config.useSingleServer().setAddress(url).setTimeout(REPLY_MS)
                .setConnectionMinimumIdleSize(1).setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(4);
        }
        client = Redisson.create(config);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Returns the field of this thread in the hash while it holds. */
    private String field() {
        return client.getId() + ":" + Thread.currentThread().getId();
    }

    private RLock find(String name) {
        switch (kind) {
        case "spin":
            return client.getSpinLock(name);
        case "fenced":
            return client.getFencedLock(name);
        case "fair":
            return client.getFairLock(name);
        case "read":
            return client.getReadWriteLock(name).readLock();
        case "write":
            return client.getReadWriteLock(name).writeLock();
        default:
            return client.getLock(name);
        }
    }

    private String acquire(String name, long leaseMs, long waitMs)
        throws InterruptedException {
        RLock wanted = find(name);
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

    private void once(String name, long leaseMs, long holdMs) throws InterruptedException {
        RLock wanted = client.getLock(name);
        wanted.lock(leaseMs, TimeUnit.MILLISECONDS);
        Thread.sleep(holdMs);
        wanted.unlock();
    }

    /** Acquires and releases so many times. Returns the time that it took, in milliseconds. */
    private String grants(String[] words) throws InterruptedException {
        long asked = System.nanoTime();
        for (long left = Long.parseLong(words[4]); left > 0; left--) {
            once(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
        }
        return "took " + (System.nanoTime() - asked) / 1_000_000;
    }

    private void slot(String[] words) {
        try {
            while (!stopping) {
                once(words[2], Long.parseLong(words[3]), Long.parseLong(words[4]));
                slotGrants.incrementAndGet();
            }
        } catch (InterruptedException | RuntimeException error) {
            say("error slot: " + error);
        }
    }

    private String startSlots(String[] words) {
        stopping = false;
        slotGrants.set(0);
        for (long left = Long.parseLong(words[1]); left > 0; left--) {
            Thread thread = new Thread(() -> slot(words));
            slots.add(thread);
            thread.start();
        }
        return "started";
    }

    private String stopSlots() throws InterruptedException {
        stopping = true;
        for (Thread thread : slots) {
            thread.join();
        }
        slots.clear();
        return "stopped " + slotGrants.get();
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
        case "force":
            return "forced " + find(words[1]).forceUnlock();
        case "round":
            return round(words);
        case "kind":
            kind = words[1];
            return "kind " + kind;
        case "grants":
            return grants(words);
        case "slots":
            return startSlots(words);
        case "stop":
            return stopSlots();
        default:
            return "error unknown command: " + words[0];
        }
    }

    public static void main(String[] args) throws IOException {
        RedissonPeer peer =
            new RedissonPeer(args[0], Long.parseLong(args[1]), args.length > 2);
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
