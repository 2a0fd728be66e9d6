//! Which of two vector distances is the better one.
//!
//! By cosine and dot product the greater number is the nearer vector, by Euclidean distance the
//! smaller. The call itself may say which it means, else the container's policy for the path does,
//! else it is cosine.

use super::rewrite::is_call;
use crate::sql::ast::Expr;
use crate::sql::lower::{self, Parameters};
use crate::sql::naming::step_name;
use partita_model::{VectorDistance, VectorEmbeddingPolicy};

pub(super) fn is_distance(expr: &Expr) -> bool {
    is_call(expr, "VectorDistance")
}

/// Does the nearest vector have the greatest number? `None` if it is no distance.
pub(super) fn nearest_is_greatest(
    expr: &Expr,
    parameters: &Parameters,
    policy: Option<&VectorEmbeddingPolicy>,
) -> Option<bool> {
    let Expr::Call { arguments, .. } = expr else { return None };
    if !is_distance(expr) {
        return None;
    }
    let stated = arguments.get(3).and_then(|options| stated(options, parameters));
    let function = stated.or_else(|| arguments.iter().find_map(|path| of_path(path, policy?)));
    Some(function != Some(VectorDistance::Euclidean))
}

/// What the options object of the call says.
fn stated(options: &Expr, parameters: &Parameters) -> Option<VectorDistance> {
    let options = lower::constant(options, parameters)?;
    let (_, function) = options
        .as_object()?
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("distanceFunction"))?;
    let names = [
        ("cosine", VectorDistance::Cosine),
        ("dotproduct", VectorDistance::DotProduct),
        ("euclidean", VectorDistance::Euclidean),
    ];
    let name = function.as_str()?;
    names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| found)
}

/// What the policy says of the path.
fn of_path(expr: &Expr, policy: &VectorEmbeddingPolicy) -> Option<VectorDistance> {
    let Expr::Path { steps, .. } = expr else { return None };
    let names: Vec<&str> = steps.iter().map(step_name).collect::<Option<_>>()?;
    let embedding = policy.embeddings.iter().find(|one| one.path.segments() == names)?;
    Some(embedding.distance)
}
