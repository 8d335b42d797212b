use super::*;
use crate::table::{Cell, Column, Row};

fn with_below(mut table: Table, cells: Vec<Cell>, below: Vec<Table>) -> Table {
    table.push(Row { cells, below });
    table
}

fn axis_table(key: &'static str, own: &[Column], cells: Vec<Cell>, below: Table) -> Table {
    let axis = [Column::ns("axis_ns", ""), Column::ns("bucket_ns", "")];
    let table = Table::new(key, "", &[own, &axis].concat());
    let cells = [cells, vec![Cell::Count(1_000), Cell::Count(500)]].concat();
    with_below(table, cells, vec![below])
}

fn filled(key: &'static str, keys: &[&'static str], rows: &[&[u64]]) -> Table {
    let columns: Vec<Column> = keys.iter().map(|key| Column::plain(key, "")).collect();
    let mut table = Table::new(key, "", &columns);
    for row in rows {
        table.push(
            row.iter()
                .map(|value| Cell::from(*value))
                .collect::<Vec<_>>(),
        );
    }
    table
}

fn answer(name: &'static str, tables: Vec<Table>) -> (&'static str, Answer) {
    (
        name,
        Answer {
            tables,
            ..Answer::default()
        },
    )
}

/// A run of which everything is known.
fn everything() -> (Answer, Answer) {
    let device = [Column::plain("device", "")];
    let busy = filled(
        "buckets",
        &["computation_ns", "exposed_comm_ns", "exposed_memcpy_ns"],
        &[&[250, 100, 0], &[0, 0, 500]],
    );
    let processors = filled(
        "buckets",
        &["start_ns", "cpu_ns"],
        &[&[0, 500], &[500, 700]],
    );
    let values = filled(
        "values",
        &["start_ns", "min", "mean", "max"],
        &[&[0, 5, 6, 7], &[500, 2, 3, 9]],
    );
    let counter = [
        Column::plain("group", ""),
        Column::plain("name", ""),
        Column::plain("unit", ""),
    ];
    let mut curves = axis_table(
        "curves",
        &counter,
        vec!["GPU 0".into(), "power".into(), "W".into()],
        values,
    );
    let mut row = curves.rows[0].clone();
    row.cells[0] = "".into();
    row.cells[1] = "memory".into();
    row.cells[2] = "B".into();
    curves.push(row);
    let courses = vec![
        axis_table("busy", &device, vec![Cell::Count(0)], busy),
        axis_table(
            "processors",
            &[Column::ns("cpu_ns", "")],
            vec![Cell::Count(1_200)],
            processors,
        ),
        curves,
    ];
    let durations = filled(
        "durations",
        &["from_ns", "to_ns", "count"],
        &[&[1024, 1280, 5], &[4096, 5120, 1]],
    );
    let kernel = Table::new("kernel_durations", "", &[Column::plain("name", "")]);
    let kernels = with_below(kernel, vec!["gemm".into()], vec![durations]);
    let mut graph = Table::new(
        "flame_cpu",
        "CPU time",
        &filled("", &["parent", "frame", "line", "self_ns", "total_ns"], &[]).columns,
    );
    graph.push(vec![
        Cell::Null,
        Cell::Count(0),
        Cell::Null,
        Cell::Count(10),
        Cell::Count(70),
    ]);
    graph.push(vec![
        Cell::Count(0),
        "(smaller)".into(),
        Cell::Null,
        Cell::Count(60),
        Cell::Count(60),
    ]);
    let columns = ["function", "module", "source"].map(|key| Column::plain(key, ""));
    let mut frames = Table::new("flame_frames", "", &columns);
    frames.push(vec!["main".into(), "/bin/app".into(), Cell::Null]);
    let plots = Answer::joined([
        answer("courses", courses),
        answer("durations", vec![kernels]),
        answer("flame", vec![graph, frames]),
    ]);

    let run = |tables: Vec<Table>| {
        with_below(
            Table::new("runs", "", &[Column::plain("label", "")]),
            vec!["run".into()],
            tables,
        )
    };
    let times = filled(
        "devices",
        &[
            "device",
            "total_ns",
            "computation_ns",
            "exposed_comm_ns",
            "exposed_memcpy_ns",
            "idle_ns",
        ],
        &[&[0, 1000, 250, 100, 500, 150]],
    );
    let causes = Table::new(
        "causes",
        "",
        &[Column::plain("text", ""), Column::ns("idle_ns", "")],
    );
    let mut causes = with_below(
        causes,
        vec!["launch latency".into(), Cell::Count(100)],
        Vec::new(),
    );
    causes.push(vec!["code of the host".into(), Cell::Count(50)]);
    let idle = Table::new("devices", "", &[device[0], Column::ns("idle_ns", "")]);
    let gaps = with_below(idle, vec![Cell::Count(0), Cell::Count(150)], vec![causes]);
    let over_time = filled(
        "over_time",
        &["start_ns", "duration_ns", "max_bytes"],
        &[&[0, 500, 4096], &[500, 500, 0]],
    );
    let held = Table::new(
        "memory",
        "",
        &[Column::plain("memory", ""), Column::bytes("peak_bytes", "")],
    );
    let memory = with_below(
        held,
        vec!["device".into(), Cell::Count(4096)],
        vec![over_time],
    );
    let answers = Answer::joined([
        answer("timeline", vec![run(vec![times])]),
        answer("gaps", vec![run(vec![gaps])]),
        answer("memory", vec![memory]),
    ]);
    (answers, plots)
}

fn names(pictures: &[Picture]) -> Vec<&str> {
    pictures
        .iter()
        .map(|picture| picture.name.as_str())
        .collect()
}

#[test]
fn each_plot_of_the_page_has_its_picture() {
    let (answers, plots) = everything();
    let all = pictures(&answers, &plots, "run");
    assert_eq!(
        names(&all),
        [
            "gpus-over-time.png",
            "processors.png",
            "gpu-time.png",
            "gpu-idleness.png",
            "flame-cpu.png",
            "kernel-durations.png",
            "memory.png",
            "sensors.png",
            "counters.png",
        ]
    );
    assert_eq!(pictures(&Answer::default(), &Answer::default(), "run"), []);
}

#[test]
fn many_lanes_are_divided_among_pictures() {
    let (answers, mut plots) = everything();
    let (_, courses) = &mut plots.parts[0];
    let row = courses.tables[0].rows[0].clone();
    courses.tables[0].rows = vec![row; 130];
    let all = pictures(&answers, &plots, "run");
    let busy: Vec<&str> = names(&all)
        .into_iter()
        .filter(|name| name.starts_with("gpus-"))
        .collect();
    assert_eq!(busy.len(), 11);
    assert_eq!(
        (busy[0], busy[10]),
        ("gpus-over-time-01.png", "gpus-over-time-11.png")
    );
}
