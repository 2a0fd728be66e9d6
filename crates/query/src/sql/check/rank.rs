//! `ORDER BY RANK`: one scoring function, or several fused by RRF with weights if wanted.

use super::Checker;
use super::call::{is_full_text_score, is_rank_fusion, is_vector_distance};
use crate::sql::ast::Expr;
use crate::sql::error::Span;
use partita_model::Value;

impl<'a> Checker<'a> {
    /// `clause` is the place of the whole clause, which is what most complaints point at.
    pub(super) fn rank(&mut self, functions: &'a [Expr], clause: Span) {
        match functions {
            [Expr::Call { name, arguments, .. }] if is_rank_fusion(name) => {
                self.rank_fusion(arguments, clause);
            }
            [component] => self.rank_component(component, clause),
            _ => self.no_ranking(clause),
        }
    }

    fn rank_fusion(&mut self, arguments: &'a [Expr], clause: Span) {
        let (components, weights) = match arguments {
            [components @ .., weights] if !is_scoring(weights) && !is_fusion(weights) => {
                (components, Some(weights))
            }
            components => (components, None),
        };
        if components.len() < 2 {
            return self.no_ranking(clause);
        }
        for component in components {
            self.rank_component(component, clause);
        }
        if weights.is_some_and(|weights| !are_weights(weights, components.len())) {
            let message = "The last parameter of the RRF function is an optional array of \
                           weights. When present, it must be a literal array of numbers, one for \
                           each of the component scores used for the RRF function. The length of \
                           this array must be the same as the number of the component scores.";
            self.complain("SC2229", clause, message);
        }
    }

    fn rank_component(&mut self, component: &'a Expr, clause: Span) {
        let Expr::Call { name, name_span, span, arguments } = component else {
            return self.no_ranking(clause);
        };
        if is_fusion(component) {
            // Only the clause itself knows of it.
            return self.function(name, *name_span, *span, arguments);
        }
        if !is_scoring(component) {
            return self.no_ranking(clause);
        }
        let (path, terms) = match arguments.as_slice() {
            [path, terms @ ..] => (Some(path), terms),
            [] => (None, &[][..]),
        };
        if let Some(path) = path {
            self.expr(path);
        }
        if is_vector_distance(name) {
            terms.iter().for_each(|argument| self.expr(argument));
        } else if !terms.iter().all(is_search_term) {
            self.complain_plainly(
                "The second through last arguments of the FullTextScore function must be literals \
                 of type string or object.",
            );
        }
        self.function(name, *name_span, *span, arguments);
    }

    fn no_ranking(&mut self, clause: Span) {
        let message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                       FullTextScore function call.";
        self.complain("SC2221", clause, message);
    }
}

fn is_scoring(expr: &Expr) -> bool {
    match expr {
        Expr::Call { name, .. } => is_full_text_score(name) || is_vector_distance(name),
        _ => false,
    }
}

fn is_fusion(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { name, .. } if is_rank_fusion(name))
}

fn are_weights(weights: &Expr, components: usize) -> bool {
    let Expr::Array(weights) = weights else { return false };
    let is_number = |weight: &Expr| matches!(weight, Expr::Literal(Value::Number(_)));
    weights.len() == components && weights.iter().all(is_number)
}

/// A term, a fuzzy term or a list of terms; none may depend on the item.
fn is_search_term(term: &Expr) -> bool {
    match term {
        Expr::Literal(Value::String(_)) | Expr::Parameter { .. } => true,
        Expr::Array(terms) => terms.iter().all(is_search_term),
        Expr::Object(members) => {
            let constant =
                |value: &Expr| matches!(value, Expr::Literal(_) | Expr::Parameter { .. });
            members.iter().all(|(_, value)| constant(value))
        }
        _ => false,
    }
}
