//! Files that change, vanish, are cached or damaged.

use super::*;

#[test]
fn a_replaced_file_gives_no_names() {
    let directory = Directory::new("replaced");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let start = program.range("outer").start;
    directory.file(
        "nested.c",
        "int other(void) { return 1; } int main(void) { return other(); }",
    );
    assert!(run(
        &directory,
        "gcc",
        &["-Wl,--build-id", "nested.c", "-o", "nested"]
    ));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[start, start]);
    assert_eq!(frames.len(), 2);
    assert_eq!(names(&frames[0]), [format!("nested+{start:#x}")]);
    assert!(matches!(
        resolver.problems()[0].2,
        ModuleProblem::BuildIdMismatch { .. }
    ));
    let stats = resolver.stats();
    assert_eq!(
        (
            stats.modules_unusable,
            stats.modules_replaced,
            stats.unresolved
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_missing_file_is_found_in_the_root_of_its_process() {
    let directory = Directory::new("root");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let root = directory.path("root");
    fs::create_dir_all(root.join("app")).unwrap();
    fs::rename(&program.path, root.join("app/nested")).unwrap();
    let mut desc = ModuleDesc::new("/app/nested (deleted)", program.build_id.clone());
    let resolver = directory.resolver(CacheLocation::Disabled);
    let start = program.range("outer").start;

    let module = resolver.module(&desc);
    assert_eq!(
        names(&resolver.resolve(module, &[start])[0]),
        [format!("nested+{start:#x}")]
    );
    assert_eq!(resolver.stats().modules_missing, 1);

    // Another process knows the way.
    desc.root = Some(root);
    assert_eq!(resolver.module(&desc), module);
    assert_nested(&resolver, &desc, program.range("outer"));
    assert_eq!(resolver.stats().modules_missing, 0);
}

#[test]
fn a_later_run_opens_no_file() {
    let directory = Directory::new("cache");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let cache = CacheLocation::Directory(directory.path("cache"));
    let addresses: Vec<u64> =
        (program.range("outer").start - 64..program.range("outer").end + 64).collect();
    let answer = |resolver: &Resolver| -> Vec<Arc<[Symbolized]>> {
        resolver.resolve(resolver.module(&program.desc()), &addresses)
    };

    let first_run = directory.resolver(cache.clone());
    let expected = answer(&first_run);
    assert_eq!(first_run.stats().modules_opened, 1);
    drop(first_run);

    let second_run = directory.resolver(cache.clone());
    assert_eq!(answer(&second_run), expected);
    let stats = second_run.stats();
    assert_eq!(
        (stats.modules_opened, stats.disk_hits),
        (0, addresses.len() as u64)
    );
    drop(second_run);

    // A damaged file is not believed, and replaced.
    let file = fs::read_dir(directory.path("cache/symbols"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 0xff;
    fs::write(&file, &bad).unwrap();
    let third_run = directory.resolver(cache.clone());
    assert_eq!(answer(&third_run), expected);
    assert_eq!(third_run.stats().cache_files_rejected, 1);
    drop(third_run);
    assert_eq!(fs::read(&file).unwrap().len(), good.len());

    // The file was stripped since (same build-id): old names could be better, but are not of this
    // file.
    assert!(run(&directory, "strip", &["-o", "stripped", "nested"]));
    fs::rename(directory.path("stripped"), &program.path).unwrap();
    let fourth_run = directory.resolver(cache.clone());
    let frames = answer(&fourth_run);
    assert_eq!(fourth_run.stats().modules_opened, 1);
    assert_ne!(frames, expected);
    drop(fourth_run);

    // It was removed: what is known is all there is.
    fs::write(&file, &good).unwrap();
    fs::remove_file(&program.path).unwrap();
    assert_eq!(
        names(&answer(&directory.resolver(cache))[70]).last(),
        Some(&"outer")
    );
}

#[test]
fn a_file_without_build_id_is_known_by_its_time_and_size() {
    let directory = Directory::new("no-build-id");
    let Some(program) = compile_nested(&directory, &["-Wl,--build-id=none"]) else {
        return;
    };
    assert!(program.build_id.is_empty());
    let cache = CacheLocation::Directory(directory.path("cache"));
    let mut opened = Vec::new();
    for run in 0..3 {
        if run == 2 {
            let later = std::time::SystemTime::now() + Duration::from_secs(1);
            let file = fs::File::options()
                .append(true)
                .open(&program.path)
                .unwrap();
            file.set_modified(later).unwrap();
        }
        let resolver = directory.resolver(cache.clone());
        assert_nested(&resolver, &program.desc(), program.range("outer"));
        opened.push(resolver.stats().modules_opened);
    }
    assert_eq!(opened, [1, 0, 1]);
}

#[test]
fn other_inline_options_do_not_share_results() {
    let directory = Directory::new("options");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let cache = CacheLocation::Directory(directory.path("cache"));
    let outer: Vec<u64> = program.range("outer").collect();
    for inlines in [true, false, true] {
        let resolver = Resolver::new(ResolverOptions {
            cache: cache.clone(),
            inlines,
            ..ResolverOptions::default()
        });
        let module = resolver.module(&program.desc());
        let depth = resolver
            .resolve(module, &outer)
            .iter()
            .map(|frames| frames.len())
            .max();
        assert_eq!(depth, Some(if inlines { 3 } else { 1 }));
    }
}

/// Copies of a program with random damage: any answer is right, as long as there is one.
#[test]
fn damaged_files_do_no_harm() {
    let directory = Directory::new("damaged");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let good = fs::read(&program.path).unwrap();
    let addresses: Vec<u64> = program
        .range("outer")
        .chain([0, 1, u64::MAX, 1 << 63])
        .collect();
    let mut state = 99_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        open_idle_max: Duration::from_millis(10),
        ..ResolverOptions::default()
    });
    let mut requests = Vec::new();
    for index in 0..400 {
        let mut bad = good.clone();
        for _ in 0..1 + random(30) {
            // Headers at both ends, debug sections in between.
            let at = match random(3) {
                0 => random(64.min(bad.len())),
                1 => bad.len() - 1 - random(2_000),
                _ => random(bad.len()),
            };
            bad[at] = random(256) as u8;
        }
        if random(4) == 0 {
            bad.truncate(random(good.len()));
        }
        let path = directory.path(&format!("bad{index}"));
        fs::write(&path, &bad).unwrap();
        requests.push((
            resolver.module(&ModuleDesc::new(&path, Vec::new())),
            addresses.clone(),
        ));
    }
    for frames in resolver.resolve_many(&requests) {
        assert_eq!(frames.len(), addresses.len());
        assert!(frames.iter().all(|frames| !frames.is_empty()));
    }
    println!("{:?}", resolver.stats());
}

#[test]
fn many_threads_share_a_resolver() {
    let directory = Directory::new("threads");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        threads: 3,
        open_bytes_max: 1,
        ..ResolverOptions::default()
    });
    let addresses: Vec<u64> = program.range("outer").collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (resolver, program, addresses) = (&resolver, &program, &addresses);
            scope.spawn(move || {
                for round in 0..20 {
                    resolver.set_background((thread + round) % 5 == 0);
                    let module = resolver.module(&program.desc());
                    let slice = &addresses[..1 + (thread * 7 + round) % addresses.len()];
                    for frames in resolver.resolve(module, slice) {
                        assert_eq!(&*frames.last().unwrap().name, "outer");
                    }
                }
            });
        }
    });
    assert_eq!(resolver.stats().modules, 1);
}

#[test]
fn what_cannot_be_cached_is_still_resolved() {
    let directory = Directory::new("no-cache");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let blocked = directory.file("blocked", "a file where the directory should be");
    let resolver = directory.resolver(CacheLocation::Directory(blocked));
    assert_nested(&resolver, &program.desc(), program.range("outer"));
    resolver.flush();
}

#[test]
fn paths_that_are_no_files() {
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        ..ResolverOptions::default()
    });
    for (path, expected) in [
        ("[heap]", "[heap]+0x10"),
        ("", "[anonymous]+0x10"),
        ("/dev/zero", "zero+0x10"),
        ("/dev/shm/gone (deleted)", "gone+0x10"),
        ("relative.so", "relative.so+0x10"),
    ] {
        let module = resolver.module(&ModuleDesc::new(Path::new(path), Vec::new()));
        assert_eq!(names(&resolver.resolve(module, &[0x10])[0]), [expected]);
    }
    assert_eq!(resolver.problems().len(), 5);
}
