//! Completions and manual pages, asked of the shells themselves.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use rsys_tests::{Scratch, TestResult, avail, missing_tool, report, sampler, skip_if_missing};

/// Lines that are typed so far, and candidates that must be among those offered at their end.
const TYPED: &[(&str, &[&str])] = &[
    ("rsys-sample --fol", &["--follow"]),
    ("rsys-sample --follow ", &["all", "exec", "none"]),
    ("rsys-sample --unwinder f", &["framehop", "fp"]),
    ("rsys-sample -I roct", &["roctracer", "roctx"]),
    ("rsys-sample --preset ", &["balanced", "ml"]),
    // The command, and what it takes itself.
    ("rsys-sample mycom", &["mycommand"]),
    ("rsys-sample -- mycom", &["mycommand"]),
    ("rsys-sample -f 100 --realtime -- mycom", &["mycommand"]),
    ("rsys-sample -I roctracer roctx mycom", &["mycommand"]),
    ("rsys-sample -f 100 mycommand --o", &["--own-option"]),
    ("rsys-sample -- mycommand --o", &["--own-option"]),
    ("rsys-report re", &["recover"]),
    ("rsys-report merge --compress ", &["auto", "yes", "no"]),
    ("rsys-avail --config-format t", &["txt", "toml"]),
];

fn programs() -> Result<[(&'static str, PathBuf); 3]> {
    Ok([
        ("rsys-sample", sampler()?),
        ("rsys-avail", avail()?),
        ("rsys-report", report()?),
    ])
}

/// A folder with a command, and what each program prints for a shell.
fn prepare(shell: &str) -> Result<Scratch> {
    let scratch = Scratch::new("completions")?;
    let command = scratch.path().join("mycommand");
    fs::copy("/bin/true", command)?;
    for (name, program) in programs()? {
        let output = Command::new(program)
            .args(["--completions", shell])
            .output()?;
        ensure!(output.status.success(), "{name} --completions {shell}");
        fs::write(scratch.path().join(name), output.stdout)?;
    }
    Ok(scratch)
}

/// What a shell offers at the end of each line.
fn check(shell: &str, script: &str, lines: &[(&str, &[&str])]) -> TestResult {
    let scratch = prepare(shell)?;
    for (line, wanted) in lines {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(shell)
            .args(["-c", script])
            .env("PATH", format!("{}:{path}", scratch.path().display()))
            .env("HOME", scratch.path())
            .env("TYPED", line)
            .env("SCRIPTS", scratch.path())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        // fish puts a description behind a tab.
        let offered: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split('\t').next())
            .map(str::trim)
            .collect();
        for candidate in *wanted {
            ensure!(
                offered.contains(candidate),
                "{shell}: {line:?} offers {offered:?}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    Ok(())
}

/// As readline asks: `=` is a word of its own. `_command_offset` of the package bash-completion is not there, or stands for itself.
const BASH: &str = r#"
for name in rsys-sample rsys-avail rsys-report; do source "$SCRIPTS/$name"; done
complete -W '--own-option' mycommand
_command_offset() {
    (( $1 == COMP_CWORD )) && { COMPREPLY=( $(compgen -c -- "${COMP_WORDS[COMP_CWORD]}") ); return; }
    [[ ${COMP_WORDS[$1]} == mycommand ]] && COMPREPLY=( $(compgen -W '--own-option' -- "${COMP_WORDS[COMP_CWORD]}") )
}
[[ $WITHOUT ]] && unset -f _command_offset
read -ra COMP_WORDS <<< "${TYPED//=/ = }"
[[ $TYPED == *[\ =] ]] && COMP_WORDS+=("")
[[ $TYPED == *= ]] && unset 'COMP_WORDS[-1]'
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
COMP_LINE=$TYPED COMP_POINT=${#TYPED} COMPREPLY=()
function=$(complete -p "${COMP_WORDS[0]}" | sed 's/.* -F \([^ ]*\) .*/\1/')
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn bash_offers_values_and_commands() -> TestResult {
    check("bash", BASH, TYPED)?;
    let joined: &[(&str, &[&str])] = &[
        ("rsys-sample --follow=", &["all", "exec", "none"]),
        ("rsys-sample --follow=e", &["exec"]),
        ("rsys-sample --realtime=t", &["true"]),
        (
            "rsys-sample --follow=none --realtime=true mycom",
            &["mycommand"],
        ),
    ];
    check("bash", BASH, joined)?;
    let without = format!("WITHOUT=1\n{BASH}");
    check(
        "bash",
        &without,
        &[("rsys-sample -f 9 -- mycom", &["mycommand"])],
    )
}

#[test]
fn fish_offers_values_and_commands() -> TestResult {
    skip_if_missing!(missing_tool("fish"));
    let script = r#"
        for name in rsys-sample rsys-avail rsys-report; source $SCRIPTS/$name; end
        complete -c mycommand -l own-option
        complete -C "$TYPED""#;
    check("fish", script, TYPED)?;
    check(
        "fish",
        script,
        &[("rsys-sample --follow=e", &["--follow=exec"])],
    )
}

#[test]
fn zsh_reads_its_completions() -> TestResult {
    skip_if_missing!(missing_tool("zsh"));
    let scratch = prepare("zsh")?;
    for (name, _) in programs()? {
        let file = scratch.path().join(name);
        let read = Command::new("zsh").arg("-n").arg(&file).output()?;
        ensure!(
            read.status.success() && read.stderr.is_empty(),
            "{name}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
    }
    let script = fs::read_to_string(scratch.path().join("rsys-sample"))?;
    ensure!(script.contains("::command:_cmdambivalent"), "no command");
    ensure!(
        script.contains("none\\:\"the command alone\""),
        "no values of --follow"
    );
    Ok(())
}

#[test]
fn manual_pages_tell_all_options() -> TestResult {
    for ((name, program), words) in programs()?.into_iter().zip([
        ["follow", "unwinder"],
        ["hw\\-counters", "config\\-format"],
        ["allow\\-loss", "compress"],
    ]) {
        let output = Command::new(program).arg("--man").output()?;
        let page = String::from_utf8_lossy(&output.stdout);
        for word in words {
            ensure!(page.contains(word), "{name}: {word} is missing\n{page}");
        }
    }
    Ok(())
}
