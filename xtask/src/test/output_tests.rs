//! What binaries say, as they say it.

use super::*;

fn lines(text: &str) -> Vec<Line> {
    let lines = text.lines().enumerate();
    lines
        .map(|(at, line)| (Duration::from_secs(at as u64), line.to_owned()))
        .collect()
}

fn results(told: &BTreeMap<String, Told>) -> Vec<(&str, bool, &str)> {
    let all = told.iter();
    all.map(|(name, told)| (&**name, told.passed, &*told.said))
        .collect()
}

#[test]
fn each_test_has_what_it_said() {
    let said = "\nrunning 3 tests\ntest a ... skipped: no browser\nok\ntest b ... \nthread 'b' panicked\nFAILED\ntest c ... ok\n\nfailures:\n\n\
                failures:\n    b\n\ntest result: FAILED. 2 passed; 1 failed;\n";
    let told = one_by_one(&lines(said), &["a", "b", "c"], Duration::from_secs(20));
    let wanted = [
        ("a", true, "skipped: no browser"),
        ("b", false, "\nthread 'b' panicked\nFAILED"),
        ("c", true, ""),
    ];
    let shown: Vec<_> = results(&told);
    assert_eq!(shown[0], wanted[0]);
    assert_eq!(shown[1], wanted[1]);
    assert!(shown[2].1);
    assert_eq!(told["a"].skipped(), Some("no browser"));
    assert_eq!(told["a"].took, Some(Duration::from_secs(3)));
    assert_eq!(told["b"].took, Some(Duration::from_secs(3)));
    assert_eq!(told["c"].skipped(), None);
}

#[test]
fn who_ends_the_process_has_failed_and_those_behind_it() {
    let said = "running 3 tests\ntest a ... ok\ntest b ... here it ends";
    let told = one_by_one(&lines(said), &["a", "b", "c"], Duration::from_secs(20));
    let passed: Vec<bool> = told.values().map(|told| told.passed).collect();
    assert_eq!(passed, [true, false, false]);
    assert_eq!(told["b"].said, "here it ends");
    assert!(told["c"].said.contains("no result"));
}

#[test]
fn text_that_looks_like_a_name_belongs_to_the_test() {
    let said = "running 1 test\ntest a ... \ntest x ... ok\nok\n\ntest result: ok. 1 passed";
    let told = one_by_one(&lines(said), &["a"], Duration::ZERO);
    assert_eq!(results(&told), [("a", true, "\ntest x ... ok")]);
}

#[test]
fn captured_text_stands_below_its_name() {
    let said = "running 2 tests\ntest b ... ok\ntest a ... FAILED\n\nsuccesses:\n\n---- b stdout ----\nskipped: no root\n\n\nsuccesses:\n    b\n\n\
                failures:\n\n---- a stdout ----\nwhy\n\nfailures:\n    a\n\ntest result: FAILED. 1 passed; 1 failed";
    let told = captured(&lines(said), &["a", "b", "c"]);
    assert!(!told["a"].passed && told["a"].said.contains("why"));
    assert!(told["b"].passed);
    assert_eq!(told["b"].skipped(), Some("no root"));
    assert!(!told["c"].passed);
}

#[test]
fn why_a_test_failed_is_said_in_a_line() {
    let said = |said: &str| Told {
        passed: false,
        said: said.to_owned(),
        took: None,
    };
    let error =
        said("\nrsys: 4 traces\nError: tiny: [\n  1,\n]\n\nStack backtrace:\n   0: anyhow\nFAILED");
    assert_eq!(error.reason(), "Error: tiny: [ 1, ]");
    let panic = said("thread 'a' panicked at a.rs:1:1:\nassertion failed");
    assert_eq!(panic.reason(), "assertion failed");
    assert_eq!(said("here it ends\n").reason(), "here it ends");
    assert_eq!(said("").reason(), "");
    assert_eq!(said(&"é".repeat(900)).reason(), "é".repeat(REASON));
}
