use super::*;
use crate::work::{Engine, Scalar};

/// The text of a call: types, dimensions and values, of which each may be empty.
fn lists(types: &str, dimensions: &str, values: &str) -> String {
    [types, dimensions, "", values].join("\u{1f}")
}

#[test]
fn no_name_has_two_models() {
    let mut all: Vec<&str> = names().collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(count > 250, "{count}");
}

#[test]
fn a_product_has_its_operations_and_bytes() {
    let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
    let found = work("aten::mm", &lists(types, "[[2, 3], [3, 5]]", "")).unwrap();
    assert_eq!(found.operations, 2 * 2 * 3 * 5);
    assert_eq!(found.bytes, Ok((2 * (6 + 15), 2 * 10)));
    assert_eq!(
        (found.engine, found.scalar),
        (Engine::Matrix, Some(Scalar::BF16))
    );
    // Of rsys: the operations are known, the bytes are not.
    let found = work("aten::mm", "[2, 3] [3, 5]").unwrap();
    assert_eq!((found.operations, found.bytes), (60, Err(Why::NoTypes)));
}

#[test]
fn bad_shapes_say_why_and_nothing_panics() {
    let two = r#"["float", "float"]"#;
    for (name, text, word) in [
        (
            "aten::nonsense",
            lists(two, "[[2, 3], [3, 5]]", ""),
            "no model",
        ),
        ("aten::mm", String::new(), "not recorded"),
        (
            "aten::mm",
            lists(two, "[[2, 3], [4, 5]]", ""),
            "inner dimension 3 against 4",
        ),
        ("aten::mm", lists(two, "[[2, 3]]", ""), "differ in length"),
        ("aten::mm", lists(r#"["float"]"#, "[[2, 3]]", ""), "mat2"),
        ("aten::mm", lists(two, "[[2, -3], [-3, 5]]", ""), "negative"),
        (
            "aten::mm",
            lists(
                two,
                "[[18446744073709551615, 18446744073709551615], [18446744073709551615, 18446744073709551615]]",
                "",
            ),
            "too large",
        ),
        (
            "aten::bmm",
            lists(two, "[[2, 3], [3, 5]]", ""),
            "2 dimensions",
        ),
        (
            "aten::conv2d",
            "[1, 3, 8, 8] [4, 3, 3, 3]".to_owned(),
            "value of its argument stride",
        ),
        ("aten::add", lists(two, "[[2, 3], [2]]", ""), "3 against 2"),
    ] {
        let why = work(name, &text).unwrap_err().to_string();
        assert!(why.contains(word), "{name}: {why}");
    }
    let unknown = work(
        "aten::mm",
        &lists(r#"["c10::New", "c10::New"]"#, "[[2, 3], [3, 5]]", ""),
    )
    .unwrap();
    assert_eq!(unknown.bytes, Err(Why::UnknownType("c10::New".to_owned())));
}

/// Every model, with arguments of all kinds that are not what it expects: no panic, and mostly a reason.
#[test]
fn no_arguments_make_a_model_panic() {
    let sizes = [
        "[]",
        "[0]",
        "[1]",
        "[3]",
        "[0, 0]",
        "[2, 3]",
        "[4, 3, 2]",
        "[1, 2, 3, 4]",
        "[2, 2, 2, 2, 2]",
        "[9223372036854775807]",
        "[4611686018427387904, 4]",
    ];
    let kinds = [
        "float",
        "Scalar",
        "ScalarList",
        "TensorList",
        "",
        "c10::Odd",
    ];
    let values = [
        "",
        "0",
        "-1",
        "[]",
        "[0, 0]",
        "[-1, 5]",
        "True",
        "[True, False, True]",
        "9223372036854775807",
        "nan",
        "x",
    ];
    // A generator of numbers that is the same each time.
    let mut state = 1_u64;
    let mut below = |count: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    let names: Vec<&str> = names().chain(["triton_poi_fused_add_0", "add_"]).collect();
    let mut known = 0;
    for name in &names {
        for _ in 0..400 {
            let count = below(12);
            let mut list = |all: &[&str], quoted: bool| {
                let items: Vec<String> = (0..count)
                    .map(|_| all[below(all.len())])
                    .map(|item| {
                        if quoted {
                            format!("{item:?}")
                        } else {
                            item.to_owned()
                        }
                    })
                    .collect();
                format!("[{}]", items.join(", "))
            };
            let text = [
                list(&kinds, true),
                list(&sizes, false),
                list(&sizes, false),
                list(&values, true),
            ]
            .join("\u{1f}");
            known += usize::from(work(name, &text).is_ok());
        }
    }
    assert!(known > 1_000, "{known}");
}
