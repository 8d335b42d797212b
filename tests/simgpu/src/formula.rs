//! Formulas for the duration of kernels: `2000 + grid * 0.25 / cus`.
//!
//! Numbers, the variables of [`Variables`], `+ - * /`, parentheses, and `min(a, b)`, `max(a, b)`.

/// What a formula may refer to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variables {
    /// `grid`: work-items in all dimensions.
    pub grid: f64,
    /// `groups`: work-groups in all dimensions.
    pub groups: f64,
    /// `workgroup`: work-items of a work-group.
    pub workgroup: f64,
    /// `cus`: compute units of the GPU.
    pub cus: f64,
    /// `index`: how many kernels this queue has started before.
    pub index: f64,
}

/// Computes the formula.
///
/// # Errors
/// With the place, when the text is no formula.
pub fn evaluate(text: &str, variables: &Variables) -> Result<f64, String> {
    let mut parser = Parser {
        text,
        at: 0,
        variables,
    };
    let value = parser.sum()?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    variables: &'a Variables,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.factor()?;
        loop {
            if self.take('*') {
                value *= self.factor()?;
            } else if self.take('/') {
                value /= self.factor()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<f64, String> {
        if self.take('-') {
            return Ok(-self.factor()?);
        }
        if self.take('(') {
            let value = self.sum()?;
            self.expect(')')?;
            return Ok(value);
        }
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let value = match word {
            "grid" => self.variables.grid,
            "groups" => self.variables.groups,
            "workgroup" => self.variables.workgroup,
            "cus" => self.variables.cus,
            "index" => self.variables.index,
            "min" | "max" => {
                self.at += length;
                self.expect('(')?;
                let first = self.sum()?;
                self.expect(',')?;
                let second = self.sum()?;
                self.expect(')')?;
                return Ok(if word == "min" {
                    first.min(second)
                } else {
                    first.max(second)
                });
            }
            _ => word.parse().map_err(|_| self.unexpected())?,
        };
        self.at += length;
        Ok(value)
    }

    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn unexpected(&self) -> String {
        let rest = self.text[self.at..].trim_start();
        if rest.is_empty() {
            format!("`{}` ends too early", self.text)
        } else {
            format!("cannot understand `{}` from `{rest}` on", self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: Variables = Variables {
        grid: 1024.0,
        groups: 4.0,
        workgroup: 256.0,
        cus: 104.0,
        index: 3.0,
    };

    #[test]
    fn computes() {
        for (text, value) in [
            ("2000", 2000.0),
            (" 2 + 3 * 4 - 1 ", 13.0),
            ("(2 + 3) * 4 / 2", 10.0),
            ("1000 + grid*0.5", 1512.0),
            ("max(groups, workgroup) + -min(cus, 1.5)", 254.5),
            ("index * 10", 30.0),
        ] {
            assert_eq!(evaluate(text, &VARIABLES), Ok(value), "{text}");
        }
    }

    #[test]
    fn says_what_it_does_not_understand() {
        for (text, error) in [
            ("", "`` ends too early"),
            ("grid *", "`grid *` ends too early"),
            (
                "size + 1",
                "cannot understand `size + 1` from `size + 1` on",
            ),
            ("(1", "`(1` ends too early"),
            ("1 2", "cannot understand `1 2` from `2` on"),
        ] {
            assert_eq!(evaluate(text, &VARIABLES), Err(error.to_owned()), "{text}");
        }
    }
}
