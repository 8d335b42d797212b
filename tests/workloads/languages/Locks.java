import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.*;

/** Threads that share monitors, locks and queues, and make garbage meanwhile. Arguments: threads, rounds. */
class Locks {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock(true);
    static final ReadWriteLock readWrite = new ReentrantReadWriteLock();
    static long inMonitor, inLock, inReadWrite;

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]), rounds = Integer.parseInt(arguments[1]);
        var queue = new LinkedBlockingQueue<Integer>(16);
        var taken = new AtomicLong();
        var all = new Thread[2 * threads];
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(() -> {
                for (int round = 0; round < rounds; round++) {
                    var garbage = new byte[4096];
                    synchronized (monitor) { inMonitor += garbage.length / 4096; }
                    lock.lock();
                    try { inLock++; } finally { lock.unlock(); }
                    readWrite.writeLock().lock();
                    try { inReadWrite++; } finally { readWrite.writeLock().unlock(); }
                    try { queue.put(1); } catch (InterruptedException error) { throw new RuntimeException(error); }
                }
            });
            all[threads + i] = new Thread(() -> {
                for (int round = 0; round < rounds; round++) {
                    try { taken.addAndGet(queue.take()); } catch (InterruptedException error) { throw new RuntimeException(error); }
                }
            });
        }
        for (var thread : all) thread.start();
        for (var thread : all) thread.join();
        System.gc();
        System.out.println(inMonitor + " " + inLock + " " + inReadWrite + " " + taken.get());
    }
}
