//! Every answer to every question, about a file of each format that is read, is as docs/report.schema.json says: what a program gets from the command itself.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::Scratch;

#[path = "../../../analysis/tests/all/common/schema.rs"]
mod schema;
#[path = "../../../databases/tests/mutations/seeds.rs"]
mod seeds;

const QUESTIONS: [&[&str]; 25] = [
    &["summary"],
    &["advice"],
    &["timeline"],
    &["gaps"],
    &["kernels"],
    &["kernels", "--by", "grid,stream,device"],
    &["launch"],
    &["launch", "--by", "shapes"],
    &["copies"],
    &["calls"],
    &["functions"],
    &["functions", "--by", "line,thread,process,shapes"],
    &["locks"],
    &["memory"],
    &["sensors"],
    &["streams"],
    &["stuck"],
    &["pop"],
    &["overlap"],
    &["overlap", "--critical-path"],
    &["collectives"],
    &["efficiency"],
    &["efficiency", "--by", "kernel"],
    &["efficiency", "--by", "module"],
    &["efficiency", "--by", "line"],
];

/// What the command writes as JSON; nothing where it has no answer.
fn answer(question: &[&str], file: &Path, output: &Path) -> Option<Value> {
    std::fs::remove_file(output).ok();
    let mut words: Vec<std::ffi::OsString> = vec!["rsys-report".into()];
    words.extend(question.iter().map(Into::into));
    words.extend([
        file.into(),
        "--no-cache".into(),
        "--jobs".into(),
        "1".into(),
    ]);
    words.extend(["-o".into(), output.into()]);
    let code = rsys_report::run(words);
    assert!(code < 2, "{question:?} of {}", file.display());
    let text = std::fs::read_to_string(output).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn answers_about_files_of_all_formats_are_as_the_schema_says() {
    let scratch = Scratch::new();
    let output = scratch.0.join("answer.json");
    for seed in seeds::all(&scratch.0) {
        let folder = scratch.0.join(seed.name);
        std::fs::create_dir_all(&folder).unwrap();
        let file: PathBuf = folder.join(seed.file);
        std::fs::write(&file, &seed.bytes).unwrap();
        let mut answers = 0;
        for question in QUESTIONS {
            if let Some(found) = answer(question, &file, &output) {
                schema::judge(&found);
                answers += 1;
            }
        }
        assert!(answers > QUESTIONS.len() / 2, "{}: {answers}", seed.name);
    }
}

#[test]
fn the_name_of_a_file_says_its_form() {
    let scratch = Scratch::new();
    let seed = seeds::all(&scratch.0).into_iter().next().unwrap();
    let trace = scratch.0.join(seed.file);
    std::fs::write(&trace, &seed.bytes).unwrap();
    let trace = trace.display().to_string();
    let write = |words: &[&str], name: &str| {
        let file = scratch.0.join(name);
        let file_name = file.display().to_string();
        let words = words.iter().copied();
        let words = ["rsys-report"].into_iter().chain(words);
        let words = words.chain([trace.as_str(), "-o", file_name.as_str()]);
        let code = rsys_report::run(words.map(Into::into));
        (code, std::fs::read_to_string(file).unwrap_or_default())
    };
    let begins = |words: &[&str], name: &str, start: &str| {
        let (code, text) = write(words, name);
        assert!(
            code < 2 && text.starts_with(start),
            "{name}: {code} {:.80}",
            text
        );
    };
    begins(&[], "x.html", "<!DOCTYPE html>");
    begins(&["kernels"], "x.json", "{");
    begins(&["html"], "y.html", "<!DOCTYPE html>");
    // One answer is no page, a page no JSON, and nothing a PDF: no file is better than one that is not what its name says.
    for (words, name) in [
        (&["kernels"][..], "z.html"),
        (&["html"], "z.json"),
        (&[], "z.pdf"),
    ] {
        assert_eq!(write(words, name), (1, String::new()), "{name}");
    }
}
