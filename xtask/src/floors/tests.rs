use super::*;

/// A repository of one crate `room`, with these files below its `src`; removed when dropped.
struct Planted(PathBuf);

impl Planted {
    fn new(name: &str, floors: &str, files: &[(&str, &str)]) -> Result<Self> {
        let name = format!("rsys-floors-{}-{name}", std::process::id());
        let planted = Self(std::env::temp_dir().join(name));
        planted.put("Cargo.toml", "[workspace]\nmembers = [\"room\"]\n")?;
        planted.put(
            "floors.toml",
            &format!("largest_circle_of_files = 2\ncrates = [\"room\"]\n{floors}"),
        )?;
        planted.put("ARCHITECTURE.md", "<!-- floors: made of floors.toml by RSYS_BLESS=1 cargo xtask floors -->\n<!-- end of floors -->\n")?;
        planted.put("room/src/lib.rs", "")?;
        for (file, text) in files {
            planted.put(&format!("room/src/{file}"), text)?;
        }
        page::write(&planted.0, &Floors::read(&planted.0)?.floors)?;
        Ok(planted)
    }

    fn put(&self, file: &str, text: &str) -> Result<()> {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
        Ok(std::fs::write(path, text)?)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn the_house_stands() -> Result<()> {
    let problems = check(&workspace_dir())?;
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

#[test]
fn an_arrow_upward_is_found() -> Result<()> {
    let floors = "[floors]\nroom = [[\"low\"], [\"high\"]]\n";
    let files = [
        ("low/mod.rs", "//! Low.\nuse crate::high::thing;\n"),
        ("high.rs", "pub fn thing() {}\n"),
    ];
    let planted = Planted::new("upward", floors, &files)?;
    let expected = "room: upward: src/low line 2 uses high";
    assert_eq!(check(&planted.0)?, [expected]);
    planted.put("room/src/low/mod.rs", "")?;
    planted.put("room/src/high.rs", "use crate::low;\n")?;
    assert_eq!(check(&planted.0)?, [""; 0]);
    Ok(())
}

#[test]
fn an_arrow_upward_within_a_folder_is_found() -> Result<()> {
    let floors = "[floors]\n\"room/wing\" = [[\"low\"], [\"high\"]]\n";
    let files = [
        ("wing/mod.rs", "pub mod high;\npub mod low;\n"),
        ("wing/low.rs", "use super::high::thing;\n"),
        ("wing/high.rs", "pub fn thing() {}\n"),
    ];
    let planted = Planted::new("within", floors, &files)?;
    let expected = "room: upward: src/wing/low line 1 uses wing::high";
    assert_eq!(check(&planted.0)?, [expected]);
    planted.put("room/src/wing/low.rs", "")?;
    planted.put("room/src/wing/new.rs", "use super::low;\n")?;
    let expected = "room: floors.toml gives src/wing/new no floor";
    assert_eq!(check(&planted.0)?, [expected]);
    Ok(())
}

#[test]
fn a_circle_through_a_folder_is_found() -> Result<()> {
    let files = [
        ("one/mod.rs", "mod part;\n"),
        ("one/part.rs", "use crate::two;\n"),
        ("two.rs", "pub fn go() { crate::one::go() }\n"),
    ];
    let planted = Planted::new("circle", "", &files)?;
    let problems = check(&planted.0)?;
    assert_eq!(problems[0], "room: circle in src/: one, two");
    assert_eq!(problems.len(), 3, "{problems:?}");
    Ok(())
}

#[test]
fn a_circle_of_files_may_be_small() -> Result<()> {
    let files = [
        ("a.rs", "use crate::b;\n"),
        ("b.rs", "use crate::a;\n"),
        ("c.rs", ""),
    ];
    let planted = Planted::new("files", "", &files)?;
    assert_eq!(check(&planted.0)?, [""; 0]);
    planted.put("room/src/b.rs", "use crate::c;\n")?;
    planted.put("room/src/c.rs", "use crate::a;\n")?;
    assert_eq!(check(&planted.0)?[0], "room: circle in src/: a, b, c");
    Ok(())
}

#[test]
fn a_folder_without_a_floor_and_a_crate_without_a_check_are_found() -> Result<()> {
    let floors = "[floors]\nroom = [[\"low\"]]\n";
    let files = [("low.rs", ""), ("new.rs", "use crate::low;\n")];
    let planted = Planted::new("unnamed", floors, &files)?;
    let expected = "room: floors.toml gives src/new no floor";
    assert_eq!(check(&planted.0)?, [expected]);
    planted.put(
        "Cargo.toml",
        "[workspace]\nmembers = [\"room\", \"attic\"]\n",
    )?;
    let expected = "floors.toml does not name the crate attic";
    assert_eq!(check(&planted.0)?[0], expected);
    Ok(())
}

#[test]
fn the_page_shows_the_floors_as_they_are() -> Result<()> {
    let floors = "[floors]\nroom = [[\"low\"], [\"high\"]]\n";
    let files = [("low.rs", ""), ("high.rs", "")];
    let planted = Planted::new("page", floors, &files)?;
    assert_eq!(check(&planted.0)?, [""; 0]);
    let page = std::fs::read_to_string(planted.0.join("ARCHITECTURE.md"))?;
    assert!(page.contains("| `room` | low → high |"), "{page}");
    planted.put("ARCHITECTURE.md", &page.replace("low", "middle"))?;
    assert!(check(&planted.0)?[0].contains("other floors"));
    Ok(())
}
