//! Names of what is on every machine: the vDSO, the C library, this very program; compared with
//! binutils where they are installed.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Object;
use object::read::elf::ElfFile64;
use rsys_sampler::resolve::{CacheLocation, ModuleDesc, Resolver, ResolverOptions};

fn resolver() -> Resolver {
    Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        ..ResolverOptions::default()
    })
}

fn build_id(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let elf = ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
    elf.build_id().unwrap().unwrap_or_default().to_vec()
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

/// The path of a library of this process, from the kernel's table.
fn mapped(part: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains(part))
        .map(PathBuf::from)
}

#[test]
fn the_clock_of_the_vdso() {
    // The dynamic symbols of the image in our own memory, read independently of the resolver.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        println!("skipped: no vDSO");
        return;
    };
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let (start, end) = (
        u64::from_str_radix(start, 16).unwrap(),
        u64::from_str_radix(end, 16).unwrap(),
    );
    let mut image = vec![0; (end - start) as usize];
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut image, start).unwrap();
    let elf = ElfFile64::<object::LittleEndian>::parse(&*image).unwrap();
    let build_id = elf.build_id().unwrap().unwrap_or_default().to_vec();
    let clock = elf
        .dynamic_symbols()
        .find(|symbol| object::ObjectSymbol::name(symbol) == Ok("__vdso_clock_gettime"))
        .map(|symbol| object::ObjectSymbol::address(&symbol));
    let Some(clock) = clock else {
        println!("skipped: no __vdso_clock_gettime");
        return;
    };

    let resolver = resolver();
    for path in ["[vdso]", "linux-vdso.so.1"] {
        let module = resolver.module(&ModuleDesc::new(path, build_id.clone()));
        let frames = resolver.resolve(module, &[clock]);
        assert!(
            frames[0][0].name.contains("clock_gettime"),
            "{:?} {:?}",
            frames[0],
            resolver.problems()
        );
        assert_eq!(frames[0][0].function_start, clock);
    }
    let other = resolver.module(&ModuleDesc::new("[vdso]", vec![1; 20]));
    assert_eq!(
        &*resolver.resolve(other, &[clock])[0][0].name,
        format!("[vdso]+{clock:#x}")
    );
    assert_eq!(resolver.stats().modules_replaced, 1);
}

/// Each address of a function that `nm` lists must get a name that `nm` gives to a function that
/// holds the address.
#[test]
fn the_c_library_as_nm_sees_it() {
    let Some(path) = mapped("libc.so").or_else(|| mapped("libc-")) else {
        println!("skipped: no C library is mapped");
        return;
    };
    let output = Command::new("nm")
        .args(["-D", "-S", "--defined-only"])
        .arg(&path)
        .output();
    let Ok(output) = output else {
        println!("skipped: nm is missing");
        return;
    };
    let mut functions = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, size, kind, name] = words[..] else {
            continue;
        };
        if !matches!(kind, "T" | "t" | "W" | "i") {
            continue;
        }
        let start = u64::from_str_radix(start, 16).unwrap();
        let size = u64::from_str_radix(size, 16).unwrap();
        let name = name.split('@').next().unwrap().to_owned();
        functions.push((start, start + size, name));
    }
    assert!(functions.len() > 500);

    // Without separate debug files, which have the names of the source instead.
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        debug_dirs: Vec::new(),
        ..ResolverOptions::default()
    });
    let module = resolver.module(&ModuleDesc::new(&path, build_id(&path)));
    let addresses: Vec<u64> = functions
        .iter()
        .flat_map(|(start, end, _)| random_addresses(*start..*end, 2))
        .collect();
    for (address, frames) in addresses.iter().zip(resolver.resolve(module, &addresses)) {
        let holders: HashSet<&str> = functions
            .iter()
            .filter(|(start, end, _)| (*start..*end).contains(address))
            .map(|(_, _, name)| name.as_str())
            .collect();
        let name = &*frames.last().unwrap().name;
        assert!(
            holders.contains(name),
            "{address:#x}: {name} is not of {holders:?}"
        );
    }
    println!(
        "{} addresses in {} functions",
        addresses.len(),
        functions.len()
    );
}

/// One frame as `addr2line` prints it.
type Frame = (String, String);

fn addr2line(path: &Path, addresses: &[u64]) -> Option<Vec<Vec<Frame>>> {
    let mut child = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-C", "-e"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let text: String = addresses
        .iter()
        .map(|address| format!("{address:#x}\n"))
        .collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all: Vec<Vec<Frame>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
        } else {
            let place = lines.next()?;
            all.last_mut()?
                .push((line.to_owned(), place.split(" (").next()?.to_owned()));
        }
    }
    (all.len() == addresses.len()).then_some(all)
}

/// A program with much of the standard library in it, with its debug information in one piece.
fn program(folder: &Path) -> Option<PathBuf> {
    let source = r#"
        use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
        fn main() {
            let words: Vec<String> = std::env::args().flat_map(|a| (0..9).map(move |n| format!("{a}{n:?}"))).collect();
            let mut sorted = words.clone();
            sorted.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
            let counts: HashMap<&str, usize> = words.iter().map(|w| (w.as_str(), w.len())).collect();
            let tree: BTreeMap<String, f64> = words.iter().map(|w| (w.to_uppercase(), w.len() as f64 / 3.0)).collect();
            let heap: BinaryHeap<u64> = words.iter().filter_map(|w| w.parse().ok()).collect();
            let queue: VecDeque<char> = words.iter().flat_map(|w| w.chars().rev()).collect();
            let all = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let thread = std::thread::spawn(move || all.lines().map(str::trim).map(str::len).sum::<usize>());
            println!("{sorted:?} {counts:?} {tree:#?} {heap:?} {queue:?} {:?}", thread.join());
        }"#;
    let (file, program) = (folder.join("program.rs"), folder.join("program"));
    std::fs::write(&file, source).ok()?;
    let status = Command::new("rustc")
        .args(["-O", "-g", "-Clink-arg=-Wl,--build-id", "-o"])
        .args([&program, &file])
        .status()
        .ok()?;
    status.success().then_some(program)
}

/// Functions, inlines and lines of a few thousand addresses of a Rust program.
#[test]
fn a_program_as_addr2line_sees_it() {
    let folder = std::env::temp_dir().join(format!("rsys-addr2line-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let Some(path) = program(&folder) else {
        println!("skipped: rustc is missing");
        return;
    };
    let bytes = std::fs::read(&path).unwrap();
    let elf = ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
    let text = object::ObjectSection::address(&elf.section_by_name(".text").unwrap());
    let size = object::ObjectSection::size(&elf.section_by_name(".text").unwrap());
    let addresses = random_addresses(text..text + size, 3_000);
    let Some(expected) = addr2line(&path, &addresses) else {
        println!("skipped: addr2line is missing");
        return;
    };
    let resolver = resolver();
    let module = resolver.module(&ModuleDesc::new(&path, build_id(&path)));
    let found = resolver.resolve(module, &addresses);

    let (mut known, mut same_function, mut same_lines, mut same_depth) = (0, 0, 0, 0);
    let mut differences: HashMap<String, u32> = HashMap::new();
    for (expected, found) in expected.iter().zip(&found) {
        let Some((function, _)) = expected.last() else {
            continue;
        };
        if function == "??" {
            continue;
        }
        known += 1;
        let name = &found.last().unwrap().name;
        if plain(function) == plain(name) {
            same_function += 1;
        } else {
            *differences
                .entry(format!("{function} / {name}"))
                .or_default() += 1;
        }
        same_depth += usize::from(expected.len() == found.len());
        let lines: Vec<Option<u32>> = expected
            .iter()
            .map(|(_, place)| {
                place
                    .rsplit(':')
                    .next()?
                    .parse()
                    .ok()
                    .filter(|&line| line != 0)
            })
            .collect();
        let ours: Vec<Option<u32>> = found
            .iter()
            .map(|frame| frame.line.filter(|&line| line != 0))
            .collect();
        same_lines += usize::from(lines == ours);
    }
    println!(
        "of {known} known to addr2line: same function {same_function}, same depth {same_depth}, same lines {same_lines}"
    );
    for (difference, count) in differences.iter().take(40) {
        println!("  {count} × {difference}");
    }
    assert!(known > 2_000, "the program has debug information");
    assert!(same_function * 100 >= known * 97);
    assert!(same_depth * 100 >= known * 95);
    assert!(same_lines * 100 >= known * 95);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Demanglers differ in blanks and in how they show hashes and long arguments: the letters up to
/// the first bracket count.
fn plain(name: &str) -> String {
    let short: String = name
        .chars()
        .filter(|character| !character.is_whitespace())
        .take(80)
        .collect();
    short.split("::h").next().unwrap_or_default().to_owned()
}
