//! Which modules of its own crate a source file uses: the paths that begin with `crate`, `super` or `self`, read from its tokens.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path as it was written, made absolute: `["events", "texts", "text"]` for `crate::events::texts::text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The names after `crate`.
    pub path: Vec<String>,
    /// The line in which it begins.
    pub line: usize,
}

/// What the file at `path` imports, whose own module is `module`. Code for tests only is left out.
///
/// # Errors
/// When the file cannot be read or is no Rust.
pub fn of_file(path: &Path, module: &[String]) -> Result<Vec<Import>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    of_text(&text, module).with_context(|| format!("{} is no Rust", path.display()))
}

fn of_text(text: &str, module: &[String]) -> Result<Vec<Import>> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
    let mut imports = Vec::new();
    scan(tokens, module, &mut imports);
    Ok(imports)
}

/// Collects the paths in `tokens`, which stand in `module`.
fn scan(tokens: TokenStream, module: &[String], imports: &mut Vec<Import>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some(end) = end_of_test_item(&tokens, at) {
            at = end;
            continue;
        }
        // A module that is written in place: what it calls `super` is this one.
        if let Some((name, body)) = inline_module(&tokens, at) {
            let inner: Vec<String> = module.iter().cloned().chain([name]).collect();
            scan(body, &inner, imports);
            at += 3;
            continue;
        }
        match token {
            TokenTree::Ident(_) => {
                if let Some((start, line)) = start_of_path(&tokens, &mut at, module) {
                    use_tree(&tokens, &mut at, start, line, imports);
                    continue;
                }
            }
            TokenTree::Group(group) => scan(group.stream(), module, imports),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

/// At `crate`, `self` or `super` in front of `::`: the module that it stands for. Leaves `at` behind the last of them.
fn start_of_path(
    tokens: &[TokenTree],
    at: &mut usize,
    module: &[String],
) -> Option<(Vec<String>, usize)> {
    let line = tokens.get(*at)?.span().start().line;
    let mut start = match ident(tokens, *at)?.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => parent(module),
        _ => return None,
    };
    if !is_path_separator(tokens, *at + 1) {
        return None;
    }
    *at += 1;
    while ident(tokens, *at + 2).is_some_and(|name| name == "super")
        && is_path_separator(tokens, *at)
    {
        start = parent(&start);
        *at += 3;
    }
    Some((start, line))
}

/// What follows a path's start: more names, and at last perhaps a group of trees.
fn use_tree(
    tokens: &[TokenTree],
    at: &mut usize,
    mut path: Vec<String>,
    line: usize,
    imports: &mut Vec<Import>,
) {
    while is_path_separator(tokens, *at) {
        if let Some(name) = ident(tokens, *at + 2) {
            path.push(name);
            *at += 3;
        } else if let Some(TokenTree::Group(group)) = tokens.get(*at + 2)
            && group.delimiter() == Delimiter::Brace
        {
            *at += 3;
            group_of_trees(group.stream(), &path, imports);
            return;
        } else {
            break;
        }
    }
    imports.push(Import { path, line });
}

/// The trees between the braces of a `use`.
fn group_of_trees(tokens: TokenStream, path: &[String], imports: &mut Vec<Import>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
    for tree in tokens.split(is_comma) {
        let Some(name) = ident(tree, 0) else {
            continue;
        };
        let mut path = path.to_vec();
        if name != "self" {
            path.push(name);
        }
        let line = tree[0].span().start().line;
        use_tree(tree, &mut 1, path, line, imports);
    }
}

/// Behind the item at `at`, if it is there for tests only: `#[cfg(test)]`, and what follows up to a semicolon or a body.
fn end_of_test_item(tokens: &[TokenTree], at: usize) -> Option<usize> {
    if !matches!(&tokens[at], TokenTree::Punct(p) if p.as_char() == '#') {
        return None;
    }
    let TokenTree::Group(attribute) = tokens.get(at + 1)? else {
        return None;
    };
    if attribute.stream().to_string().replace(' ', "") != "cfg(test)" {
        return None;
    }
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(p) => p.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let length = tokens[at + 2..].iter().position(ends)?;
    Some(at + 2 + length + 1)
}

fn inline_module(tokens: &[TokenTree], at: usize) -> Option<(String, TokenStream)> {
    if ident(tokens, at)? != "mod" {
        return None;
    }
    let name = ident(tokens, at + 1)?;
    match tokens.get(at + 2)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some((name, group.stream()))
        }
        _ => None,
    }
}

fn parent(module: &[String]) -> Vec<String> {
    module[..module.len().saturating_sub(1)].to_vec()
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at)? {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_wherever_they_stand() -> Result<()> {
        let text = "
            use crate::a::{self, b::{C, D}, e};
            use super::sibling::f;
            use super::super::far;
            use std::fmt;
            fn body() { self::own(); call!(x, crate::in_macro::g); }
            mod inner { use super::outer; }
            #[cfg(test)] use crate::helper;
            #[cfg(test)] mod tests { use crate::only_tests; }
        ";
        let module = ["m".to_owned(), "n".to_owned()];
        let found: Vec<String> = of_text(text, &module)?
            .iter()
            .map(|import| import.path.join("::"))
            .collect();
        let expected = [
            "a",
            "a::b::C",
            "a::b::D",
            "a::e",
            "m::sibling::f",
            "far",
            "m::n::own",
            "in_macro::g",
            "m::n::outer",
        ];
        assert_eq!(found, expected);
        Ok(())
    }
}
