//! Expressions by which ROCm's definitions compute counters from others: `100*reduce(GRBM_GUI_ACTIVE,max)/reduce(GRBM_COUNT,max)`.
//!
//! A counter has a value for each instance of its block; operators work on each of them, a number counts for all. `reduce(x,sum)`, and in the older form
//! `sum(x,16)`, make one number of them; also `avr`, `max` and `min`.

use std::collections::BTreeMap;

/// How deep definitions may refer to each other, and parentheses nest.
const DEPTH: usize = 128;

/// Longer texts are not looked at.
const LONGEST: usize = 1 << 14;

/// An expression that is understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A counter, or a property of the GPU such as `CU_NUM`.
    Name(String),
    /// Two parts and `+`, `-`, `*` or `/`.
    Of(char, Box<(Self, Self)>),
    /// One number of the values of all instances.
    Reduced(Reduction, Box<Self>),
}

/// How one number is made of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

impl Reduction {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "avr" | "avg" => Self::Mean,
            "max" => Self::Max,
            "min" => Self::Min,
            _ => return None,
        })
    }

    /// Of no value there is none.
    #[must_use]
    pub fn of(self, values: &[f64]) -> Option<f64> {
        let all = values.iter().copied();
        match self {
            _ if values.is_empty() => None,
            Self::Sum => Some(all.sum()),
            Self::Mean => Some(all.sum::<f64>() / values.len() as f64),
            Self::Max => all.reduce(f64::max),
            Self::Min => all.reduce(f64::min),
        }
    }
}

impl Expression {
    /// Understands a text.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("it is too long".to_owned());
        }
        let mut parser = Parser {
            rest: text.trim_start(),
            depth: 0,
        };
        let whole = parser.sum()?;
        match parser.rest {
            "" => Ok(whole),
            rest => Err(format!("`{rest}` is not understood")),
        }
    }

    /// All names in it.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Name(name) => vec![name],
            Self::Of(_, parts) => [parts.0.names(), parts.1.names()].concat(),
            Self::Reduced(_, part) => part.names(),
        }
    }

    /// Puts what `meaning` says in place of names, and in place of the names in these; names without one stay.
    ///
    /// # Errors
    /// When definitions go in a circle.
    pub fn expand(
        &self,
        meaning: &impl Fn(&str) -> Option<Result<Self, String>>,
    ) -> Result<Self, String> {
        self.expanded(meaning, 0)
    }

    fn expanded(
        &self,
        meaning: &impl Fn(&str) -> Option<Result<Self, String>>,
        depth: usize,
    ) -> Result<Self, String> {
        if depth > DEPTH {
            return Err("its definition refers to itself".to_owned());
        }
        Ok(match self {
            Self::Number(_) => self.clone(),
            Self::Name(name) => match meaning(name) {
                Some(meant) => meant?.expanded(meaning, depth + 1)?,
                None => self.clone(),
            },
            Self::Of(operator, parts) => {
                let one = parts.0.expanded(meaning, depth)?;
                let other = parts.1.expanded(meaning, depth)?;
                Self::Of(*operator, Box::new((one, other)))
            }
            Self::Reduced(how, part) => {
                Self::Reduced(*how, Box::new(part.expanded(meaning, depth)?))
            }
        })
    }

    /// The sum of its values over all instances, where of each name only this is known: its sum, mean, greatest and least value (`known`), or that it is a
    /// number by itself (`property`). `None` where a name is not known, or where single instances would have to be known.
    #[must_use]
    pub fn reduced(
        &self,
        known: &impl Fn(&str, Reduction) -> Option<f64>,
        property: &impl Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        self.reduced_to(Reduction::Sum, known, property)
    }

    fn reduced_to(
        &self,
        how: Reduction,
        known: &impl Fn(&str, Reduction) -> Option<f64>,
        property: &impl Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        let one_of = |part: &Self, how| part.reduced_to(how, known, property);
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(name) => property(name).or_else(|| known(name, how)),
            Self::Reduced(inner, part) => one_of(part, *inner),
            Self::Of(operator, parts) => {
                let (left, right) = (&parts.0, &parts.1);
                let is_linear = matches!(how, Reduction::Sum | Reduction::Mean);
                // A factor turns the greatest into the least where it is below zero.
                let scaled = |factor: f64| match how {
                    Reduction::Max if factor < 0.0 => Reduction::Min,
                    Reduction::Min if factor < 0.0 => Reduction::Max,
                    how => how,
                };
                let spread = |part: &Self| part.is_spread(property);
                match (operator, spread(left), spread(right)) {
                    (_, false, false) => {
                        Some(apply(*operator, one_of(left, how)?, one_of(right, how)?))
                    }
                    ('*' | '/', true, false) => {
                        let factor = one_of(right, how)?;
                        Some(apply(*operator, one_of(left, scaled(factor))?, factor))
                    }
                    ('*', false, true) => {
                        let factor = one_of(left, how)?;
                        Some(factor * one_of(right, scaled(factor))?)
                    }
                    ('+' | '-', true, true) if is_linear => {
                        Some(apply(*operator, one_of(left, how)?, one_of(right, how)?))
                    }
                    ('+' | '-', true, false) if how != Reduction::Sum => {
                        Some(apply(*operator, one_of(left, how)?, one_of(right, how)?))
                    }
                    _ => None,
                }
            }
        }
    }

    /// Whether it has a value for each instance of a block, rather than one.
    fn is_spread(&self, property: &impl Fn(&str) -> Option<f64>) -> bool {
        match self {
            Self::Number(_) | Self::Reduced(..) => false,
            Self::Name(name) => property(name).is_none(),
            Self::Of(_, parts) => parts.0.is_spread(property) || parts.1.is_spread(property),
        }
    }

    /// Its values, by those of the names in it, one for each instance; `None` where a name has none, or two parts have different numbers of instances.
    /// A division by zero makes a value that is not finite.
    #[must_use]
    pub fn values(&self, known: &BTreeMap<String, Vec<f64>>) -> Option<Vec<f64>> {
        match self {
            Self::Number(number) => Some(vec![*number]),
            Self::Name(name) => known.get(name).cloned(),
            Self::Reduced(how, part) => Some(vec![how.of(&part.values(known)?)?]),
            Self::Of(operator, parts) => {
                let (one, other) = (parts.0.values(known)?, parts.1.values(known)?);
                let apply = |one: f64, other: f64| apply(*operator, one, other);
                let values: Vec<f64> = match (&one[..], &other[..]) {
                    ([one], all) => all.iter().map(|other| apply(*one, *other)).collect(),
                    (all, [other]) => all.iter().map(|one| apply(*one, *other)).collect(),
                    (all, others) if all.len() == others.len() => {
                        let pairs = all.iter().zip(others);
                        pairs.map(|(one, other)| apply(*one, *other)).collect()
                    }
                    _ => return None,
                };
                Some(values)
            }
        }
    }
}

fn apply(operator: char, one: f64, other: f64) -> f64 {
    match operator {
        '+' => one + other,
        '-' => one - other,
        '*' => one * other,
        _ => one / other,
    }
}

impl std::fmt::Display for Expression {
    /// In a form that [`Expression::parse`] understands, without blanks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name}"),
            Self::Of(operator, parts) => {
                // Chains stay chains: parentheses may nest so deeply only.
                let binds = |operator: char| matches!(operator, '*' | '/');
                match &parts.0 {
                    Self::Of(first, _) if binds(*operator) && !binds(*first) => {
                        write!(f, "({})", parts.0)?;
                    }
                    first => write!(f, "{first}")?,
                }
                match &parts.1 {
                    Self::Of(..) => write!(f, "{operator}({})", parts.1),
                    second => write!(f, "{operator}{second}"),
                }
            }
            Self::Reduced(how, part) => {
                let how = match how {
                    Reduction::Sum => "sum",
                    Reduction::Mean => "avr",
                    Reduction::Max => "max",
                    Reduction::Min => "min",
                };
                write!(f, "reduce({part},{how})")
            }
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let next = self.rest.chars().next().filter(|next| wanted(*next))?;
        self.rest = self.rest[next.len_utf8()..].trim_start();
        Some(next)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        let taken = self.take(|next| next == wanted);
        taken.map(|_| ()).ok_or_else(|| match self.rest {
            "" => format!("it ends where `{wanted}` should be"),
            rest => format!("`{wanted}` should be in front of `{rest}`"),
        })
    }

    fn word(&mut self) -> &'a str {
        let of_word = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | ':' | '.');
        let end = self.rest.find(|next| !of_word(next));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut whole = self.product()?;
        while let Some(operator) = self.take(|next| matches!(next, '+' | '-')) {
            whole = Expression::Of(operator, Box::new((whole, self.product()?)));
        }
        Ok(whole)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut whole = self.part()?;
        while let Some(operator) = self.take(|next| matches!(next, '*' | '/')) {
            whole = Expression::Of(operator, Box::new((whole, self.part()?)));
        }
        Ok(whole)
    }

    fn part(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        let part = self.part_within();
        self.depth -= 1;
        part
    }

    fn part_within(&mut self) -> Result<Expression, String> {
        if self.take(|next| next == '-').is_some() {
            let zero = Expression::Number(0.0);
            return Ok(Expression::Of('-', Box::new((zero, self.part()?))));
        }
        if self.take(|next| next == '(').is_some() {
            let within = self.sum()?;
            self.expect(')')?;
            return Ok(within);
        }
        let rest = self.rest;
        let word = self.word();
        if word.is_empty() {
            return Err(match rest {
                "" => "it ends too early".to_owned(),
                rest => format!("`{rest}` is not understood"),
            });
        }
        if word.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            let number = word.parse().ok().filter(|number: &f64| number.is_finite());
            return number
                .map(Expression::Number)
                .ok_or_else(|| format!("`{word}` is not a number"));
        }
        if self.take(|next| next == '(').is_none() {
            return Ok(Expression::Name(word.to_owned()));
        }
        let within = self.sum()?;
        let reduced = if word == "reduce" {
            self.expect(',')?;
            Reduction::named(self.word())
        } else {
            // The older form has the number of instances, which we know.
            if self.take(|next| next == ',').is_some() {
                self.sum()?;
            }
            Reduction::named(word)
        };
        let how = reduced.ok_or_else(|| format!("`{word}(…)` cannot be computed here"))?;
        self.expect(')')?;
        Ok(Expression::Reduced(how, Box::new(within)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Vec<f64>> {
        let known = [
            ("SQ:4", vec![1.0, 2.0, 3.0]),
            ("GRBM:0", vec![200.0]),
            ("CU_NUM", vec![10.0]),
            ("PAIR", vec![1.0, 2.0]),
        ];
        let known = known.map(|(name, values)| (name.to_owned(), values));
        let expression = Expression::parse(text).unwrap();
        // What it shows itself as means the same.
        let shown = Expression::parse(&expression.to_string()).unwrap();
        let values = expression.values(&BTreeMap::from(known.clone()));
        assert_eq!(shown.values(&BTreeMap::from(known)), values, "{text}");
        values
    }

    #[test]
    fn expressions_have_the_values_of_arithmetic() {
        for (text, expected) in [
            ("1 + 2 * 3", vec![7.0]),
            ("(1+2)*3 - -4/8", vec![9.5]),
            ("8/4/2", vec![1.0]),
            ("SQ:4 * 2", vec![2.0, 4.0, 6.0]),
            ("reduce(SQ:4, sum)", vec![6.0]),
            ("100*reduce(SQ:4,max)/reduce(GRBM:0,max)", vec![1.5]),
            ("avr(SQ:4,16)/CU_NUM", vec![0.2]),
            ("min(SQ:4,8)", vec![1.0]),
            ("SQ:4+SQ:4", vec![2.0, 4.0, 6.0]),
            ("1.5e", vec![]),
        ] {
            if expected.is_empty() {
                assert!(Expression::parse(text).is_err(), "{text}");
            } else {
                assert_eq!(value(text), Some(expected), "{text}");
            }
        }
        let long = "CU_NUM-".repeat(500) + "CU_NUM";
        assert_eq!(value(&long), Some(vec![-4990.0]));
        assert_eq!(value("SQ:4+PAIR"), None);
        assert_eq!(value("UNKNOWN"), None);
        assert!(!value("1/0").unwrap()[0].is_finite());
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (text, why) in [
            ("", "ends too early"),
            ("1+", "ends too early"),
            ("1e999", "is not a number"),
            ("(1", "it ends where `)` should be"),
            ("1 2", "`2` is not understood"),
            ("reduce(A)", "`,` should be in front of `)`"),
            ("select(A,[X=[0]])", "`[X=[0]])` is not understood"),
            (
                "accumulate(A,HIGH_RES)",
                "`accumulate(…)` cannot be computed here",
            ),
            ("reduce(A,select)", "cannot be computed"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Expression::parse(&"(".repeat(10_000)).is_err());
        assert!(Expression::parse(&"-".repeat(10_000)).is_err());
    }

    /// Where an expression can be computed from sums, greatest and least values, it is what all instances give.
    #[test]
    fn reduced_values_give_what_all_instances_give() {
        let all = [("A", vec![1.0, 5.0, 3.0]), ("B", vec![2.0, 8.0, 4.0])];
        let all = BTreeMap::from(all.map(|(name, values)| (name.to_owned(), values)));
        let mut with_property = all.clone();
        with_property.insert("CU_NUM".to_owned(), vec![10.0]);
        let property = |name: &str| (name == "CU_NUM").then_some(10.0);
        let known = |name: &str, how: Reduction| how.of(all.get(name)?);
        for (text, is_possible) in [
            ("A", true),
            ("2*A/4 - B", true),
            ("100*reduce(A,max)/reduce(B,max)", true),
            ("reduce(A+B,sum)/CU_NUM", true),
            ("reduce(A*CU_NUM,avr)", true),
            ("reduce(-2*A,max)", true),
            ("reduce(A-1,max)", true),
            ("reduce(A,min)+reduce(B,min)*3", true),
            ("1+2*CU_NUM", true),
            // These need the values of instances one by one.
            ("reduce(A+B,max)", false),
            ("A/B", false),
            ("A*B", false),
            ("reduce(A+1,sum)", false),
            ("NOBODY", false),
        ] {
            let expression = Expression::parse(text).unwrap();
            let values = expression.values(&with_property);
            let sum = values.and_then(|values| Reduction::Sum.of(&values));
            let found = expression.reduced(&known, &property);
            assert_eq!(found, sum.filter(|_| is_possible), "{text}");
        }
    }

    #[test]
    fn names_become_what_they_mean() {
        let meaning = |name: &str| match name {
            "WAVES" => Some(Expression::parse("reduce(SQ_WAVES,sum)")),
            "SQ_WAVES" => Some(Expression::parse("SQ:4")),
            "LOOP" => Some(Expression::parse("LOOP+1")),
            _ => None,
        };
        let expand = |text: &str| Expression::parse(text).unwrap().expand(&meaning);
        let expanded = expand("WAVES/CU_NUM").unwrap();
        assert_eq!(expanded.to_string(), "reduce(SQ:4,sum)/CU_NUM");
        assert_eq!(expanded.names(), ["SQ:4", "CU_NUM"]);
        // `SQ:4` is no counter of the definitions.
        assert!(expand("LOOP").unwrap_err().contains("refers to itself"));
    }
}
