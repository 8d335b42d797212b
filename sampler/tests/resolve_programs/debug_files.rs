//! Inlined functions, and debug information beside programs.

use super::*;

#[test]
fn inlined_functions_have_frames_and_lines() {
    let directory = Directory::new("inlines");
    for options in [&["-gdwarf-4"][..], &["-gdwarf-5"], &["-gz=zlib"]] {
        let Some(program) = compile_nested(&directory, options) else {
            continue;
        };
        println!("with {options:?}");
        let resolver = directory.resolver(CacheLocation::Disabled);
        assert_nested(&resolver, &program.desc(), program.range("outer"));
        let module = resolver.module(&program.desc());
        let frames = resolver.resolve(module, &[program.range("free_").start]);
        assert_eq!(
            names(&frames[0]),
            ["free_"],
            "a C function keeps its underscore"
        );
        assert_eq!(frames[0][0].mangled, None);
    }
}

#[test]
fn without_inlines_there_is_one_frame() {
    let directory = Directory::new("no-inlines");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        inlines: false,
        ..ResolverOptions::default()
    });
    let module = resolver.module(&program.desc());
    for frames in resolver.resolve(module, &program.range("outer").collect::<Vec<_>>()) {
        assert_eq!(names(&frames), ["outer"]);
    }
}

#[test]
fn split_dwarf_in_a_package() {
    let directory = Directory::new("dwp");
    directory.file("nested.c", NESTED_C);
    if !run(
        &directory,
        "gcc",
        &["-O2", "-gdwarf-4", "-gsplit-dwarf", "-c", "nested.c"],
    ) || !run(
        &directory,
        "gcc",
        &["-Wl,--build-id", "nested.o", "-o", "nested"],
    ) || !run(&directory, "dwp", &["-e", "nested", "-o", "nested.dwp"])
    {
        return;
    }
    let program = Program::open(directory.path("nested"));
    fs::remove_file(directory.path("nested.dwo")).unwrap_or_default();
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );
}

#[test]
fn separate_debug_file_by_build_id() {
    let directory = Directory::new("by-build-id");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    let id: String = program
        .build_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let place = directory.path("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&place).unwrap();
    let debug = place.join(format!("{}.debug", &id[2..]));
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", debug.to_str().unwrap()],
    ) || !run(&directory, "strip", &["nested"])
    {
        return;
    }
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );

    // The debug file serves even when the program itself is gone.
    fs::remove_file(&program.path).unwrap();
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );
}

#[test]
fn separate_debug_file_by_link() {
    let directory = Directory::new("by-link");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", "nested.debug"],
    ) || !run(
        &directory,
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=nested.debug", "nested"],
    ) {
        return;
    }
    assert_nested(
        &directory.resolver(CacheLocation::Disabled),
        &program.desc(),
        program.range("outer"),
    );

    // A link to a file that was changed since must not cost the module the names that it has
    // itself.
    fs::write(directory.path("nested.debug"), "not what it was").unwrap();
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(
        names(&frames[0]),
        [format!("nested+{:#x}", program.range("outer").start)]
    );
    assert!(resolver.problems().is_empty(), "{:?}", resolver.problems());
}

#[test]
fn a_broken_debug_link_leaves_the_dynamic_symbols() {
    let directory = Directory::new("dynamic");
    let Some(program) = compile_nested(&directory, &["-rdynamic"]) else {
        return;
    };
    if !run(
        &directory,
        "objcopy",
        &["--only-keep-debug", "nested", "nested.debug"],
    ) || !run(
        &directory,
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=nested.debug", "nested"],
    ) {
        return;
    }
    fs::write(directory.path("nested.debug"), "not what it was").unwrap();
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(names(&frames[0]), ["outer"]);
}

#[test]
fn mini_debug_info() {
    let directory = Directory::new("mini");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    if !run(&directory, "objcopy", &["--strip-debug", "nested", "mini"])
        || !run(&directory, "xz", &["-f", "mini"])
        || !run(&directory, "strip", &["nested"])
        || !run(
            &directory,
            "objcopy",
            &["--add-section=.gnu_debugdata=mini.xz", "nested"],
        )
    {
        return;
    }
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    let frames = resolver.resolve(module, &[program.range("outer").start]);
    assert_eq!(names(&frames[0]), ["outer"]);
}

#[test]
fn functions_of_a_stripped_file_are_told_apart() {
    let directory = Directory::new("stripped");
    let Some(program) = compile_nested(&directory, &[]) else {
        return;
    };
    if !run(&directory, "strip", &["nested"]) {
        return;
    }
    let cache = CacheLocation::Directory(directory.path("cache"));
    for from_cache in [false, true] {
        let resolver = directory.resolver(cache.clone());
        let module = resolver.module(&program.desc());
        for function in ["outer", "free_"] {
            let range = program.range(function);
            let addresses: Vec<u64> = range.clone().collect();
            let nameless = format!("nested+{:#x}", range.start);
            for frames in resolver.resolve(module, &addresses) {
                assert_eq!(names(&frames), [nameless.as_str()]);
                assert_eq!(frames[0].function_start, range.start);
                assert!(!frames[0].is_named());
            }
        }
        // Between functions there is none, whatever comes before.
        let gap = program.range("outer").end;
        if gap < program.range("free_").start {
            let frames = resolver.resolve(module, &[gap]);
            assert_eq!(names(&frames[0]), [format!("nested+{gap:#x}")]);
            assert_eq!(frames[0][0].function_start, 0);
        }
        let stats = resolver.stats();
        assert_eq!(stats.resolved, 0, "{stats:?}");
        assert_eq!(stats.disk_hits > 0, from_cache, "{stats:?}");
    }
}

/// A function of which a stripped file keeps the name, but not that of the part that the compiler put elsewhere.
const WITH_COLD_PART_C: &str = "\
#include <stdlib.h>
__attribute__((cold, noinline)) void give_up(int value) { if (value == 7) abort(); }
__attribute__((noinline)) int NAME(int count) {
    int sum = 0;
    for (int step = 0; step < count; step++) {
        if (__builtin_expect(step * step == count, 0)) { give_up(step); sum += 3; give_up(sum); }
        if (__builtin_expect(step + 3 == count * 7, 0)) { give_up(step + 1); sum -= 5; give_up(sum); }
        sum ^= step;
    }
    return sum;
}
int main(int count, char **words) { (void)words; return NAME(count); }
";

#[test]
fn the_cold_part_of_what_runs_python_has_a_name() {
    let directory = Directory::new("cold");
    for (function, expected) in [
        ("_PyEval_EvalFrameDefault", Some("_PyEval_EvalFrameDefault")),
        ("some_function", None),
    ] {
        let source = format!("{function}.c");
        directory.file(&source, WITH_COLD_PART_C);
        let define = format!("-DNAME={function}");
        let options = ["-O2", "-rdynamic", &define, &source, "-o", function];
        if !run(&directory, "gcc", &options) {
            return;
        }
        let program = Program::open(directory.path(function));
        let part = program.range(&format!("{function}.cold"));
        if !run(&directory, "strip", &[function]) {
            return;
        }
        let resolver = directory.resolver(CacheLocation::Disabled);
        let module = resolver.module(&program.desc());
        let at = [part.start, part.end - 1, program.range("give_up").start];
        let frames = resolver.resolve(module, &at);
        let nameless = format!("{function}+{:#x}", part.start);
        for frames in &frames[..2] {
            assert_eq!(names(frames), [expected.unwrap_or(&nameless)]);
        }
        assert_eq!(names(&frames[2]), ["give_up"]);
    }
}

#[test]
fn unpacked_debug_information_is_kept() {
    let directory = Directory::new("unpacked");
    let Some(program) = compile_nested(&directory, &["-gz=zlib", "-gdwarf-5"]) else {
        return;
    };
    let cache = directory.path("cache");
    let nested = || {
        // Without the answers of earlier runs.
        for entry in fs::read_dir(cache.join("symbols")).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sym") {
                fs::remove_file(path).unwrap();
            }
        }
        let resolver = directory.resolver(CacheLocation::Directory(cache.clone()));
        assert_nested(&resolver, &program.desc(), program.range("outer"));
        let module = resolver.module(&program.desc());
        let frames = resolver.resolve(module, &[program.range("main").start]);
        frames[0][0].file.as_deref().unwrap().to_owned()
    };
    let file = nested();
    let copies = || {
        let entries = fs::read_dir(cache.join("symbols")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let copies = paths.filter(|path| path.extension().is_some_and(|it| it == "debug"));
        copies.collect::<Vec<_>>()
    };
    let [copy] = &copies()[..] else {
        panic!("{:?}", copies());
    };

    // The next run reads it: what is changed there is seen.
    let whole = fs::read(copy).unwrap();
    let directory_name = directory.path("").to_string_lossy().into_owned();
    let directory_name = directory_name.trim_end_matches('/').as_bytes();
    let mut changed = whole.clone();
    let mut at = 0;
    while let Some(found) = changed[at..]
        .windows(directory_name.len())
        .position(|window| window == directory_name)
    {
        at += found + 1;
        changed[at] = b'#';
    }
    assert_ne!(changed, whole);
    fs::write(copy, &changed).unwrap();
    assert_eq!(nested(), format!("/#{}", &file[2..]));

    // One that is cut, or of another file, is not.
    for damaged in [&whole[..whole.len() - 1], &vec![0; whole.len()]] {
        fs::write(copy, damaged).unwrap();
        assert_eq!(nested(), file);
        assert_eq!(fs::read(copy).unwrap(), whole, "it is made anew");
    }
}
