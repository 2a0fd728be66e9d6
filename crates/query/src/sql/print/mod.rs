//! The syntax tree as text again.
//!
//! A query plan hands clients a query that each partition can answer alone: the author's query,
//! printed again with other clauses around it. The text follows the service's own: one clause per
//! line, a subquery indented by four spaces, every operation in brackets, strings in double quotes,
//! `AS` always written. What can be written in two ways stays as its author wrote it (`.a` or
//! `["a"]`, the case of a function's name, `ASC` or nothing).
//!
//! Invariant: the printed text parses to a query of the same meaning.

use super::ast::{
    Collection, Count, Direction, Expr, From, OffsetLimit, OrderBy, OrderItem, PathStep, Query,
    Select, SelectItem, Selection, Source, SourceKind, SubqueryKind,
};
use super::number;
use super::parser::is_reserved;
use crate::ir::{BinaryOperator, UnaryOperator};
use partita_model::{Value, json};

/// So many operators of one level nest in the printed text. A longer run is printed without inner
/// brackets: it means the same, and a thousand brackets would be too deep to parse again.
const NESTED_OPERATORS_MAX: usize = 8;

/// One level of subquery.
const INDENT: &str = "    ";

/// A whole query.
pub(crate) fn query(query: &Query) -> String {
    printed(|printer| printer.query(query))
}

/// An expression as it stands in a clause of an unindented query.
pub(crate) fn expr(expr: &Expr) -> String {
    printed(|printer| printer.expr(expr))
}

/// The FROM clause with its JOINs, each on its own line.
pub(crate) fn from(from: &From) -> String {
    printed(|printer| printer.from(from))
}

/// `ORDER BY …`
pub(crate) fn order_by(order_by: &OrderBy) -> String {
    printed(|printer| printer.order_by(order_by))
}

/// The number of TOP, OFFSET or LIMIT.
pub(crate) fn count(count: &Count) -> String {
    printed(|printer| printer.count(count))
}

/// A string literal.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::new();
    json::write_string(&mut out, text);
    out
}

fn printed(print: impl FnOnce(&mut Printer)) -> String {
    let mut printer = Printer { out: String::new(), level: 0 };
    print(&mut printer);
    printer.out
}

struct Printer {
    out: String,
    /// How many subqueries the text stands in.
    level: usize,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.level {
            self.out.push_str(INDENT);
        }
    }

    fn comma_separated<T>(&mut self, items: &[T], mut print: impl FnMut(&mut Printer, &T)) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.put(", ");
            }
            print(self, item);
        }
    }

    fn query(&mut self, query: &Query) {
        self.select(&query.select);
        if let Some(from) = &query.from {
            self.line();
            self.from(from);
        }
        if let Some(condition) = &query.condition {
            self.line();
            self.put("WHERE ");
            self.expr(condition);
        }
        if !query.group_by.is_empty() {
            self.line();
            self.put("GROUP BY ");
            self.comma_separated(&query.group_by, |printer, expr| printer.expr(expr));
        }
        if let Some(order_by) = &query.order_by {
            self.line();
            self.order_by(order_by);
        }
        if let Some(OffsetLimit { offset, limit }) = &query.offset_limit {
            self.line();
            self.put("OFFSET ");
            self.count(offset);
            self.put(" LIMIT ");
            self.count(limit);
        }
    }

    fn select(&mut self, select: &Select) {
        self.put("SELECT ");
        if select.distinct {
            self.put("DISTINCT ");
        }
        if let Some(top) = &select.top {
            self.put("TOP ");
            self.count(top);
            self.put(" ");
        }
        match &select.selection {
            Selection::Everything(_) => self.put("*"),
            Selection::Value(expr) => {
                self.put("VALUE ");
                self.expr(expr);
            }
            Selection::List(items) => self.comma_separated(items, Printer::select_item),
        }
    }

    fn select_item(&mut self, item: &SelectItem) {
        self.expr(&item.expr);
        if let Some(alias) = &item.alias {
            self.put(" AS ");
            if is_bare_name(alias) { self.put(alias) } else { self.string(alias) }
        }
    }

    fn from(&mut self, from: &From) {
        self.put("FROM ");
        self.source(&from.first);
        for join in &from.joins {
            self.line();
            self.put("JOIN ");
            self.source(join);
        }
    }

    fn source(&mut self, source: &Source) {
        match &source.kind {
            SourceKind::Iterate { name, collection } => {
                self.put(name);
                self.put(" IN ");
                self.collection(collection);
            }
            SourceKind::Whole { collection, alias } => {
                self.collection(collection);
                if let Some(alias) = alias {
                    self.put(" AS ");
                    self.put(alias);
                }
            }
        }
    }

    fn collection(&mut self, collection: &Collection) {
        match collection {
            Collection::Path { root, steps, .. } => {
                self.put(root);
                self.steps(steps);
            }
            Collection::Subquery(query) => self.subquery(query),
            Collection::Call(call) => self.expr(call),
        }
    }

    fn subquery(&mut self, query: &Query) {
        self.put("(");
        self.level += 1;
        self.line();
        self.query(query);
        self.level -= 1;
        self.line();
        self.put(")");
    }

    fn order_by(&mut self, order_by: &OrderBy) {
        self.put("ORDER BY ");
        match order_by {
            OrderBy::Items(items) => self.comma_separated(items, Printer::order_item),
            OrderBy::Rank { functions, .. } => {
                self.put("RANK ");
                self.comma_separated(functions, |printer, expr| printer.expr(expr));
            }
        }
    }

    fn order_item(&mut self, item: &OrderItem) {
        self.expr(&item.expr);
        match item.direction {
            None => {}
            Some(Direction::Ascending) => self.put(" ASC"),
            Some(Direction::Descending) => self.put(" DESC"),
        }
    }

    fn count(&mut self, count: &Count) {
        match count {
            Count::Literal { number, .. } => number::write(&mut self.out, *number),
            Count::Parameter { name, .. } => self.put(name),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Undefined => self.put("undefined"),
            Expr::Literal(value) => self.value(value),
            Expr::Name { name, .. } | Expr::Parameter { name, .. } => self.put(name),
            Expr::Path { base, steps, .. } => {
                self.base(base);
                self.steps(steps);
            }
            Expr::Array(elements) => {
                self.put("[");
                self.list(elements);
                self.put("]");
            }
            Expr::Object(members) => self.object(members),
            Expr::Call { name, arguments, .. } => self.call("", name, arguments),
            Expr::Udf { name, arguments, .. } => self.call("udf.", name, arguments),
            Expr::Subquery { kind, query, .. } => {
                self.put(subquery_word(*kind));
                self.subquery(query);
            }
            operation => {
                self.put("(");
                self.operation(operation);
                self.put(")");
            }
        }
    }

    /// What a path starts with. A number would take the dot for its own, and leave its minus.
    fn base(&mut self, base: &Expr) {
        let number = matches!(base, Expr::Literal(Value::Number(_)));
        self.put(if number { "(" } else { "" });
        self.expr(base);
        self.put(if number { ")" } else { "" });
    }

    /// What stands in brackets.
    fn operation(&mut self, expr: &Expr) {
        match expr {
            Expr::Unary { operator, operand } => {
                self.put(unary_word(*operator));
                self.put(" ");
                self.expr(operand);
            }
            Expr::Chain { first, rest } => self.chain(first, rest),
            Expr::In { negated, operand, list } => {
                self.expr(operand);
                self.put(if *negated { " NOT IN (" } else { " IN (" });
                self.list(list);
                self.put(")");
            }
            Expr::Between { negated, operand, low, high } => {
                self.expr(operand);
                self.put(if *negated { " NOT BETWEEN " } else { " BETWEEN " });
                self.expr(low);
                self.put(" AND ");
                self.expr(high);
            }
            Expr::Like { negated, operand, pattern, escape } => {
                self.expr(operand);
                self.put(if *negated { " NOT LIKE " } else { " LIKE " });
                self.expr(pattern);
                if let Some(escape) = escape {
                    self.put(" ESCAPE ");
                    self.string(escape.encode_utf8(&mut [0; 4]));
                }
            }
            Expr::Coalesce(choices) => self.coalesce(choices),
            Expr::Conditional { condition, then, otherwise } => {
                self.expr(condition);
                self.put(" ? ");
                self.expr(then);
                self.put(" : ");
                self.expr(otherwise);
            }
            Expr::Let { name, value, body } => {
                self.put("LET ");
                self.put(name);
                self.put(" = ");
                self.expr(value);
                self.put(" IN ");
                self.expr(body);
            }
            plain => self.expr(plain),
        }
    }

    /// `((a + b) - c) + d`, and `a + b - c + d` when that would nest too deep.
    fn chain(&mut self, first: &Expr, rest: &[(BinaryOperator, Expr)]) {
        let nested = rest.len() <= NESTED_OPERATORS_MAX;
        let inner = rest.len().saturating_sub(1);
        if nested {
            (0..inner).for_each(|_| self.put("("));
        }
        self.expr(first);
        for (index, (operator, operand)) in rest.iter().enumerate() {
            self.put(" ");
            self.put(binary_word(*operator));
            self.put(" ");
            self.expr(operand);
            if nested && index < inner {
                self.put(")");
            }
        }
    }

    /// `a ?? (b ?? c)`, the same in length.
    fn coalesce(&mut self, choices: &[Expr]) {
        let inner = match choices.len() {
            long if long > NESTED_OPERATORS_MAX => 0,
            short => short.saturating_sub(2),
        };
        for (index, choice) in choices.iter().enumerate() {
            if index > 0 {
                self.put(" ?? ");
            }
            if (1..=inner).contains(&index) {
                self.put("(");
            }
            self.expr(choice);
        }
        (0..inner).for_each(|_| self.put(")"));
    }

    fn call(&mut self, prefix: &str, name: &str, arguments: &[Expr]) {
        self.put(prefix);
        self.put(name);
        self.put("(");
        self.list(arguments);
        self.put(")");
    }

    fn list(&mut self, exprs: &[Expr]) {
        self.comma_separated(exprs, |printer, expr| printer.expr(expr));
    }

    fn object(&mut self, members: &[(String, Expr)]) {
        self.put("{");
        self.comma_separated(members, |printer, (name, expr)| {
            printer.string(name);
            printer.put(": ");
            printer.expr(expr);
        });
        self.put("}");
    }

    fn steps(&mut self, steps: &[PathStep]) {
        for step in steps {
            match step {
                PathStep::Member(name) => {
                    self.put(".");
                    self.put(name);
                }
                PathStep::Index { index, .. } => {
                    self.put("[");
                    self.expr(index);
                    self.put("]");
                }
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(true) => self.put("true"),
            Value::Bool(false) => self.put("false"),
            Value::Number(number) => number::write(&mut self.out, *number),
            Value::String(text) => self.string(text),
            Value::Array(elements) => {
                self.put("[");
                self.comma_separated(elements, |printer, element| printer.value(element));
                self.put("]");
            }
            Value::Object(object) => {
                let members: Vec<(&str, &Value)> = object.iter().collect();
                self.put("{");
                self.comma_separated(&members, |printer, (name, value)| {
                    printer.string(name);
                    printer.put(": ");
                    printer.value(value);
                });
                self.put("}");
            }
        }
    }

    fn string(&mut self, text: &str) {
        json::write_string(&mut self.out, text);
    }
}

/// Can the name be written without quotes?
fn is_bare_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !is_reserved(name)
}

fn subquery_word(kind: SubqueryKind) -> &'static str {
    match kind {
        SubqueryKind::Scalar => "",
        SubqueryKind::Exists => "EXISTS",
        SubqueryKind::Array => "ARRAY",
        SubqueryKind::All => "ALL",
        SubqueryKind::First => "FIRST",
        SubqueryKind::Last => "LAST",
    }
}

fn unary_word(operator: UnaryOperator) -> &'static str {
    match operator {
        UnaryOperator::Minus => "-",
        UnaryOperator::Plus => "+",
        UnaryOperator::BitNot => "~",
        UnaryOperator::Not => "NOT",
    }
}

fn binary_word(operator: BinaryOperator) -> &'static str {
    match operator {
        BinaryOperator::Or => "OR",
        BinaryOperator::And => "AND",
        BinaryOperator::Equal => "=",
        BinaryOperator::NotEqual => "!=",
        BinaryOperator::Less => "<",
        BinaryOperator::LessOrEqual => "<=",
        BinaryOperator::Greater => ">",
        BinaryOperator::GreaterOrEqual => ">=",
        BinaryOperator::ShiftLeft => "<<",
        BinaryOperator::ShiftRight => ">>",
        BinaryOperator::ShiftRightUnsigned => ">>>",
        BinaryOperator::Concat => "||",
        BinaryOperator::Add => "+",
        BinaryOperator::Subtract => "-",
        BinaryOperator::BitAnd => "&",
        BinaryOperator::BitOr => "|",
        BinaryOperator::BitXor => "^",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Remainder => "%",
    }
}

#[cfg(test)]
mod tests;
