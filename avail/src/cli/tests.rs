//! Every option of the original, and what becomes of it.

use std::os::unix::ffi::OsStringExt;

use super::*;

fn parsed(line: &str) -> Result<Request, String> {
    let words = line.split_whitespace().map(OsString::from);
    parse(
        &mut command(),
        std::iter::once(OsString::from("rsys-avail")).chain(words),
    )
    .map_err(|error| error.to_string())
}

#[test]
fn every_option_of_the_original_is_known() {
    command().debug_assert();
    let lines = [
        "--monochrome --debug --verbose 2 -S",
        "--settings --print-settings",
        "-C -A -r fork$ ~x -i",
        "--print-components",
        "-H --print-hw-counters -c CPU",
        "-a --advanced",
        "--list-categories",
        "--list-keys --expand-keys -t name",
        "-R sampling --alphabetical --hl",
        "-bd -p -r FREQ",
        "-Sbdvsf",
        "-S -c settings::Sampling --brief=false",
        "-w 30 -W 0",
        "-G x.cfg -F txt json xml --force -d",
        "-G -O x.cfg --all",
        "-M",
        "--csv --csv-separator ;",
        "--settings=true --components=off",
        "some regex",
        "-bd --categories omnitrace",
        "--categories rocprofsys --brief --description",
        "--categories settings::rocprofsys --brief",
        "--categories settings::timemory --brief --advanced",
        "-G x.cfg -F txt json xml --force --all -c rocprofsys",
        "-c core",
        "--description -c 0",
    ];
    for line in lines {
        parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn tables_follow_from_options_and_categories() {
    let cases = [
        ("", vec![View::Settings]),
        ("-CH", vec![View::Components, View::Counters]),
        ("-c hw_counters::GPU", vec![View::Counters]),
        ("-H -c GPU", vec![View::Counters]),
        ("-c sampling", vec![View::Settings]),
        ("-S=false", vec![View::Settings]),
        ("-bd --categories omnitrace", vec![View::Settings]),
        ("--description -c 0", vec![View::Settings]),
        ("--list-keys", vec![View::Keys]),
        ("-a", vec![View::Settings, View::Components, View::Counters]),
    ];
    for (line, views) in cases {
        assert_eq!(parsed(line).expect(line).views, views, "{line}");
    }
}

#[test]
fn formats_come_from_extension_and_option() {
    let cases = [
        ("-G a.cfg", vec![Format::Text]),
        ("-G a.json", vec![Format::Json]),
        ("-G a.toml -F xml", vec![Format::Toml, Format::Xml]),
        ("-G -F txt json", vec![Format::Text, Format::Json]),
        ("-G a.xyz", vec![Format::Text]),
    ];
    for (line, formats) in cases {
        let generation = parsed(line).expect(line).generate.expect(line);
        assert_eq!(generation.formats, formats, "{line}");
    }
}

#[test]
fn mistakes_name_the_nearest() {
    let cases = [
        ("-c samplng", "settings::Sampling"),
        ("-c hw_counters::CPUs", "hw_counters::CPU"),
        ("-c nonsense", "--list-categories"),
        ("-c gpu", "hw_counters::GPU"),
        ("-r (", "not a regular expression"),
        ("--setings", "--settings"),
        ("--csv -M", "cannot be used with"),
        ("-w many", "many"),
        ("-G x -F yaml", "toml"),
    ];
    for (line, expected) in cases {
        let error = parsed(line).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn words_that_are_no_text_are_named() {
    let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
    // The same options read all lines.
    let mut options = command();
    for (words, named) in [
        (&[&b"-S"[..], b"caf\xe9"][..], "'caf\u{fffd}'"),
        (&[b"-O", b"\xff", b"-r", b"x\xfe"], "'x\u{fffd}'"),
        (&[b"--filter=\xff"], "'--filter=\u{fffd}'"),
    ] {
        let line = words.iter().map(|word| bytes(word));
        let error = parse(
            &mut options,
            std::iter::once("rsys-avail".into()).chain(line),
        )
        .expect_err(named)
        .to_string();
        assert!(error.contains(named) && error.contains("UTF-8"), "{error}");
    }
    let file = [bytes(b"rsys-avail"), bytes(b"-O"), bytes(b"\xff")];
    let request = parse(&mut options, file).expect("names of files may be any bytes");
    assert_eq!(request.output, Some(PathBuf::from(bytes(b"\xff"))));
}

#[test]
fn categories_of_the_original_are_understood() {
    for (line, row, kept) in [
        ("-c rocprofsys", "Sampling", true),
        ("-c omnitrace", "Summaries", true),
        ("-c settings::core", "General", true),
        ("-c core", "Sampling", false),
        ("-c timemory", "Original", true),
        ("-c process_sampling", "Counters", true),
    ] {
        let request = parsed(line).expect(line);
        assert_eq!(
            request.filter.chooses("settings", row),
            kept,
            "{line}: {row}"
        );
        assert!(request.columns.category, "{line}");
    }
    assert!(parsed("-c component::core").is_err());
}

#[test]
fn a_number_of_categories_is_the_first_versions_width() {
    let request = parsed("--description -c 0").expect("a width");
    assert_eq!((request.column_width, request.width(true)), (None, None));
    assert!(!request.columns.category && request.columns.description);
    assert_eq!(parsed("-c 30").expect("a width").column_width, Some(30));
}
