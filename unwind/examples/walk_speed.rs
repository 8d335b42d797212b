//! What a walk costs, side by side with framehop in the same run: `cargo run --release -p rsys-unwind --example walk_speed`.
//!
//! "warm": the rules of all frames are cached. "cold": an empty cache (for framehop: one that is made new, outside the measured
//! time, for every walk). "no cache": the tables are read for every frame. Figures are medians, "p50" and "p99" those of walks that
//! were timed one by one; both engines read memory without a guard.

#[path = "../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/common/machine.rs"]
mod machine;

mod bench {
    use std::hint::black_box;
    use std::time::Instant;

    use rsys_unwind::{CfiEngine, Engine, FrameBuffer, FramehopEngine, Modules, Registers};

    use super::common::{DirectMemory, OwnModules, cache, framehop_modules};
    use super::machine;

    /// `OwnModules` under a generation, so that one cache can be made cold.
    struct Generation(u32);

    impl Modules for Generation {
        fn find(&self, pc: u64) -> Option<rsys_unwind::ModuleTables> {
            OwnModules.find(pc)
        }
        fn generation(&self) -> u32 {
            self.0
        }
    }

    fn median(mut nanoseconds: Vec<f64>) -> f64 {
        nanoseconds.sort_by(f64::total_cmp);
        nanoseconds[nanoseconds.len() / 2]
    }

    fn walk(engine: &mut impl Engine, registers: &Registers, modules: &Generation) -> usize {
        let mut words = [0; 256];
        let mut frames = FrameBuffer::new(&mut words);
        black_box(engine.walk(registers, &DirectMemory, modules, &mut frames));
        frames.len()
    }

    /// Nanoseconds per walk when the same engine walks again and again.
    fn repeated(engine: &mut impl Engine, registers: &Registers) -> f64 {
        const WALKS: u32 = 100;
        let times = (0..200).map(|_| {
            let start = Instant::now();
            for _ in 0..WALKS {
                walk(engine, registers, &Generation(1));
            }
            start.elapsed().as_nanos() as f64 / f64::from(WALKS)
        });
        median(times.collect())
    }

    /// The median and the 99th percentile of single walks, in nanoseconds, the clock's own time taken off.
    fn single(engine: &mut impl Engine, registers: &Registers) -> (f64, f64) {
        let clock = median(
            (0..2000)
                .map(|_| Instant::now().elapsed().as_nanos() as f64)
                .collect(),
        );
        let mut times: Vec<f64> = (0..20_000)
            .map(|_| {
                let start = Instant::now();
                walk(engine, registers, &Generation(1));
                start.elapsed().as_nanos() as f64 - clock
            })
            .collect();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() * 99 / 100])
    }

    fn measure(registers: &Registers) {
        let mut ours = CfiEngine::new(cache(8192));
        let depth = walk(&mut ours, registers, &Generation(1));
        let mut framehop = FramehopEngine::new(framehop_modules());
        let framehop_depth = walk(&mut framehop, registers, &Generation(1));

        let mut generation = 1;
        let cold = median(
            (0..2000)
                .map(|_| {
                    generation += 1;
                    let start = Instant::now();
                    walk(&mut ours, registers, &Generation(generation));
                    start.elapsed().as_nanos() as f64
                })
                .collect(),
        );
        let framehop_cold = median(
            (0..200)
                .map(|_| {
                    let mut fresh = FramehopEngine::new(framehop_modules());
                    let start = Instant::now();
                    walk(&mut fresh, registers, &Generation(1));
                    start.elapsed().as_nanos() as f64
                })
                .collect(),
        );
        let warm = repeated(&mut ours, registers);
        let framehop_warm = repeated(&mut framehop, registers);
        let (median, slow) = single(&mut ours, registers);
        let (framehop_median, framehop_slow) = single(&mut framehop, registers);
        let uncached = repeated(&mut CfiEngine::without_cache(), registers);
        for (name, ours, theirs) in [
            ("warm", warm, framehop_warm),
            ("warm p50", median, framehop_median),
            ("warm p99", slow, framehop_slow),
            ("cold", cold, framehop_cold),
            ("no cache", uncached, framehop_cold),
        ] {
            println!(
                "{depth:>4} frames  {name:<9} cfi {ours:>8.0} ns ({:>5.1}/frame)   framehop {theirs:>8.0} ns ({:>5.1}/frame)   ratio {:.2}",
                ours / depth as f64,
                theirs / framehop_depth as f64,
                theirs / ours
            );
        }
    }

    macro_rules! chain {
        ($($name:ident $next:ident),*) => {
            $(
                #[inline(never)]
                fn $name(depth: u32) -> u32 {
                    if depth == 0 {
                        return leaf();
                    }
                    black_box($next(depth - 1)) + 1
                }
            )*
        };
    }

    // Many functions, so that the frames of a walk have different addresses.
    chain!(
        a0 a1, a1 a2, a2 a3, a3 a4, a4 a5, a5 a6, a6 a7, a7 a8, a8 a9, a9 b0,
        b0 b1, b1 b2, b2 b3, b3 b4, b4 b5, b5 b6, b6 b7, b7 b8, b8 b9, b9 c0,
        c0 c1, c1 c2, c2 c3, c3 c4, c4 c5, c5 c6, c6 c7, c7 c8, c8 c9, c9 a0
    );

    #[inline(never)]
    fn leaf() -> u32 {
        let mut words = [0; 16];
        machine::capture(&mut words);
        let registers = machine::registers(&words);
        measure(&registers);
        0
    }

    pub fn main() {
        // The frames below `measure` add ten.
        for depth in [0, 22, 90] {
            black_box(a0(black_box(depth)));
        }
    }
}

fn main() {
    bench::main();
}
