//! Queries that only group a table: which columns by, and which sums of others. What is not understood for certain is left to SQLite.

use rsys_tables::catalog::{Column, Kind, Table, table};

/// The table in which the groups stand when the query is asked again.
pub(crate) const GROUPS: &str = "\"groups of rows\"";

/// What is summed of the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Rows.
    Rows,
    /// Values that are known.
    Known(usize),
    /// Their sum.
    Total(usize),
    /// Their mean.
    Mean(usize),
    /// The smallest.
    Least(usize),
    /// The largest.
    Greatest(usize),
}

/// What a column of a row is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// A number, of a column of whole numbers.
    Number(Comparison, i64),
    /// A text, of a column of texts.
    Text(Comparison, String),
    /// There is a value.
    IsKnown,
    /// There is none.
    IsUnknown,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A query that groups the rows of a table.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub(crate) table: &'static Table,
    /// The columns by which rows are grouped; none: all rows are one group.
    pub(crate) keys: Vec<usize>,
    pub(crate) sums: Vec<Sum>,
    /// Columns, and what all of them have to pass.
    pub(crate) tests: Vec<(usize, Test)>,
    /// Names of results.
    aliases: Vec<String>,
    /// The query of [`GROUPS`] that has the same answer.
    pub(crate) sql: String,
}

/// The name of a sum's column in [`GROUPS`].
pub(crate) fn sum_name(number: usize) -> String {
    format!("\"sum {number}\"")
}

/// Words that may stand outside of the conditions on rows, beside names and functions.
const WORDS: [&str; 21] = [
    "order", "by", "limit", "offset", "and", "or", "not", "is", "null", "asc", "desc", "nulls",
    "first", "last", "between", "like", "case", "when", "then", "else", "end",
];
/// Functions of one row.
const FUNCTIONS: [&str; 10] = [
    "round", "abs", "coalesce", "ifnull", "nullif", "printf", "format", "length", "lower", "upper",
];

/// A word, number, text or sign of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// In small letters.
    Word(String),
    /// As it is written.
    Number(String),
    /// Without its quotes.
    Text(String),
    Sign(&'static str),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    fn sql(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Number(number) => number.clone(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 18] = [
    "<>", "!=", "<=", ">=", "==", "||", "(", ")", ",", "*", "+", "-", "/", "%", "<", ">", "=", ".",
];

/// The parts of a query; `None` if it has others than these.
fn tokens(sql: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim().trim_end_matches(';').trim_end();
    while let Some(first) = rest.chars().next() {
        let length_of =
            |is_part: fn(char) -> bool| rest.find(|one: char| !is_part(one)).unwrap_or(rest.len());
        let length = if first.is_ascii_whitespace() {
            first.len_utf8()
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = length_of(|one| one.is_ascii_alphanumeric() || one == '_');
            tokens.push(Token::Word(rest[..length].to_ascii_lowercase()));
            length
        } else if first.is_ascii_digit() {
            let length = length_of(|one| one.is_ascii_alphanumeric() || one == '.');
            // Exponents and the like have signs within.
            if rest[..length].contains(|one: char| one.is_ascii_alphabetic()) {
                return None;
            }
            tokens.push(Token::Number(rest[..length].to_owned()));
            length
        } else if first == '\'' {
            let mut text = String::new();
            let mut at = 1;
            loop {
                let length = rest[at..].find('\'')?;
                text.push_str(&rest[at..at + length]);
                at += length + 1;
                if !rest[at..].starts_with('\'') {
                    break;
                }
                text.push('\'');
                at += 1;
            }
            tokens.push(Token::Text(text));
            at
        } else if rest.starts_with("--") || rest.starts_with("/*") {
            return None;
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
            tokens.push(Token::Sign(sign));
            sign.len()
        };
        rest = &rest[length..];
    }
    Some(tokens)
}

/// Takes the grouping out of a query, if it is one that is understood.
pub(crate) fn grouping(sql: &str) -> Option<Grouping> {
    let tokens = tokens(sql)?;
    let (select, rest) = split_at_word(&tokens, "from")?;
    let select = select
        .split_first()
        .filter(|(first, _)| first.is("select"))?
        .1;
    let [Token::Word(name), rest @ ..] = rest else {
        return None;
    };
    let table = table(name)?;
    let (conditions, rest) = match rest {
        [first, rest @ ..] if first.is("where") => {
            let end = rest
                .iter()
                .position(|token| {
                    ["group", "having", "order", "limit"]
                        .iter()
                        .any(|word| token.is(word))
                })
                .unwrap_or(rest.len());
            rest.split_at(end)
        }
        rest => (&[][..], rest),
    };
    let (keys, rest) = match rest {
        [group, by, rest @ ..] if group.is("group") && by.is("by") => keys(table, rest)?,
        rest => (Vec::new(), rest),
    };
    let mut grouping = Grouping {
        table,
        keys,
        sums: Vec::new(),
        tests: tests(table, conditions)?,
        aliases: Vec::new(),
        sql: String::new(),
    };
    let select = grouping.rewritten(select)?;
    if grouping.sums.is_empty() {
        return None;
    }
    let (having, rest) = match rest {
        [first, rest @ ..] if first.is("having") => {
            let end = rest
                .iter()
                .position(|token| token.is("order") || token.is("limit"));
            rest.split_at(end.unwrap_or(rest.len()))
        }
        rest => (&[][..], rest),
    };
    let is_end = |token: &Token| token.is("order") || token.is("limit");
    if rest.first().is_some_and(|first| !is_end(first)) {
        return None;
    }
    let having = match having {
        [] => String::new(),
        // Without groups, it is about a row that may be none.
        _ if grouping.keys.is_empty() => return None,
        having => format!("where {}", grouping.rewritten(having)?),
    };
    let rest = grouping.rewritten(rest)?;
    grouping.sql = format!("select {select} from {GROUPS} {having} {rest}");
    Some(grouping)
}

fn split_at_word<'t>(tokens: &'t [Token], word: &str) -> Option<(&'t [Token], &'t [Token])> {
    let place = tokens.iter().position(|token| token.is(word))?;
    Some((&tokens[..place], &tokens[place + 1..]))
}

/// The columns of a list, and what stands behind it.
fn keys<'t>(table: &Table, mut rest: &'t [Token]) -> Option<(Vec<usize>, &'t [Token])> {
    let mut keys = Vec::new();
    loop {
        let [Token::Word(name), behind @ ..] = rest else {
            return None;
        };
        let (place, column) = table.column(name)?;
        if column.kind == Kind::Number || keys.contains(&place) {
            return None;
        }
        keys.push(place);
        match behind {
            [Token::Sign(","), behind @ ..] => rest = behind,
            behind => return Some((keys, behind)),
        }
    }
}

/// Conditions that are joined by `and`, each of a column and a value.
fn tests(table: &Table, conditions: &[Token]) -> Option<Vec<(usize, Test)>> {
    let mut tests = Vec::new();
    for condition in conditions.split(|token| token.is("and")) {
        if conditions.is_empty() {
            break;
        }
        let [Token::Word(name), condition @ ..] = condition else {
            return None;
        };
        let (place, column) = table.column(name)?;
        tests.push((place, test(column, condition)?));
    }
    Some(tests)
}

fn test(column: &Column, condition: &[Token]) -> Option<Test> {
    let is_text = column.kind == Kind::Text;
    let is_whole = matches!(column.kind, Kind::Integer | Kind::Unsigned);
    let comparison = |sign: &str| match sign {
        "=" | "==" => Some(Comparison::Equal),
        "<>" | "!=" => Some(Comparison::Different),
        "<" => Some(Comparison::Less),
        "<=" => Some(Comparison::LessOrEqual),
        ">" => Some(Comparison::Greater),
        ">=" => Some(Comparison::GreaterOrEqual),
        _ => None,
    };
    match condition {
        [is, null] if is.is("is") && null.is("null") => Some(Test::IsUnknown),
        [is, not, null] if is.is("is") && not.is("not") && null.is("null") => Some(Test::IsKnown),
        [Token::Sign(sign), Token::Text(text)] if is_text => {
            Some(Test::Text(comparison(sign)?, text.clone()))
        }
        [Token::Sign(sign), Token::Number(number)] if is_whole => {
            Some(Test::Number(comparison(sign)?, number.parse().ok()?))
        }
        [Token::Sign(sign), Token::Sign("-"), Token::Number(number)] if is_whole => {
            let number: i64 = number.parse().ok()?;
            Some(Test::Number(comparison(sign)?, -number))
        }
        _ => None,
    }
}

impl Grouping {
    /// A part of the query with the names of sums in their place.
    fn rewritten(&mut self, tokens: &[Token]) -> Option<String> {
        let mut words: Vec<String> = Vec::new();
        let mut rest = tokens;
        while let [first, behind @ ..] = rest {
            rest = behind;
            let before = words.last().map_or(",", String::as_str);
            let Token::Word(name) = first else {
                // All columns, or those of a table.
                let is_all = first == &Token::Sign("*") && before == ",";
                if is_all || first == &Token::Sign(".") {
                    return None;
                }
                words.push(first.sql());
                continue;
            };
            if let [Token::Sign("("), behind @ ..] = behind {
                let sum = match (name.as_str(), behind) {
                    ("count", [Token::Sign("*"), Token::Sign(")"), ..]) => Some(Sum::Rows),
                    (name, [Token::Word(of), Token::Sign(")"), ..]) => self.sum(name, of),
                    _ => None,
                };
                match sum {
                    Some(sum) => {
                        words.push(self.name_of(sum));
                        rest = &behind[2..];
                    }
                    None if FUNCTIONS.contains(&name.as_str()) => words.push(name.clone()),
                    None => return None,
                }
                continue;
            }
            if let [Token::Word(alias), behind @ ..] = behind
                && name == "as"
            {
                // A name that a result has and a column too may mean either.
                if self.table.column(alias).is_some() || WORDS.contains(&alias.as_str()) {
                    return None;
                }
                self.aliases.push(alias.clone());
                words.extend(["as".to_owned(), alias.clone()]);
                rest = behind;
                continue;
            }
            let column = self.table.column(name);
            let is_known = column.is_some_and(|(place, _)| self.keys.contains(&place))
                || self.aliases.contains(name)
                || WORDS.contains(&name.as_str());
            if !is_known {
                return None;
            }
            words.push(name.clone());
        }
        Some(words.join(" "))
    }

    fn sum(&self, name: &str, of: &str) -> Option<Sum> {
        let (place, column) = self.table.column(of)?;
        let is_whole = matches!(column.kind, Kind::Integer | Kind::Unsigned);
        match name {
            "count" => Some(Sum::Known(place)),
            "sum" if is_whole => Some(Sum::Total(place)),
            "avg" if is_whole => Some(Sum::Mean(place)),
            "min" if is_whole => Some(Sum::Least(place)),
            "max" if is_whole => Some(Sum::Greatest(place)),
            _ => None,
        }
    }

    fn name_of(&mut self, sum: Sum) -> String {
        let known = self.sums.iter().position(|known| *known == sum);
        let number = known.unwrap_or_else(|| {
            self.sums.push(sum);
            self.sums.len() - 1
        });
        sum_name(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groupings_are_known_by_their_form() {
        for (sql, keys, sums, tests) in [
            ("select count(*) from operations", 0, 1, 0),
            (
                "SELECT name, Count(*), sum(duration_ns) FROM operations GROUP BY name;",
                1,
                2,
                0,
            ),
            (
                "select queue, name, avg(duration_ns) / 1000 as us, max(duration_ns) - min(duration_ns) from operations \
                 where kind = 'kernel' and bytes is null and duration_ns >= -5 group by queue, name \
                 having count(*) > 3 order by us desc, sum(duration_ns) limit 10",
                2,
                5,
                3,
            ),
            (
                "select round(avg(duration_ns), 1) from calls where name <> 'it''s'",
                0,
                1,
                1,
            ),
        ] {
            let found = grouping(sql).unwrap_or_else(|| panic!("{sql}"));
            let counts = (found.keys.len(), found.sums.len(), found.tests.len());
            assert_eq!(counts, (keys, sums, tests), "{sql}");
        }
        for sql in [
            "select name from operations group by name",
            "select name, start_ns, count(*) from operations group by name",
            "select name, count(*) as duration_ns from operations group by name",
            "select count(distinct name) from operations",
            "select distinct count(*) from operations group by name",
            "select count(*) from operations, calls",
            "select count(*) from operations as o",
            "select count(*) from operations o group by name",
            "select count(*) from (select * from operations)",
            "select count(*) from operations where name in (select name from calls)",
            "select count(*) from operations where kind = 'kernel' or kind = 'copy'",
            "select count(*) from operations where kind = kind",
            "select count(*) from operations where bytes = 'x'",
            "select count(*) from operations union select count(*) from calls",
            "select percentile(duration_ns, 50), count(*) from operations",
            "select count(*) filter (where bytes > 1) from operations",
            "select sum(value) from counters",
            "select value, count(*) from counters group by value",
            "select name, count(*) over () from operations group by name",
            "select count(*) from operations group by 1",
            "select count(*) from operations having count(*) > 1",
            "select sum(duration_ns + 1) from operations",
            "select rowid, count(*) from operations group by name",
            "select operations.name, count(*) from operations group by name",
            "select name, * from operations group by name",
            "select count(*) n from operations",
            "select count(*) * 1e-3 from operations",
            "select name, count(*) from operations group by name order by name collate nocase",
            "select count(*) -- all\nfrom operations",
        ] {
            assert!(grouping(sql).is_none(), "{sql}");
        }
    }
}
