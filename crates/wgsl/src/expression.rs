//! The C expressions of elementwise rows as WGSL. WGSL has no `?:`, no overloads of its programs' own and no 64-bit
//! integers, so an expression is parsed and written anew for the class it is computed in.

use crate::element::{Class, truth};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Operand(usize),
    Number(f64),
    Unary(char, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<[Expr; 3]>),
    Call(String, Vec<Expr>),
}

/// Operators by precedence, the weakest first; longer ones before those they begin with.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"]];
const PRODUCTS: &[&str] = &["*", "/", "%"];

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    fn choice(&mut self) -> Option<Expr> {
        let condition = self.level(0)?;
        if !self.eat("?") {
            return Some(condition);
        }
        let yes = self.choice()?;
        let no = if self.eat(":") { self.choice()? } else { return None };
        Some(Expr::Choice(Box::new([condition, yes, no])))
    }
    fn level(&mut self, level: usize) -> Option<Expr> {
        let operators = LEVELS.get(level).copied().unwrap_or(PRODUCTS);
        let next = |p: &mut Self| if level < LEVELS.len() { p.level(level + 1) } else { p.unary() };
        let mut left = next(self)?;
        while let Some(op) = operators.iter().find(|op| self.eat(op)) {
            left = Expr::Binary(op, Box::new(left), Box::new(next(self)?));
        }
        Some(left)
    }
    fn unary(&mut self) -> Option<Expr> {
        for op in ['-', '!'] {
            if self.eat(op.encode_utf8(&mut [0; 4])) {
                return Some(Expr::Unary(op, Box::new(self.unary()?)));
            }
        }
        self.primary()
    }
    fn primary(&mut self) -> Option<Expr> {
        if self.eat("(") {
            let inner = self.choice()?;
            return self.eat(")").then_some(inner);
        }
        if self.eat("{") {
            let number = self.word(|c| c.is_ascii_digit()).parse().ok()?;
            return self.eat("}").then_some(Expr::Operand(number));
        }
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Expr::Number(self.word(|c| c.is_ascii_digit() || c == '.').parse().ok()?));
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_').to_string();
        if name.is_empty() || !self.eat("(") {
            return None;
        }
        let mut args = vec![self.choice()?];
        while self.eat(",") {
            args.push(self.choice()?);
        }
        self.eat(")").then_some(Expr::Call(name, args))
    }
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

/// Text of a class, or a boolean.
enum Text {
    Value(String),
    Truth(String),
}

struct Writer<'a> {
    class: Class,
    args: &'a [String],
    /// The class of the first operand, where it differs: the condition of a choice.
    condition: Class,
    known: &'a dyn Fn(&str) -> bool,
}

impl Writer<'_> {
    fn value(&self, e: &Expr) -> Option<String> {
        Some(match self.any(e)? {
            Text::Value(v) => v,
            Text::Truth(t) => format!("select({}, {}, {t})", self.class.int(0), self.class.int(1)),
        })
    }
    fn truth(&self, e: &Expr) -> Option<String> {
        if let Expr::Operand(0) = e {
            return Some(truth(&self.args[0], self.condition));
        }
        Some(match self.any(e)? {
            Text::Truth(t) => t,
            Text::Value(v) => truth(&v, self.class),
        })
    }
    fn any(&self, e: &Expr) -> Option<Text> {
        Some(match e {
            Expr::Operand(i) => Text::Value(self.args.get(*i)?.clone()),
            Expr::Number(x) => Text::Value(self.class.number(*x)),
            Expr::Unary('!', x) => Text::Truth(format!("(!{})", self.truth(x)?)),
            Expr::Unary(_, x) => Text::Value(negated(self.class, &self.value(x)?)),
            Expr::Binary(op, a, b) => self.binary(op, a, b)?,
            Expr::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                Text::Value(format!("select({}, {}, {})", self.value(no)?, self.value(yes)?, self.truth(condition)?))
            }
            Expr::Call(name, args) => {
                let args = args.iter().map(|a| self.value(a)).collect::<Option<Vec<String>>>()?;
                self.call(name, &args)?
            }
        })
    }
    fn binary(&self, op: &str, a: &Expr, b: &Expr) -> Option<Text> {
        // `x != x` asks for NaN, which a compiler may assume there is none of.
        if a == b && op == "!=" {
            let x = self.value(a)?;
            return Some(Text::Truth(if self.class.is_int() { "false".to_string() } else { format!("is_nan_f({x})") }));
        }
        let (a, b) = (self.value(a)?, self.value(b)?);
        Some(match op {
            "==" | "!=" | "<" | "<=" | ">" | ">=" => Text::Truth(compared(self.class, op, &a, &b)),
            _ => Text::Value(combined(self.class, op, &a, &b)),
        })
    }
    fn call(&self, name: &str, args: &[String]) -> Option<Text> {
        let is_int = self.class.is_int();
        match name {
            "is_inf" | "is_finite" if is_int => return Some(Text::Truth((name == "is_finite").to_string())),
            "is_inf" | "is_finite" => return Some(Text::Truth(format!("{name}_f({})", args[0]))),
            "floor" | "ceil" | "trunc" | "rint" if is_int => return Some(Text::Value(args[0].clone())),
            _ => {}
        }
        let name = format!("{name}_{}", self.class.suffix());
        (self.known)(&name).then(|| Text::Value(format!("{name}({})", args.join(", "))))
    }
}

/// The negative of a number.
fn negated(class: Class, x: &str) -> String {
    match class {
        Class::F32 | Class::I32 => format!("(-{x})"),
        Class::U32 => format!("(0u - {x})"),
        _ => format!("neg_l({x})"),
    }
}

/// Two numbers combined by a C operator.
pub fn combined(class: Class, op: &str, a: &str, b: &str) -> String {
    let is_wide = matches!(class, Class::I64 | Class::U64);
    match op {
        "&" | "|" | "^" => format!("({a} {op} {b})"),
        "+" if is_wide => format!("add_l({a}, {b})"),
        "-" if is_wide => format!("sub_l({a}, {b})"),
        "*" if is_wide => format!("mul_l({a}, {b})"),
        "/" if class.is_int() => format!("div_{}({a}, {b})", class.suffix()),
        "%" => format!("fmod_{}({a}, {b})", class.suffix()),
        _ => format!("({a} {op} {b})"),
    }
}

/// The truth of a comparison.
pub fn compared(class: Class, op: &str, a: &str, b: &str) -> String {
    let less = match class {
        Class::I64 => "lt_l",
        Class::U64 => "lt_ul",
        _ => return format!("({a} {op} {b})"),
    };
    match op {
        "==" => format!("eq_l({a}, {b})"),
        "!=" => format!("(!eq_l({a}, {b}))"),
        "<" => format!("{less}({a}, {b})"),
        ">" => format!("{less}({b}, {a})"),
        "<=" => format!("(!{less}({b}, {a}))"),
        _ => format!("(!{less}({a}, {b}))"),
    }
}

/// The row's text with these operands, computed in a class: its value and whether it is a boolean. `None` if it
/// calls a function that is not `known` for the class. `condition` is the class of the first operand where it is the
/// condition of a choice.
pub fn write(
    code: &str,
    class: Class,
    condition: Class,
    args: &[String],
    known: &dyn Fn(&str) -> bool,
) -> Option<(String, bool)> {
    let mut p = Parser { rest: code };
    let e = p.choice()?;
    if !p.rest.trim().is_empty() {
        return None;
    }
    let w = Writer { class, args, condition, known };
    Some(match w.any(&e)? {
        Text::Value(v) => (v, false),
        Text::Truth(t) => (t, true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, class: Class, want: &str) {
        let args = ["a", "b", "c"].map(str::to_string);
        let got = write(code, class, Class::I32, &args, &|_| true).expect("it is an expression").0;
        assert_eq!(got, want, "{code}");
    }

    #[test]
    fn writes_rows_for_each_class() {
        check("({0} + {1})", Class::F32, "(a + b)");
        check("({0} + {1})", Class::I64, "add_l(a, b)");
        check("({0} <= {1})", Class::U64, "(!lt_ul(b, a))");
        check("({0} ? {1} : {2})", Class::F32, "select(c, b, (a != 0))");
        check("(1 / (1 + exp(-{0})))", Class::F32, "(f32(1.0) / (f32(1.0) + exp_f((-a))))");
        check("({0} != {0})", Class::F32, "is_nan_f(a)");
        check("floor({0})", Class::I32, "a");
        check("py_rem({0}, {1})", Class::U32, "py_rem_u(a, b)");
    }

    #[test]
    fn refuses_what_the_device_lacks() {
        let args = ["a".to_string()];
        assert!(write("polygamma({0})", Class::F32, Class::F32, &args, &|_| false).is_none());
        assert!(write("({0} + ", Class::F32, Class::F32, &args, &|_| true).is_none());
    }
}
