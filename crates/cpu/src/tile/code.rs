//! The C expression in an elementwise row, as a tree: what has no loop of its own is computed by the loops of its
//! parts.

use super::functions::{EQUAL, UNEQUAL};

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An operand of the op.
    Arg(usize),
    /// A number.
    Number(f64),
    /// A function or an operator, as the rows write it (`exp({0})`, `({0} + {1})`), and its operands.
    Apply(String, Vec<Expr>),
    /// `condition ? a : b`.
    Select(Box<[Expr; 3]>),
}

/// What a float function is on integers.
pub enum Whole {
    /// The operand.
    Same,
    /// The comparison of it with itself.
    Compared(&'static str),
    /// Whether it is 0.
    IsZero,
}
impl Whole {
    /// By the text.
    pub fn of(code: &str) -> Option<Whole> {
        Some(match code {
            "floor({0})" | "ceil({0})" | "rint({0})" | "trunc({0})" => Whole::Same,
            "is_finite({0})" => Whole::Compared(EQUAL),
            "is_inf({0})" => Whole::Compared(UNEQUAL),
            "(!{0})" => Whole::IsZero,
            _ => return None,
        })
    }
}

/// Reads a row's text; `None` where it is not such an expression.
pub fn parse(code: &str) -> Option<Expr> {
    let mut p = Parser { rest: code };
    let e = p.select()?;
    p.rest.trim().is_empty().then_some(e)
}

/// Binary operators, the loosest first. Longer ones stand before those that they begin with.
const LEVELS: &[&[&str]] = &[&["|"], &["^"], &["&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        self.rest = rest.strip_prefix(token).unwrap_or(rest);
        self.rest.len() < rest.len()
    }
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn select(&mut self) -> Option<Expr> {
        let condition = self.binary(0)?;
        if !self.take("?") {
            return Some(condition);
        }
        let a = self.select()?;
        let b = self.take(":").then(|| self.select())??;
        Some(Expr::Select(Box::new([condition, a, b])))
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut a = self.binary(level + 1)?;
        while let Some(op) = operators.iter().find(|op| self.take(op)) {
            let b = self.binary(level + 1)?;
            a = Expr::Apply(format!("({{0}} {op} {{1}})"), vec![a, b]);
        }
        Some(a)
    }

    fn unary(&mut self) -> Option<Expr> {
        for op in ["-", "!"] {
            if self.take(op) {
                return match self.unary()? {
                    Expr::Number(x) if op == "-" => Some(Expr::Number(-x)),
                    e => Some(Expr::Apply(format!("({op}{{0}})"), vec![e])),
                };
            }
        }
        if self.take("(") {
            let e = self.select()?;
            return self.take(")").then_some(e);
        }
        if self.take("{") {
            let i = self.word(|c| c.is_ascii_digit()).parse().ok()?;
            return self.take("}").then_some(Expr::Arg(i));
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.word(|c| c.is_ascii_digit() || c == '.').parse().ok().map(Expr::Number);
        }
        self.call()
    }

    fn call(&mut self) -> Option<Expr> {
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_').to_string();
        if name.is_empty() || !self.take("(") {
            return None;
        }
        let mut args = vec![self.select()?];
        while self.take(",") {
            args.push(self.select()?);
        }
        let places: Vec<String> = (0..args.len()).map(|i| format!("{{{i}}}")).collect();
        self.take(")").then(|| Expr::Apply(format!("{name}({})", places.join(", ")), args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(e: &Expr) -> String {
        match e {
            Expr::Arg(i) => format!("x{i}"),
            Expr::Number(n) => n.to_string(),
            Expr::Select(parts) => format!("[{} ? {} : {}]", show(&parts[0]), show(&parts[1]), show(&parts[2])),
            Expr::Apply(f, args) => {
                args.iter().enumerate().fold(f.clone(), |s, (i, a)| s.replace(&format!("{{{i}}}"), &show(a)))
            }
        }
    }

    #[test]
    fn expressions_are_read_as_in_c() {
        for (code, want) in [
            ("(({0} + sqrt({0} * {0} + 4)) / 2)", "((x0 + sqrt(((x0 * x0) + 4))) / 2)"),
            ("({0} > 0 ? 1 : ({0} < 0 ? -1 : {0}))", "[(x0 > 0) ? 1 : [(x0 < 0) ? -1 : x0]]"),
            ("f({1}, -{0}) - 1.5 * 2", "(f(x1, (-x0)) - (1.5 * 2))"),
            ("{0} <= {1} & !{2}", "((x0 <= x1) & (!x2))"),
        ] {
            assert_eq!(parse(code).as_ref().map(show).as_deref(), Some(want));
        }
        for code in ["", "{0} +", "f({0}", "({0}", "x", "{0} {1}", "({0} ? 1)"] {
            assert_eq!(parse(code), None, "{code}");
        }
    }
}
