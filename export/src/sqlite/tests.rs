//! What SQLite finds in databases that were written page by page.

use rusqlite::Connection;
use rusqlite::types::Value as Found;

use super::*;

const SCHEMA: &str = "
    create table counted (id integer primary key autoincrement, name text not null, a integer, b real default 1.0, c text default 'it''s', d bigint, e real default 0.25);
    create table plain (id integer not null primary key, name text, size integer);
    create table links (one integer, other integer);
    create unique index links_pair on links (one, other);
    create index links_other on links (other);
    create view names as select name from counted;";

fn path(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("rsys-sqlite-{name}-{}", std::process::id()));
    std::fs::remove_file(&path).ok();
    path
}

/// Numbers of every length, texts that need pages of their own, and trees of one, two and three floors.
#[test]
fn sqlite_finds_every_row() -> Result<(), Box<dyn std::error::Error>> {
    for count in [0, 1, 2, 39, 200, 5_000, 120_000_u64] {
        let path = path(&format!("every-{count}"));
        let bulk = Bulk::create(&path, SCHEMA)?;
        let numbers = |number: u64| {
            (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (number % 64)).cast_signed()
        };
        let text = |number: u64| match number % 997 {
            5 => "long ".repeat(number as usize % 4096),
            rest => format!("text {rest}"),
        };
        let mut rows = bulk.rows("counted", ["name", "d", "a"])?;
        for number in 0..count {
            let other = number.is_multiple_of(3).then(|| -numbers(number));
            rows.put([
                text(number).as_str().into(),
                numbers(number).into(),
                other.into(),
            ])?;
        }
        rows.finish();
        // Two may add to one table one after the other, and choose ids.
        let mut rows = bulk.rows("counted", ["id", "name", "b"])?;
        rows.put([(count + 1000).into(), "last".into(), 0.5.into()])?;
        rows.finish();
        let mut links = bulk.rows("links", ["one", "other"])?;
        let mut other = bulk.index("links_other")?;
        let mut pairs = Vec::new();
        for number in 0..count {
            let one = numbers(number) % 1000;
            let row = links.next_id();
            links.put([one.into(), number.into()])?;
            other.put([number.cast_signed(), row])?;
            pairs.push([one, number.cast_signed(), row]);
        }
        links.finish();
        other.finish();
        pairs.sort_unstable();
        let mut index = bulk.index("links_pair")?;
        pairs.into_iter().try_for_each(|pair| index.put(pair))?;
        index.finish();
        let database = bulk.finish()?;
        database.execute("insert into counted (name) values ('by SQLite')", [])?;
        database.execute_batch("create index counted_name on counted (name); commit")?;
        drop(database);

        let database = Connection::open(&path)?;
        let whole: String = database.query_row("pragma integrity_check", [], |row| row.get(0))?;
        assert_eq!(whole, "ok", "{count}");
        let mut all = database
            .prepare("select id, name, a, b, c, d, typeof(b), e from counted order by id")?;
        let mut all = all.query([])?;
        for number in 0..count {
            let row = all.next()?.expect("a row");
            let other = number.is_multiple_of(3).then(|| -numbers(number));
            assert_eq!(row.get::<_, u64>(0)?, number + 1);
            assert!(row.get::<_, String>(1)? == text(number), "{number}");
            assert_eq!(row.get::<_, Option<i64>>(2)?, other);
            assert_eq!(row.get::<_, f64>(3)?, 1.0);
            assert_eq!(row.get::<_, String>(4)?, "it's");
            assert_eq!(row.get::<_, i64>(5)?, numbers(number));
            assert_eq!(row.get::<_, String>(6)?, "real");
            assert_eq!(row.get::<_, f64>(7)?, 0.25);
        }
        let mut left = Vec::new();
        while let Some(row) = all.next()? {
            left.push((
                row.get::<_, u64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Found>(5)?,
            ));
        }
        let expected = [
            (count + 1000, "last".to_owned(), Found::Null),
            (count + 1001, "by SQLite".to_owned(), Found::Null),
        ];
        assert_eq!(left, expected);
        let by_index = "select count(*), coalesce(sum(other), 0) from links indexed by links_pair where one > -2000";
        let found: (u64, u64) =
            database.query_row(by_index, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(found, (count, (0..count).sum()));
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

#[test]
fn what_is_wrong_is_said() -> Result<(), Box<dyn std::error::Error>> {
    let path = path("wrong");
    let bulk = Bulk::create(&path, SCHEMA)?;
    assert!(Bulk::create(&path, SCHEMA).is_err(), "what is there stays");
    assert!(bulk.rows("plain", ["nothing"]).is_err());
    let mut rows = bulk.rows("plain", ["id"])?;
    assert!(bulk.rows("plain", ["id"]).is_err(), "one at a time");
    rows.put([5_i64.into()])?;
    assert!(rows.put([5_i64.into()]).is_err(), "no row twice");
    Ok(std::fs::remove_file(&path)?)
}
