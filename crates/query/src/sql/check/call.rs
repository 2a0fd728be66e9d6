//! Calls: is there such a function, and may it be called so and here?

use super::Checker;
use crate::aggregate::Aggregate;
use crate::function::Function;
use crate::sql::ast::Expr;
use crate::sql::error::Span;
use crate::sql::lexer::{Lexer, TokenKind};
use partita_model::{Number, Value};

impl<'a> Checker<'a> {
    /// `expr` is a call. Its arguments are looked at first.
    pub(super) fn call(&mut self, expr: &'a Expr) {
        let Expr::Call { name, name_span, span, arguments } = expr else { return };
        arguments.iter().for_each(|argument| self.expr(argument));
        if is_full_text_score(name) {
            let message = "The FullTextScore function is only allowed in the ORDER BY RANK clause.";
            self.complain("SC2240", *span, message);
        } else if is_aggregate(name) {
            self.aggregate(name, *span, arguments);
        } else {
            self.function(name, *name_span, *span, arguments);
        }
    }

    fn aggregate(&mut self, name: &str, span: Span, arguments: &[Expr]) {
        if arguments.len() != 1 {
            let name = name.to_ascii_uppercase();
            self.complain("SC2050", span, format!("The {name} function requires 1 argument(s)."));
        }
        // The service runs sums of subqueries only in a subquery, where it need not merge them.
        let outermost = self.depth == 1;
        let composed = |part: &Expr| match part {
            Expr::Subquery { .. } => outermost,
            Expr::Call { name, .. } => is_aggregate(name),
            _ => false,
        };
        if arguments.iter().any(|argument| argument.any(&composed)) {
            let message = "Cannot perform an aggregate function on an expression containing an \
                           aggregate or a subquery.";
            self.complain("SC2101", span, message);
        }
    }

    /// A function with the right number of arguments. Rank fusion is no function outside of its
    /// clause.
    pub(super) fn function(&mut self, name: &str, name_span: Span, span: Span, arguments: &[Expr]) {
        match Function::by_name(name) {
            Some(function) if !is_rank_fusion(name) => {
                if let Some(message) = function.count_complaint(arguments.len()) {
                    self.complain("SC2050", span, message);
                }
            }
            Some(_) | None => {
                let message = format!("'{name}' is not a recognized built-in function name.");
                self.complain("SC2005", name_span, message);
            }
        }
        if is_vector_distance(name) {
            self.vector_options(span, arguments);
        }
    }

    /// The options of VectorDistance are known beforehand, and one of them has a range.
    fn vector_options(&mut self, call: Span, arguments: &[Expr]) {
        const OPTIONS: usize = 3;
        let Some(Expr::Object(members)) = arguments.get(OPTIONS) else { return };
        let multiplier = members.iter().find(|(name, _)| name == "searchListSizeMultiplier");
        let Some((_, Expr::Literal(Value::Number(number)))) = multiplier else { return };
        if !matches!(number, Number::Int(1..=100)) {
            let message = format!(
                "The 'searchListSizeMultiplier' value {} specified in the VectorDistance function \
                 is outside the supported range. The value must be between 1 and 100.",
                Value::Number(*number)
            );
            let span = self.argument_span(call, OPTIONS).unwrap_or(call);
            self.complain("SC2213", span, message);
        }
    }

    /// Where an argument of a call stands that is not the first. The tree does not say, so the text
    /// is cut into tokens again.
    fn argument_span(&self, call: Span, wanted: usize) -> Option<Span> {
        let mut lexer = Lexer::new(self.written(call), self.parameters);
        let (mut depth, mut argument, mut found) = (0usize, 0, None);
        loop {
            let token = lexer.next_token().ok()?;
            match token.kind {
                TokenKind::End => return found,
                TokenKind::Symbol(")") if depth == 1 => return found,
                TokenKind::Symbol(",") if depth == 1 => {
                    argument += 1;
                    continue;
                }
                TokenKind::Symbol("(" | "[" | "{") => depth += 1,
                TokenKind::Symbol(")" | "]" | "}") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if argument == wanted {
                let (start, end) = (call.start + token.span.start, call.start + token.span.end);
                found = Some(Span::new(found.map_or(start, |span: Span| span.start), end));
            }
        }
    }
}

pub(super) fn is_aggregate(name: &str) -> bool {
    Aggregate::by_name(name).is_some()
}

pub(super) fn is_full_text_score(name: &str) -> bool {
    name.eq_ignore_ascii_case("FullTextScore")
}

pub(super) fn is_vector_distance(name: &str) -> bool {
    name.eq_ignore_ascii_case("VectorDistance")
}

pub(super) fn is_rank_fusion(name: &str) -> bool {
    name.eq_ignore_ascii_case("RRF")
}
