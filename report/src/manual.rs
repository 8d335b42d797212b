//! Completions for shells, and the manual page.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The completions for a shell.
pub(crate) fn completions(mut command: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rsys-report", &mut script);
    // clap_complete 4.6 spells the dash of the program's name in two ways, so that bash finds no command's options
    // (`bash_offers_values_and_commands`).
    String::from_utf8_lossy(&script).replace("rsys__subcmd__report", "rsys__report")
}

/// The manual page: one for all commands, each a section with its options.
pub(crate) fn page(mut command: Command) -> String {
    command.build();
    let mut page = Vec::new();
    // Nothing can go wrong where nothing is written to a file.
    Man::new(command.clone()).render(&mut page).ok();
    let mut page = String::from_utf8_lossy(&page).into_owned();
    // clap lists the commands as pages of their own.
    let own_pages = page.find(".SH SUBCOMMANDS").unwrap_or(page.len());
    let rest = page.split_off(own_pages);
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        page.push_str(&section(verb));
    }
    let after = rest.match_indices("\n.SH ").next();
    page.push_str(after.map_or("", |(at, _)| &rest[at + 1..]));
    page
}

fn section(verb: &Command) -> String {
    let man = Man::new(verb.clone());
    let mut text = format!(".SH {}\n", verb.get_name().to_uppercase()).into_bytes();
    man.render_synopsis_section(&mut text).ok();
    man.render_description_section(&mut text).ok();
    man.render_options_section(&mut text).ok();
    // The prologue of each part defines the same quotation marks again; headings become sub-headings.
    String::from_utf8_lossy(&text)
        .replace("\n.SH SYNOPSIS", "\n.SS SYNOPSIS")
        .replace("\n.SH DESCRIPTION", "\n.SS DESCRIPTION")
        .replace("\n.SH OPTIONS", "\n.SS OPTIONS")
}
