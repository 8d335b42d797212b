//! Exports and queries where the folder of temporary files is of no use.

use std::path::Path;
use std::process::Command;

use crate::common::{FIRST, Scratch};

/// Runs `rsys-report` in a folder, with another one for temporary files. What it prints.
fn report(words: &[&str], folder: &Path, temporary: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rsys-report"))
        .args(words)
        .current_dir(folder)
        .env("TMPDIR", temporary)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} {temporary:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn without_a_folder_for_temporary_files_the_output_is_the_same() {
    let scratch = Scratch::new();
    scratch.write("one.proto", &FIRST.ordinary());
    let missing = scratch.0.join("missing");
    // The one could be made, the other could not.
    let others = [missing.as_path(), Path::new("/proc/self/missing")];
    let good = std::env::temp_dir();
    for to in ["kineto", "rpd", "folded", "firefox"] {
        let export = |temporary: &Path| {
            let words = [
                "export",
                "--force",
                "--to",
                to,
                "-o",
                "written",
                "one.proto",
            ];
            assert_eq!(report(&words, &scratch.0, temporary), "");
            std::fs::read(scratch.0.join("written")).unwrap()
        };
        let expected = export(&good);
        assert!(!expected.is_empty());
        for other in others {
            assert!(export(other) == expected, "{to} {other:?}");
        }
    }
    // Nothing is left beside the output.
    assert_eq!(scratch.names(), ["one.proto", "written"]);
    // Tables that are not kept have no other folder: they are in memory.
    for cache in ["--no-cache", "--cache"] {
        let sql = "select name, duration_ns from ranges";
        let words = ["query", "--csv", cache, "one.proto", sql];
        let expected = report(&words, &scratch.0, &good);
        for other in others {
            // What was kept would not be made again.
            std::fs::remove_dir_all(scratch.0.join(".rsys-cache")).ok();
            assert_eq!(report(&words, &scratch.0, other), expected, "{cache}");
        }
    }
    assert!(!missing.exists());
}
