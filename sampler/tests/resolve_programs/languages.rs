//! Names as compilers of several languages make them.

use super::*;

#[test]
fn cplusplus_names() {
    let directory = Directory::new("cplusplus");
    directory.file(
        "shapes.cc",
        "namespace geometry {
         struct Point { double x; __attribute__((noinline)) double norm(int p) const { return x * p; } };
         template <typename T> __attribute__((noinline)) T area(T side) { return side * side; }
         }
         int main(int argc, char**) {
             auto twice = [](int v) __attribute__((noinline, noipa)) { return v * 2; };
             geometry::Point point{1.5};
             return int(geometry::area<double>(argc) + point.norm(argc)) + geometry::area(argc) + twice(argc);
         }",
    );
    for debug in ["-g", "-g0"] {
        if !run(
            &directory,
            "g++",
            &["-O1", debug, "-Wl,--build-id", "shapes.cc", "-o", "shapes"],
        ) {
            return;
        }
        let program = Program::open(directory.path("shapes"));
        let resolver = directory.resolver(CacheLocation::Disabled);
        let module = resolver.module(&program.desc());
        for (mangled, expected) in [
            (
                "_ZN8geometry4areaIdEET_S1_",
                "double geometry::area<double>(double)",
            ),
            ("_ZN8geometry4areaIiEET_S1_", "int geometry::area<int>(int)"),
            (
                "_ZNK8geometry5Point4normEi",
                "geometry::Point::norm(int) const",
            ),
        ] {
            let frames = resolver.resolve(module, &[program.range(mangled).start]);
            assert_eq!(&*frames[0].last().unwrap().name, expected);
            assert_eq!(frames[0].last().unwrap().mangled.as_deref(), Some(mangled));
        }
        let starts: Vec<u64> = program.symbols.iter().map(|symbol| symbol.1).collect();
        let all = resolver.resolve(module, &starts);
        let found: Vec<&str> = all
            .iter()
            .map(|frames| &*frames.last().unwrap().name)
            .collect();
        assert!(
            found
                .iter()
                .any(|name| name.starts_with("main::{lambda(int)#1}")),
            "{found:?}"
        );
    }
}

#[test]
fn rust_names_in_both_manglings() {
    let directory = Directory::new("rust");
    directory.file(
        "deep.rs",
        "pub mod inner { pub struct Thing(pub u64); impl Thing { #[inline(never)] pub fn grow(&self) -> u64 { self.0 * 3 } } }
         #[inline(never)] pub fn apply<F: Fn(u64) -> u64>(f: F) -> u64 { f(std::env::args().count() as u64) }
         fn main() { let t = inner::Thing(std::process::id() as u64); println!(\"{}\", apply(|x| x + t.grow())); }",
    );
    for (mangling, extra) in [
        ("v0", &["-Csymbol-mangling-version=v0"][..]),
        ("legacy", &[]),
    ] {
        let mut arguments = vec!["-O", "-g", "-Clink-arg=-Wl,--build-id", "deep.rs"];
        arguments.extend(extra);
        if !run(&directory, "rustc", &arguments) {
            return;
        }
        let program = Program::open(directory.path("deep"));
        let (symbol, start, _) = program
            .symbols
            .iter()
            .find(|(name, _, _)| name.contains("grow"))
            .unwrap();
        let resolver = directory.resolver(CacheLocation::Disabled);
        let module = resolver.module(&program.desc());
        let frames = resolver.resolve(module, &[*start]);
        let frame = frames[0].last().unwrap();
        let expected = if symbol.starts_with("_R") {
            "<deep::inner::Thing>::grow"
        } else {
            "deep::inner::Thing::grow"
        };
        assert_eq!(&*frame.name, expected, "{mangling}");
        assert_eq!(frame.mangled.as_deref(), Some(symbol.as_str()));
    }
}

#[test]
fn fortran_names() {
    let directory = Directory::new("fortran");
    directory.file(
        "stencil.f90",
        "module solver
contains
subroutine step(n, a)
  integer, intent(in) :: n
  real(8), intent(inout) :: a(n)
  integer :: i
  do i = 2, n - 1
    a(i) = 0.5d0 * (a(i - 1) + a(i + 1))
  end do
end subroutine
end module
subroutine plain(n)
  integer, intent(inout) :: n
  n = n * 3
end subroutine
program main
  use solver
  real(8) :: a(100)
  integer :: n
  a = 1
  n = 100
  call step(n, a)
  call plain(n)
  print *, a(5), n
end program
",
    );
    if !run(
        &directory,
        "gfortran",
        &[
            "-O1",
            "-g",
            "-fno-inline",
            "-Wl,--build-id",
            "stencil.f90",
            "-o",
            "stencil",
        ],
    ) {
        return;
    }
    let program = Program::open(directory.path("stencil"));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    for (symbol, expected) in [("__solver_MOD_step", "solver::step"), ("plain_", "plain")] {
        let frames = resolver.resolve(module, &[program.range(symbol).start]);
        assert_eq!(&*frames[0].last().unwrap().name, expected);
    }
}

/// The same rules with names that a C compiler was told to make, for machines without a Fortran
/// compiler.
#[test]
fn fortran_names_made_by_hand() {
    let directory = Directory::new("fortran-c");
    directory.file(
        "made.c",
        "volatile int sink;
         void step(void) __asm__(\"__solver_MOD_step\");
         void plain_(void);
         #line 10 \"made.f90\"
         __attribute__((noinline)) void step(void) { sink = 1; }
         __attribute__((noinline)) void plain_(void) { sink = 2; }
         int main(void) { step(); plain_(); return 0; }",
    );
    if !run(
        &directory,
        "gcc",
        &["-O1", "-g", "-Wl,--build-id", "made.c", "-o", "made"],
    ) {
        return;
    }
    let program = Program::open(directory.path("made"));
    let resolver = directory.resolver(CacheLocation::Disabled);
    let module = resolver.module(&program.desc());
    for (symbol, expected) in [("__solver_MOD_step", "solver::step"), ("plain_", "plain")] {
        let frames = resolver.resolve(module, &[program.range(symbol).start]);
        assert_eq!(
            &*frames[0].last().unwrap().name,
            expected,
            "{:?}",
            frames[0]
        );
    }
}
