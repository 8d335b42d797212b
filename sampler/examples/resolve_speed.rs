//! How fast addresses of an ELF file become names: this resolver, its disk cache, and the
//! `addr2line` command, in one run.
//!
//! `cargo run --release -p rsys-sampler --example resolve_speed -- FILE… [--addresses N]
//! [--no-addr2line]`
//!
//! Several files are resolved together, as at the end of a run. Each measurement is a process of
//! its own, so that peak memory is its own too.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use rsys_sampler::resolve::{CacheLocation, ModuleDesc, ModuleId, Resolver, ResolverOptions};

struct Options {
    files: Vec<PathBuf>,
    addresses: usize,
    addr2line: bool,
    /// Set in child processes: the cache to use.
    measure: Option<PathBuf>,
}

fn main() {
    let mut options = Options {
        files: Vec::new(),
        addresses: 10_000,
        addr2line: true,
        measure: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--addresses" => {
                options.addresses = arguments
                    .next()
                    .and_then(|count| count.parse().ok())
                    .unwrap_or(10_000);
            }
            "--no-addr2line" => options.addr2line = false,
            "--measure" => options.measure = arguments.next().map(PathBuf::from),
            file => options.files.push(PathBuf::from(file)),
        }
    }
    if let Some(cache) = options.measure.take() {
        measure(&options, cache);
        return;
    }
    if options.files.is_empty() {
        options.files.extend(std::env::current_exe());
    }

    let cache = std::env::temp_dir().join(format!("rsys-resolve-speed-{}", std::process::id()));
    println!(
        "{} files, {} addresses each",
        options.files.len(),
        options.addresses
    );
    for name in ["first run", "second run"] {
        let status = Command::new(std::env::current_exe().expect("our own path"))
            .args(["--addresses", &options.addresses.to_string(), "--measure"])
            .arg(&cache)
            .args(&options.files)
            .env("RESOLVE_SPEED_NAME", name)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            println!("{name}: failed");
        }
    }
    if let Err(error) = std::fs::remove_dir_all(&cache) {
        println!("{}: {error}", cache.display());
    }
    if options.addr2line {
        run_addr2line(&options);
    }
}

fn measure(options: &Options, cache: PathBuf) {
    let name = std::env::var("RESOLVE_SPEED_NAME").unwrap_or_default();
    let mut files = Vec::new();
    for path in &options.files {
        match text_of(path) {
            Some((text, build_id)) => {
                files.push((path, random_addresses(text, options.addresses), build_id))
            }
            None => println!("{}: not an ELF file with code", path.display()),
        }
    }
    let rss_before_kb = peak_rss_kb();
    let started = Instant::now();
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Directory(cache),
        ..ResolverOptions::default()
    });
    let requests: Vec<(ModuleId, Vec<u64>)> = files
        .into_iter()
        .map(|(path, addresses, build_id)| {
            (resolver.module(&ModuleDesc::new(path, build_id)), addresses)
        })
        .collect();
    let results = resolver.resolve_many(&requests);
    let resolved = started.elapsed();
    resolver.flush();
    let flushed = started.elapsed() - resolved;
    let frames: usize = results.iter().flatten().map(|frames| frames.len()).sum();
    let named = results
        .iter()
        .flatten()
        .filter(|frames| frames[0].function_start != 0)
        .count();
    println!(
        "{name:>11}: {resolved:>9.1?}, cache written in {flushed:>8.1?}, peak RSS {:>4} MB ({} MB before), {named} named, {frames} frames, {:?}",
        peak_rss_kb() / 1024,
        rss_before_kb / 1024,
        resolver.stats()
    );
    for (_, path, problem) in resolver.problems() {
        println!("  {}: {problem}", path.display());
    }
}

fn run_addr2line(options: &Options) {
    let mut total = Duration::ZERO;
    let mut peak_kb = 0;
    for path in &options.files {
        let Some((text, _)) = text_of(path) else {
            continue;
        };
        let input: String = random_addresses(text, options.addresses)
            .iter()
            .map(|address| format!("{address:#x}\n"))
            .collect();
        let started = Instant::now();
        let child = Command::new("addr2line")
            .args(["-i", "-f", "-C", "-e"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                println!("addr2line: {error}");
                return;
            }
        };
        if let Some(mut stdin) = child.stdin.take()
            && stdin.write_all(input.as_bytes()).is_err()
        {
            println!("addr2line stopped early");
        }
        if child.wait().is_err() {
            println!("addr2line was lost");
        }
        total += started.elapsed();
        peak_kb = peak_kb.max(children_peak_rss_kb());
    }
    println!(
        "  addr2line: {total:>9.1?}, peak RSS of all children so far {} MB",
        peak_kb / 1024
    );
}

fn text_of(path: &Path) -> Option<(std::ops::Range<u64>, Vec<u8>)> {
    let data = object::ReadCache::new(std::fs::File::open(path).ok()?);
    let elf = ElfFile64::<object::LittleEndian, _>::parse(&data).ok()?;
    let text = elf.section_by_name(".text")?;
    let range = text.address()..text.address() + text.size();
    let build_id = elf.build_id().ok()?.unwrap_or_default().to_vec();
    (!range.is_empty()).then_some((range, build_id))
}

fn random_addresses(range: std::ops::Range<u64>, count: usize) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            range.start + (state >> 20) % (range.end - range.start)
        })
        .collect()
}

fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

fn children_peak_rss_kb() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0))
}
