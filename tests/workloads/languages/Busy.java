import java.util.*;
public class Busy {
    interface Shape { double area(); }
    record Circle(double r) implements Shape { public double area() { return Math.PI * r * r; } }
    record Square(double s) implements Shape { public double area() { return s * s; } }
    static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static double shapes(int n) {
        List<Shape> list = new ArrayList<>();
        for (int i = 0; i < n; i++) list.add(i % 2 == 0 ? new Circle(i) : new Square(i));
        double sum = 0;
        for (Shape s : list) sum += s.area();
        return sum;
    }
    static int strings(int n) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < n; i++) b.append(Integer.toString(i * 31));
        return b.toString().hashCode();
    }
    static long sorting(int n) {
        Integer[] a = new Integer[n];
        for (int i = 0; i < n; i++) a[i] = (i * 7919) % 10007;
        Arrays.sort(a, (x, y) -> y - x);
        Map<Integer, Integer> m = new HashMap<>();
        for (Integer x : a) m.merge(x, 1, Integer::sum);
        return m.size() + a[n / 2];
    }
    static long round() {
        return fib(20) + (long) shapes(3000) + strings(2000) + sorting(2000);
    }
    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[0]);
        int threads = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        Thread[] all = new Thread[threads];
        long[] sums = new long[threads];
        for (int t = 0; t < threads; t++) {
            int me = t;
            all[t] = new Thread(() -> {
                long end = System.nanoTime() + (long) (seconds * 1e9);
                while (System.nanoTime() < end) sums[me] += round();
            }, "busy-" + t);
            all[t].start();
        }
        for (Thread t : all) t.join();
        System.out.println("done " + (sums[0] != 0));
    }
}
